"""A program written down step by step, every loop as often as it runs: what looped steps are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kilotune.codegen import ir
from kilotune.codegen.straight_line import OperationInstance, instances


def unrolled(program: ir.Program) -> tuple[OperationInstance, ...]:
    """All steps in the order of execution."""
    rows = {id(operation): row for row, operation in enumerate(ir.operations(program.body))}
    return tuple(_steps(program.body, rows, {}))


def executions(program: ir.Program) -> Iterator[Sequence[OperationInstance]]:
    """What an operation executes at a time: a step, or one for each group of a convolution."""
    steps = iter(unrolled(program))
    for step in steps:
        yield [step, *itertools.islice(steps, step.operation.steps - 1)]


def _steps(
    body: tuple[ir.Statement, ...], rows: dict[int, int], indices: dict[str, int]
) -> Iterator[OperationInstance]:
    for statement in body:
        if isinstance(statement, ir.Loop):
            for value in range(statement.start, statement.start + statement.count):
                yield from _steps(statement.body, rows, {**indices, statement.index: value})
        else:
            yield from instances(statement, rows[id(statement)], indices)
