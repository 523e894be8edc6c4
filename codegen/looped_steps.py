"""A program as steps in loops: what `codegen.straight_line` resolves each operation to, once, and by how much element numbers
move with the loops.

Loops stay loops, so a program takes as much memory and preparation as it is long, however often its loops run. Loop indices
count from 0 here, whatever their first value is in the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.straight_line import NOWHERE, Elements, GridAxes, OperationInstance, instances

BLOCK_BYTES = 128 << 20
"""How much intermediate values may take, of the samples that run together."""

LEAST_IN_GRID = 512
"""How many element numbers make it worth knowing whether they lie in a grid: values are copied faster so than one by one."""

ElementMoves = tuple[tuple[str, int], ...]
"""(loop index, by how much element numbers grow when it grows by one), without zeros."""


@dataclass(frozen=True)
class Step:
    """One operation, or one group of a convolution. `first`: in the first round of all its loops. `out_moves`, and `moves` of each source:
    how element numbers change with the loops."""

    first: OperationInstance
    out_moves: ElementMoves
    moves: tuple[ElementMoves, ...]

    def at(self, indices: Mapping[str, int]) -> OperationInstance:
        """What is executed when the loops around are at `indices`."""
        if not self.out_moves and not any(self.moves):
            return self.first
        sources = tuple(
            replace(source, elements=moved(source.elements, place(moves, indices))) if moves else source
            for source, moves in zip(self.first.sources, self.moves, strict=True)
        )
        return replace(self.first, out=moved(self.first.out, place(self.out_moves, indices)), sources=sources)

    @property
    def indices(self) -> tuple[str, ...]:
        """The loops with which any element numbers move."""
        return tuple(dict.fromkeys(name for moves in (self.out_moves, *self.moves) for name, _ in moves))


@dataclass(frozen=True)
class RepeatedSteps:
    """`body` for `index` = 0, 1, ..., count - 1."""

    index: str
    count: int
    body: Body


Body = tuple[Step | RepeatedSteps, ...]


@dataclass(frozen=True)
class LoopedSteps:
    """The steps of a program. Iterating goes through all that is executed, in order, loop by loop.

    `copies`: how many places there are for each element of a variable, one after the other; one where nothing is said.
    """

    program: ir.Program
    body: Body
    copies: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __iter__(self) -> Iterator[OperationInstance]:
        yield from executed(self.body, {})

    def __reversed__(self) -> Iterator[OperationInstance]:
        yield from _executed_backwards(self.body, {})

    def __len__(self) -> int:
        return executions_of(self.body)

    @cached_property
    def places(self) -> tuple[tuple[Step, Mapping[str, int]], ...]:
        """Every step, in order, with the numbers of rounds of the loops around it."""
        return tuple(_places(self.body, {}))

    @cached_property
    def temporaries(self) -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
        """For every part of the body, a step or a loop: the temporaries that are touched in it for the first time, and for the last time.
        The result is never touched for the last time."""
        names = {v.name for v in self.program.variables if v.role is ir.Role.TEMPORARY}
        touched = [variables_in((part,)) & names for part in self.body]
        first = {name: number for number, some in reversed(list(enumerate(touched))) for name in some}
        last = {name: number for number, some in enumerate(touched) for name in some}
        last.pop(self.program.result.variable, None)
        return tuple(
            (
                frozenset(name for name in some if first[name] == number),
                frozenset(name for name in some if last.get(name) == number),
            )
            for number, some in enumerate(touched)
        )

    @cached_property
    def elements_at_once(self) -> int:
        """Values of a sample that are held at the same time where temporaries are forgotten after the part that touches them for the last
        time: of variables, and what a step writes and reads (twice, since a product brings it in order)."""
        held = 0 if self.program.input is None else self.program.input.size
        most = held
        for part, (first, last) in zip(self.body, self.temporaries, strict=True):
            held += sum(self.size(name) for name in first)
            most = max(most, held + max((_elements(step.first) for step, _ in _places((part,), {})), default=0))
            held -= sum(self.size(name) for name in last)
        return most

    @cached_property
    def elements_touched(self) -> int:
        """Values that all steps of a sample write and read: how long it takes to execute them all, as a number of values."""
        return sum(_elements(step.first) * math.prod(counts.values()) for step, counts in self.places)

    @cached_property
    def elements_in_all(self) -> int:
        """Values of a sample that are held where all variables are kept: `elements_at_once` is what forgetting some leaves."""
        stored = sum(self.size(v.name) for v in self.program.variables if v.role is not ir.Role.PARAMETER)
        return stored + max((_elements(step.first) for step, _ in self.places), default=0)

    def size(self, name: str) -> int:
        """Elements of a variable, with all copies."""
        return self._sizes[name] * self.copies.get(name, 1)

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        return {variable.name: variable.size for variable in self.program.variables}


def unrolled(steps: LoopedSteps) -> LoopedSteps:
    """Steps one after the other, without loops: for programs of some hundred steps that are executed again and again, since
    element numbers are then known for every round."""
    return replace(steps, body=tuple(Step(step, (), ((),) * len(step.sources)) for step in steps))


def loop_steps(program: ir.Program) -> LoopedSteps:
    """The steps of a program in its loops. Element numbers that are consecutive share their storage."""
    return LoopedSteps(program, _Resolving(program).body(program.body, {}))


def sample_blocks(elements: int, samples: int) -> Iterator[slice]:
    """Which samples to run together, so that so many values of each take no more than about BLOCK_BYTES at eight bytes each: blocks of
    about equal size, all samples where that is little."""
    together = max(1, BLOCK_BYTES // (8 * max(1, elements)))
    size = -(-samples // -(-samples // together)) if samples else 1
    for start in range(0, samples, size):
        yield slice(start, start + size)


def moved(elements: Elements, by: int) -> Elements:
    """Element numbers further on by so many; what is nowhere stays there."""
    if by == 0:
        return elements
    return np.where(elements == NOWHERE, np.int32(NOWHERE), elements + np.int32(by))


def in_grids(instance: OperationInstance) -> OperationInstance:
    """The instance with the grids that its element numbers lie in, where they are not consecutive."""
    sources = (s if s.consecutive else replace(s, grid=grid_of(s.elements)) for s in instance.sources)
    return replace(instance, grid=None if instance.consecutive else grid_of(instance.out), sources=tuple(sources))


def grid_of(elements: Elements) -> GridAxes | None:
    """The grid that LEAST_IN_GRID element numbers or more lie in, in row-major order; None where they lie in none, or are fewer."""
    rows, axes = elements.reshape(-1), []
    if rows.size < LEAST_IN_GRID or rows.min() == NOWHERE:
        return None
    while rows.size > 1:
        step = int(rows[1]) - int(rows[0])
        others = np.flatnonzero(np.diff(rows) != step)
        count = int(others[0]) + 1 if others.size else rows.size
        if rows.size % count:
            return None
        lines = rows.reshape(-1, count)
        if not np.array_equal(lines, lines[:, :1] + step * np.arange(count)):
            return None
        axes.append((count, step))
        rows = lines[:, 0]
    return tuple(reversed(axes))


def place(moves: ElementMoves, indices: Mapping[str, int]) -> int:
    """By how much element numbers have moved when loops are at `indices`."""
    return sum(factor * indices[name] for name, factor in moves)


def offsets(moves: ElementMoves, counts: Mapping[str, int]) -> np.ndarray:
    """By how much element numbers have moved in all rounds of the loops `counts`, the last one running fastest: [rounds]."""
    factors = dict(moves)
    total = np.zeros(1, dtype=np.int64)
    for name, count in counts.items():
        total = (total[:, None] + factors.get(name, 0) * np.arange(count)).reshape(-1)
    return total


def executions_of(body: Body) -> int:
    """How many steps are executed in a body."""
    return sum(part.count * executions_of(part.body) if isinstance(part, RepeatedSteps) else 1 for part in body)


class _Resolving:
    def __init__(self, program: ir.Program) -> None:
        self._rows = {id(operation): row for row, operation in enumerate(ir.operations(program.body))}
        self._unrolled: set[str] = set()
        self._counting = np.arange(max((v.size for v in program.variables), default=0), dtype=np.int32)

    def body(self, body: tuple[ir.Statement, ...], starts: Mapping[str, int]) -> Body:
        """`starts`: the first values of the loops around."""
        made: list[Step | RepeatedSteps] = []
        for statement in body:
            if isinstance(statement, ir.Periodic):
                raise TypeError("what runs in some rounds of a loop is resolved with the loop")
            if not isinstance(statement, ir.Loop):
                made += self._steps(statement, starts)
            elif any(isinstance(inner, ir.Periodic) for inner in statement.body):
                made += self._one_by_one(statement, starts)
            else:
                inside = self.body(statement.body, {**starts, statement.index: statement.start})
                made.append(RepeatedSteps(statement.index, statement.count, inside))
        return tuple(made)

    def _one_by_one(self, loop: ir.Loop, starts: Mapping[str, int]) -> Iterator[Step | RepeatedSteps]:
        """All rounds of a loop, of which some have steps that others have not."""
        for number in range(loop.start, loop.start + loop.count):
            body: list[ir.Statement] = []
            for statement in loop.body:
                if not isinstance(statement, ir.Periodic):
                    body.append(statement)
                elif statement.runs_in(number):
                    body += statement.body
            self._unrolled.add(loop.index)
            yield from self.body(tuple(body), {**starts, loop.index: number})
            self._unrolled.remove(loop.index)

    def _steps(self, operation: ir.Operation, starts: Mapping[str, int]) -> Iterator[Step]:
        moves = tuple(self._moving(operand) for operand in operation.operands)
        for one in instances(operation, self._rows[id(operation)], dict(starts)):
            out, out_consecutive = self._shared(one.out)
            sources = []
            for source in one.sources:
                elements, consecutive = self._shared(source.elements)
                sources.append(replace(source, elements=elements, consecutive=consecutive))
            first = replace(one, out=out, sources=tuple(sources), consecutive=out_consecutive)
            yield Step(in_grids(first), self._moving(operation.out), moves)

    def _moving(self, operand: ir.Operand) -> ElementMoves:
        """How element numbers change with the loops that stay loops."""
        terms = operand.offset.terms if isinstance(operand, ir.View) else ()
        return tuple((name, factor) for name, factor in terms if name not in self._unrolled)

    def _shared(self, elements: Elements) -> tuple[Elements, bool]:
        """The element numbers, as a part of `_counting` where they are consecutive, and whether they are."""
        flat = elements.reshape(-1)
        if not flat.size or flat[0] < 0 or flat[-1] - flat[0] + 1 != flat.size:
            return elements, False
        counted = self._counting[flat[0] : flat[0] + flat.size]
        return (counted.reshape(elements.shape), True) if np.array_equal(counted, flat) else (elements, False)


def executed(body: Body, indices: Mapping[str, int]) -> Iterator[OperationInstance]:
    """All that a body executes, in order, when the loops around it are at `indices`."""
    for part in body:
        if isinstance(part, Step):
            yield part.at(indices)
            continue
        for index in range(part.count):
            yield from executed(part.body, {**indices, part.index: index})


def _executed_backwards(body: Body, indices: Mapping[str, int]) -> Iterator[OperationInstance]:
    for part in reversed(body):
        if isinstance(part, Step):
            yield part.at(indices)
            continue
        for index in reversed(range(part.count)):
            yield from _executed_backwards(part.body, {**indices, part.index: index})


def variables_in(body: Body) -> set[str]:
    """Variables that are read or written."""
    operations = (step.first.operation for step, _ in _places(body, {}))
    return {view.variable for one in operations for view in (one.out, *one.operands) if isinstance(view, ir.View)}


def _places(body: Body, counts: Mapping[str, int]) -> Iterator[tuple[Step, Mapping[str, int]]]:
    for part in body:
        if isinstance(part, Step):
            yield part, counts
        else:
            yield from _places(part.body, {**counts, part.index: part.count})


def _elements(instance: OperationInstance) -> int:
    return instance.out.size + 2 * sum(source.elements.size for source in instance.sources)
