"""Loops whose rounds do not need one another, as steps that run all rounds at once.

A detector of faces runs the same recurrences at a thousand places of an image; one round after the other, each of a thousand
small steps, an interpreter takes a minute for what arrays compute in a second. Where rounds are independent, a step is executed for
all of them before the next step is ("loop distribution", Allen and Kennedy, TOPLAS 1987), and temporaries that every round writes
before it reads them get a copy for each round ("privatisation"). Values are what they were, since every sum has the same terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.looped_steps import (
    Body,
    ElementMoves,
    LoopedSteps,
    RepeatedSteps,
    Step,
    loop_steps,
)
from kilotune.codegen.rounds_at_once import all_rounds, one_by_one
from kilotune.codegen.straight_line import elements_of

MANY_STEPS = 1 << 12
"""From so many steps on a program is executed with rounds at once."""

MOST_IN_SEQUENCE = 1 << 19
"""The most steps that are executed one after the other: some seconds for a block of samples."""

MOST_ELEMENTS = 1 << 22
"""The most elements that all copies of temporaries have, and that one step writes or reads."""


def float_steps(program: ir.Program) -> LoopedSteps:
    """The steps of a program as NumPy executes them soonest: few of them one by one, many with independent rounds at once."""
    return with_rounds_at_once(loop_steps(program))


def with_rounds_at_once(steps: LoopedSteps) -> LoopedSteps:
    """`wide_steps` where there are MANY_STEPS; else the same ones. InputError where more than MOST_IN_SEQUENCE are left."""
    if len(steps) < MANY_STEPS:
        return steps
    wide = steps if _has_periodic(steps.program.body) else wide_steps(steps)
    if len(wide) > MOST_IN_SEQUENCE:
        loop = next(statement for statement in steps.program.body if isinstance(statement, ir.Loop))
        expected = f"at most {MOST_IN_SEQUENCE} operations that need one another"
        raise InputError.at(loop.location, "loop", expected, str(len(wide)))
    return wide


def _has_periodic(body: tuple[ir.Statement, ...]) -> bool:
    """Whether some operations run in some rounds only: such loops are resolved round by round already."""
    return any(isinstance(s, ir.Periodic) or (isinstance(s, ir.Loop) and _has_periodic(s.body)) for s in body)


def wide_steps(steps: LoopedSteps) -> LoopedSteps:
    """The steps of a program with all rounds of independent loops at once, as far as MOST_ELEMENTS has room for them."""
    return _Widening(steps).run()


@dataclass(frozen=True)
class _Around:
    """The loops around a statement: the first values of all their indices, and the counts of those that run at once."""

    starts: Mapping[str, int] = field(default_factory=dict)
    wide: Mapping[str, int] = field(default_factory=dict)

    def inside(self, loop: ir.Loop, at_once: bool) -> _Around:
        wide = {**self.wide, loop.index: loop.count} if at_once else self.wide
        return _Around({**self.starts, loop.index: loop.start}, wide)

    @property
    def rounds(self) -> int:
        """How many rounds run at once."""
        return ir.count_elements(tuple(self.wide.values()))


@dataclass(frozen=True)
class _Touch:
    """An operation that reads or writes a variable, with the loops around it inside the loop that is looked at."""

    operation: ir.Operation
    loops: tuple[ir.Loop, ...]

    def reads(self, name: str) -> bool:
        return any(isinstance(o, ir.View) and o.variable == name for o in self.operation.operands)

    def writes(self, name: str) -> bool:
        return self.operation.out.variable == name


class _Widening:
    def __init__(self, steps: LoopedSteps) -> None:
        self._program = program = steps.program
        self._steps: dict[int, list[Step]] = {}  # by operation
        for step, _ in steps.places:
            self._steps.setdefault(id(step.first.operation), []).append(step)
        self._sizes = {v.name: v.size for v in program.variables}
        self._given = {v.name for v in program.variables if v.role is not ir.Role.TEMPORARY}
        self._strides: dict[
            str, dict[str, int]
        ] = {}  # by variable: by how many elements its copies of a loop's rounds are apart
        self._copies: dict[str, int] = {}

    def run(self) -> LoopedSteps:
        body = self._body(self._program.body, _Around())
        return LoopedSteps(self._program, body, dict(self._copies))

    def _body(self, body: tuple[ir.Statement, ...], around: _Around) -> Body:
        made: list[Step | RepeatedSteps] = []
        for statement in body:
            assert not isinstance(statement, ir.Periodic)
            if not isinstance(statement, ir.Loop):
                made += self._widened(statement, around)
            elif self._takes_at_once(statement, around):
                made += self._body(statement.body, around.inside(statement, True))
            else:
                inside = self._body(statement.body, around.inside(statement, False))
                made.append(RepeatedSteps(statement.index, statement.count, inside))
        return tuple(made)

    # Which loops

    def _takes_at_once(self, loop: ir.Loop, around: _Around) -> bool:
        """Whether the rounds of a loop are independent and have room; then copies are made of what each of them has for itself."""
        touches = tuple(_touches(loop.body, ()))
        own = []
        for name in sorted({touch.operation.out.variable for touch in touches}):
            if self._is_own(name, loop, touches):
                own.append(name)
            elif not self._is_written_apart(name, loop, touches, around):
                return False
        rounds = around.rounds * loop.count
        more = sum(self._sizes[name] * self._copies.get(name, 1) * (loop.count - 1) for name in own)
        held = sum(self._sizes[name] * count for name, count in self._copies.items())
        if max(held + more, rounds * max(self._reach(touch.operation) for touch in touches)) > MOST_ELEMENTS:
            return False
        for name in own:
            before = self._copies.get(name, 1)
            self._strides.setdefault(name, {})[loop.index] = self._sizes[name] * before
            self._copies[name] = before * loop.count
        return True

    def _reach(self, operation: ir.Operation) -> int:
        """About how many elements an operation writes, or reads of what rounds have for themselves."""
        if isinstance(operation, ir.Conv2D):
            return operation.out.size * operation.taps // operation.b.shape[4]
        views = (o for o in operation.operands if isinstance(o, ir.View) and o.variable not in self._given)
        return max(operation.out.size, *(view.size for view in views), 1)

    def _is_own(self, name: str, loop: ir.Loop, touches: Sequence[_Touch]) -> bool:
        """Whether each round writes all of a variable before it reads any, and nothing outside the loop reads it."""
        first = next(touch for touch in touches if touch.reads(name) or touch.writes(name))
        whole = first.operation.out.size == self._sizes[name] and not first.reads(name)
        inside = {id(touch.operation) for touch in touches}
        outside = (_Touch(o, ()) for o in ir.operations(self._program.body) if id(o) not in inside)
        return whole and self._program.result.variable != name and not any(touch.reads(name) for touch in outside)

    def _is_written_apart(self, name: str, loop: ir.Loop, touches: Sequence[_Touch], around: _Around) -> bool:
        """Whether operations in the loop only write a variable: one alone in the order of the rounds, or each round other elements."""
        concerned = [touch for touch in touches if touch.reads(name) or touch.writes(name)]
        if any(touch.reads(name) for touch in concerned):
            return False
        alone = len(concerned) == 1 and not concerned[0].loops
        return alone or _differ(concerned, loop, around.starts, self._sizes[name])

    # What they become

    def _widened(self, operation: ir.Operation, around: _Around) -> Iterator[Step | RepeatedSteps]:
        for step in self._steps[id(operation)]:
            placed = self._with_copies(step, around)
            at_once = all_rounds(placed, around.wide) if around.wide else placed
            yield one_by_one(placed, around.wide) if at_once is None else at_once

    def _with_copies(self, step: Step, around: _Around) -> Step:
        """The step with what it touches moved to the copy of each round."""
        if not around.wide:
            return step
        out = self._copy_moves(step.first.operation.out.variable, step.out_moves, around)
        named = zip(step.first.sources, step.moves, strict=True)
        return replace(
            step, out_moves=out, moves=tuple(self._copy_moves(s.variable or "", m, around) for s, m in named)
        )

    def _copy_moves(self, variable: str, moves: ElementMoves, around: _Around) -> ElementMoves:
        strides = self._strides.get(variable, {})
        factors = dict(moves)
        for name in around.wide:
            factors[name] = factors.get(name, 0) + strides.get(name, 0)
        return tuple(sorted((name, factor) for name, factor in factors.items() if factor))


def _touches(body: tuple[ir.Statement, ...], loops: tuple[ir.Loop, ...]) -> Iterator[_Touch]:
    for statement in body:
        if isinstance(statement, ir.Loop):
            yield from _touches(statement.body, (*loops, statement))
        elif isinstance(statement, ir.Periodic):
            yield from _touches(statement.body, loops)
        else:
            yield _Touch(statement, loops)


def _differ(touches: Sequence[_Touch], loop: ir.Loop, starts: Mapping[str, int], size: int) -> bool:
    """Whether operations, which write one variable, write other elements in every round of a loop than in its other rounds, whatever the
    loops inside are at. No where their elements do not move alike with the loop and those around it."""
    steps = [_outside(touch) for touch in touches]
    if any(other != steps[0] for other in steps):
        return False
    written = np.unique(np.concatenate([_written_in_a_round(touch, loop, starts) for touch in touches]))
    if written.size * loop.count > size:
        return False
    every = written[:, None] + steps[0].get(loop.index, 0) * np.arange(loop.count)
    return np.unique(every).size == every.size


def _outside(touch: _Touch) -> dict[str, int]:
    """By loop, without those inside: by how much the places that are written move in a round."""
    inside = {inner.index for inner in touch.loops}
    return {name: factor for name, factor in touch.operation.out.offset.terms if name not in inside and factor}


def _written_in_a_round(touch: _Touch, loop: ir.Loop, starts: Mapping[str, int]) -> np.ndarray:
    """The places that an operation writes in the first round of a loop, in all rounds of the loops inside."""
    first_round = {**starts, **{inner.index: inner.start for inner in (loop, *touch.loops)}}
    written: np.ndarray = np.unique(elements_of(touch.operation.out, first_round))
    factors = dict(touch.operation.out.offset.terms)
    for inner in touch.loops:
        along = factors.get(inner.index, 0) * np.arange(inner.count)
        written = np.unique(written[:, None] + along)
    return written
