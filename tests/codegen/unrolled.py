"""A program written down step by step, every loop as often as it runs: what looped steps are compared with."""

from __future__ import annotations

from collections.abc import Iterator

from kilotune.codegen import ir
from kilotune.codegen.straight_line import OperationInstance, instances


def unrolled(program: ir.Program) -> tuple[OperationInstance, ...]:
    """All steps in the order of execution."""
    rows = {id(operation): row for row, operation in enumerate(ir.operations(program.body))}
    return tuple(_steps(program.body, rows, {}))


def _steps(
    body: tuple[ir.Statement, ...], rows: dict[int, int], indices: dict[str, int]
) -> Iterator[OperationInstance]:
    for statement in body:
        if isinstance(statement, ir.Loop):
            for value in range(statement.start, statement.start + statement.count):
                yield from _steps(statement.body, rows, {**indices, statement.index: value})
        else:
            yield from instances(statement, rows[id(statement)], indices)
