"""When each variable holds a value that is still needed: live ranges over program points (Shiftry Section 7).

Program points number the operations in program order from 1, loop bodies once. A range is closed: it runs from the
first operation that writes the variable to the last one that reads it, so the operands and the result of one
operation are live together. A loop runs its body again, so a value that enters a loop from outside, or that is carried
from one iteration to the next, lives to the end of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir


@dataclass(frozen=True)
class LiveRange:
    """First and last program point, both inclusive."""

    start: int
    end: int

    def overlaps(self, other: LiveRange) -> bool:
        """Whether both are live at some point."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True)
class _Span:
    """The program points of a loop's body."""

    start: int
    end: int


def in_ram(program: ir.Program, with_input: bool = False) -> frozenset[str]:
    """What a placement in RAM has to place: temporaries; `with_input`: and the input, which lies among them."""
    roles = {ir.Role.TEMPORARY, ir.Role.INPUT} if with_input else {ir.Role.TEMPORARY}
    return frozenset(v.name for v in program.variables if v.role in roles)


def live_ranges(program: ir.Program, with_input: bool = False) -> dict[str, LiveRange]:
    """The live range of every temporary that the program uses, in order of first use; `with_input`: and of the input, from point 0 on."""
    points: dict[str, list[tuple[int, bool]]] = {}
    placed = in_ram(program, with_input)
    temporaries = {v.name: v.size for v in program.variables if v.name in placed}
    if with_input and program.input is not None:
        points[program.input.name] = [(0, True)]
    last = 0
    for last, operation in enumerate(ir.operations(program.body), start=1):
        for operand in operation.operands:
            if isinstance(operand, ir.View) and operand.variable in temporaries:
                points.setdefault(operand.variable, []).append((last, False))
        if operation.out.variable in temporaries:
            whole = operation.out.size == temporaries[operation.out.variable]
            points.setdefault(operation.out.variable, []).append((last, whole))
    if program.result.variable in temporaries:
        points.setdefault(program.result.variable, []).append((last + 1, False))
    loops = list(_spans(program.body, 1))
    return {name: _range(uses, loops) for name, uses in points.items()}


def _spans(body: tuple[ir.Statement, ...], start: int) -> Iterator[_Span]:
    """Loops, inner ones before the loops around them."""
    for statement in body:
        if isinstance(statement, ir.Loop):
            yield from _spans(statement.body, start)
            count = sum(1 for _ in ir.operations(statement.body))
            yield _Span(start, start + count - 1)
            start += count
        elif isinstance(statement, ir.Periodic):
            start += len(statement.body)
        else:
            start += 1


def _range(uses: list[tuple[int, bool]], loops: list[_Span]) -> LiveRange:
    """From uses (program point, whether it writes the whole variable)."""
    start, end = min(point for point, _ in uses), max(point for point, _ in uses)
    for loop in loops:
        inside = [(point, writes) for point, writes in uses if loop.start <= point <= loop.end]
        if not inside:
            continue
        enters = start < loop.start or not _written_first(inside)
        leaves = end > loop.end
        if enters:
            start, end = min(start, loop.start), max(end, loop.end)
        elif leaves:
            # the value of the last iteration is read later; earlier ones may be overwritten
            start = min(start, loop.start)
    return LiveRange(start, end)


def _written_first(inside: list[tuple[int, bool]]) -> bool:
    """Whether the first thing that a loop's body does with the variable is to write all of it, without reading it there."""
    first = min(point for point, _ in inside)
    return all(writes for point, writes in inside if point == first)


def liveness(program: ir.Program) -> tuple[tuple[str, ...], npt.NDArray[np.bool_]]:
    """Names of the temporaries, and [program points, temporaries]: which are live where."""
    ranges = live_ranges(program)
    names = tuple(ranges)
    points = max((r.end for r in ranges.values()), default=0)
    table = np.zeros((points + 1, len(names)), dtype=bool)
    for column, name in enumerate(names):
        table[ranges[name].start : ranges[name].end + 1, column] = True
    return names, table[1:]


def peak_bytes(program: ir.Program, sizes: Mapping[str, int]) -> int:
    """The largest sum of live sizes over all program points: what no placement can beat."""
    names, live = liveness(program)
    return int((live @ np.array([sizes[name] for name in names], dtype=np.int64)).max(initial=0))
