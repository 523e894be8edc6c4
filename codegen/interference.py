"""Which temporaries may not share bytes, and which may share some: what a placement in RAM has to respect.

Without in-place operators, two temporaries that are live at the same program point (`codegen.live_ranges`) keep clear of
each other: Shiftry Section 7. With them, liveness is taken apart further: before and after each operation, following
loops round until nothing changes, so that a value is held only where some path still reads it. What an operation reads
for the last time it may overwrite as `codegen.in_place` allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kilotune.codegen import ir
from kilotune.codegen.in_place import WriteOrder, write_orders
from kilotune.codegen.live_ranges import in_ram, live_ranges
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps

LABEL_BYTES = 2
"""What ArgMax and Sign write, whatever their variable's width."""


@dataclass(frozen=True)
class Meeting:
    """`result` is written by the operation of number `row` that reads `operand` for the last time."""

    result: str
    operand: str
    order: WriteOrder
    row: int = field(compare=False)


@dataclass(frozen=True)
class Instant:
    """Temporaries that hold values at the same time; `meetings` of an operation are what may be overwritten in it."""

    held: frozenset[str]
    meetings: tuple[Meeting, ...] = ()


@dataclass(frozen=True)
class Interference:
    """Temporaries in order of first use, their elements, and who meets whom.

    `apart`: pairs that share nothing. `meetings`: pairs that share what every one of their operations allows. `instants`:
    sets of temporaries that hold values together, for lower bounds. `rows`: what holds values at some time during each
    operation, in program order: what its scratch memory keeps clear of.
    """

    program: ir.Program
    names: tuple[str, ...]
    apart: frozenset[tuple[str, str]]
    meetings: tuple[Meeting, ...]
    instants: tuple[Instant, ...]
    rows: tuple[frozenset[str], ...]

    @cached_property
    def elements(self) -> dict[str, int]:
        """Number of elements by temporary."""
        return {name: self.program.variable(name).size for name in self.names}

    @cached_property
    def labels(self) -> frozenset[str]:
        """Temporaries that hold labels."""
        return ir.label_variables(self.program)

    def element_bytes(self, bits: Mapping[str, int]) -> dict[str, int]:
        """Bytes of an element by temporary, from widths in bits by variable."""
        return {name: LABEL_BYTES if name in self.labels else bits[name] // 8 for name in self.names}


def find_interference(
    program: ir.Program, in_place: bool = True, steps: LoopedSteps | None = None, *, with_input: bool = False
) -> Interference:
    """The interference of a program's temporaries, with or without in-place operators. `steps`: what `loop_steps` gives, where the caller
    has it already. `with_input`: the input lies among them, there from the beginning until it is read for the last time."""
    ranges = live_ranges(program, with_input)
    names = tuple(ranges)
    if not in_place:
        points = range(1, max((r.end for r in ranges.values()), default=0) + 1)
        held = [frozenset(n for n in names if ranges[n].start <= p <= ranges[n].end) for p in points]
        instants = tuple(Instant(together) for together in dict.fromkeys(held))
        rows = tuple(held[: sum(1 for _ in ir.operations(program.body))])
        return Interference(program, names, _pairs(held), (), instants, rows)
    orders = write_orders(loop_steps(program) if steps is None else steps, with_input)
    flow = _Flow(program, with_input)
    meetings: list[Meeting] = []
    held, during = [], []
    for row, operation in enumerate(ir.operations(program.body)):
        before, after = flow.before[row], flow.after[row]
        out = operation.out.variable
        written = after | ({out} if out in names else set())
        dying = before - written
        met = tuple(Meeting(out, name, orders[row, name], row) for name in sorted(dying) if (row, name) in orders)
        shared = {meeting.operand for meeting in met}
        held += [frozenset(before), frozenset(written | (dying - shared))]
        meetings += met
        during.append(Instant(frozenset(before | written), met))
    instants = tuple(dict.fromkeys([*(Instant(together) for together in held), *during]))
    rows = tuple(instant.held for instant in during)
    return Interference(program, names, _pairs(held), tuple(meetings), instants, rows)


def _pairs(held: list[frozenset[str]]) -> frozenset[tuple[str, str]]:
    return frozenset((a, b) for together in set(held) for a in together for b in together if a < b)


class _Flow:
    """Temporaries that hold a value which is still read, before and after each operation: a backward data flow.

    A value is only held where a write may have come before it, so that tensors written part by part do not reach back to
    the start of the program.
    """

    def __init__(self, program: ir.Program, with_input: bool = False) -> None:
        self._temporaries = in_ram(program, with_input)
        self._sizes = {v.name: v.size for v in program.variables}
        count = sum(1 for _ in ir.operations(program.body))
        self.before: list[set[str]] = [set() for _ in range(count)]
        self.after: list[set[str]] = [set() for _ in range(count)]
        self._reached: list[set[str]] = [set() for _ in range(count)]
        end = {program.result.variable} & self._temporaries
        self._backward(program.body, count, end)
        given = set() if program.input is None else {program.input.name}
        self._forward(program.body, 0, given & self._temporaries)
        for row, operation in enumerate(ir.operations(program.body)):
            self.before[row] &= self._reached[row]
            self.after[row] &= self._reached[row] | {operation.out.variable}

    def _backward(self, body: tuple[ir.Statement, ...], row: int, live: set[str]) -> set[str]:
        """Live before `body`, whose rows end before `row`, when `live` are live after it."""
        for statement in reversed(body):
            if isinstance(statement, ir.Periodic):
                live = self._backward(statement.body, row, live)
                row -= len(statement.body)
                continue
            if isinstance(statement, ir.Loop):
                entry: set[str] = set()
                while True:
                    grown = self._backward(statement.body, row, live | entry)
                    if grown <= entry:
                        break
                    entry |= grown
                live = entry
                row -= sum(1 for _ in ir.operations(statement.body))
                continue
            row -= 1
            self.after[row] |= live
            out = statement.out
            if out.size == self._sizes[out.variable]:
                live = live - {out.variable}
            read = {o.variable for o in statement.operands if isinstance(o, ir.View)} & self._temporaries
            live = live | read
            self.before[row] |= live
        return live

    def _forward(self, body: tuple[ir.Statement, ...], row: int, written: set[str]) -> tuple[int, set[str]]:
        """The row after `body` and what may be written by then, when `written` may be before it."""
        for statement in body:
            if isinstance(statement, ir.Periodic):
                row, written = self._forward(statement.body, row, written)
                continue
            if isinstance(statement, ir.Loop):
                inside = {o.out.variable for o in ir.operations(statement.body)}
                row, _ = self._forward(statement.body, row, written | inside)
                written = written | inside
                continue
            self._reached[row] |= written
            written = written | {statement.out.variable}
            row += 1
        return row, written
