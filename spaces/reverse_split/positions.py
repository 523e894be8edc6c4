"""Kernels whose results may lie anywhere, all at the same place: a candidate says where, and has a program that puts them there.

An element then holds the results at the pixel `(x, y)` cells away from it, of every kernel the same. Moves that only bring results home
are saved: of Roberts' [[1, 0], [0, -1]] one of two macros.

Why no other position need be searched: a program's moves reach every cell of every kernel from the image, so a bound on its cost grows
with the distance (`bounds.SumBounds`), and beyond some distance it exceeds any known cost. All positions within that distance are asked
for the bound, those that are below the known cost are searched, one of each class that symmetries of the kernels turn into one another,
and the bound of all is the least of what was proved at each and of what is known of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import Clock, ExactStep, Measurement, Option, Trial
from kilotune.spaces.reverse_split.bounds import SumBounds, bounds_of
from kilotune.spaces.reverse_split.exact import costs_of
from kilotune.spaces.reverse_split.first_program import objective_of
from kilotune.spaces.reverse_split.improvement import plan_cost
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.several import SeveralKernels
from kilotune.spaces.reverse_split.space import SEMANTICS, ReverseSplitSpace
from kilotune.spaces.reverse_split.symmetries import SQUARE, Symmetry, turned_cell, turned_sum

POSITION = "position"
HOME: Cell = (0, 0)

FARTHEST = 24
"""Cells to either side within which every position is asked for its bound: at least eleven macros away."""

MOST_POSITIONS = 128
"""Positions that are searched, those of the least bounds; the bound of all is no greater than that of the first that is not."""

SEARCHED_AT_ONCE = 6
"""Positions whose searches go on in turn."""

SHARE_AT_HOME = 0.5
"""How much of the time is for the kernels where they are, unless their program is proved before: long programs come from long searches."""


@dataclass(frozen=True)
class Positions:
    """Where results may lie, the kernels' own position first; and the least cost of programs for all other positions."""

    searched: Mapping[Cell, int]
    """A bound by position."""

    others: int


def positions_below(bounds: SumBounds, cost: int, most: int = MOST_POSITIONS) -> Positions:
    """All positions whose bound is below a cost, but for those that a symmetry makes counterparts of others, `most` at most."""
    # At a position outside the square no cell of the kernels is nearer to the image than its side less what the nearest may come back.
    if not bounds.wanted:
        return Positions({HOME: 0}, cost)
    near = min(max(abs(x), abs(y)) for total in bounds.wanted for (x, y), _ in total)
    side = near
    while side < FARTHEST + near and bounds.with_moves(side + 1 - near) < cost:
        side += 1
    others = bounds.with_moves(side + 1 - near)
    reached = {(x, y): bounds.at((x, y)) for x in range(-side, side + 1) for y in range(-side, side + 1)}
    ordered = sorted(reached, key=lambda at: (at != HOME, reached[at], abs(at[0]) + abs(at[1]), at))
    turns, seen, below = kernel_turns(bounds.wanted), set[Cell](), list[Cell]()
    for at in ordered:
        if at in seen:
            continue
        seen.update(_sum(by, turned_cell(at, symmetry)) for symmetry, by in turns)
        if at == HOME or reached[at] < cost:
            below.append(at)
    others = min([others, *(reached[at] for at in below[most:])])
    return Positions({at: reached[at] for at in below[:most]}, others)


def kernel_turns(sums: Sequence[Sum]) -> tuple[tuple[Symmetry, Cell], ...]:
    """Symmetries of the square that make of the sums the same ones, all moved by a cell."""
    every, found = frozenset(sums), list[tuple[Symmetry, Cell]]()
    if not every:
        return ()
    corner = _corner(sums)
    for symmetry in SQUARE:
        turned = [turned_sum(total, symmetry) for total in sums]
        there = _corner(turned)
        back = (corner[0] - there[0], corner[1] - there[1])
        if frozenset(total.shifted(back) for total in turned) == every:
            found.append((symmetry, (-back[0], -back[1])))
    return tuple(found)


class PositionSpace(SeveralKernels):
    """The shortest program of kernels whose results may lie at any common position; one objective, no front."""

    why_no_model = "of results that may lie anywhere: leave --anywhere out, or choose another strategy"

    def __init__(self, problem: SplitProblem) -> None:
        """ValueError for a front."""
        if problem.goal is KernelGoal.FRONT:
            raise ValueError("Results that may lie anywhere do not go with a front of transfers and noise.")
        costs, home = costs_of(objective_of(problem)), ReverseSplitSpace(problem)
        bounds = bounds_of(problem.wanted, problem.depth, problem.target, costs)
        self.positions = positions_below(bounds, plan_cost(home.first_plan, costs))
        spaces: dict[Option, ReverseSplitSpace] = {position_name(HOME): home}
        for at in self.positions.searched:
            if at != HOME:
                spaces[position_name(at)] = ReverseSplitSpace(replace(problem, kernels=problem.kernels.at(at)))
        super().__init__(POSITION, spaces)
        self.objectives = self.spaces[self.first].objectives

    @cached_property
    def least(self) -> float:
        """No program at any position has less of the first objective."""
        return float(min(self.positions.others, *self.positions.searched.values()))

    @cached_property
    def fingerprint(self) -> str:
        """That of the kernels where they are, and that they may lie anywhere."""
        return fingerprint(self.name, SEMANTICS, "anywhere", self.spaces[self.first].fingerprint)

    def exact_search(self, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """The search at home, for `SHARE_AT_HOME` of the time or until it ends, then at other positions in turn: those whose bound is below
        the best cost. Complete when no position is left."""
        return self.exact_search_after((), seed, seconds_left)

    def exact_search_after(
        self, trials: Sequence[Trial], seed: int, seconds_left: Callable[[], float]
    ) -> Iterator[ExactStep]:
        """The search at each position goes on from its best programs and from what earlier runs have noted; else as `exact_search`."""
        search = _PositionSearch(self, self.searches_after(trials, seed), seconds_left)
        for trial in trials:
            search.take_in(trial.assignment[POSITION], trial.measurement)
        yield from search.steps()


class _PositionSearch:
    """Where the searches at all positions stand."""

    def __init__(
        self,
        space: PositionSpace,
        searches: Mapping[Option, Callable[[Clock], Iterator[ExactStep]]],
        seconds_left: Callable[[], float],
    ) -> None:
        """`searches`: what begins the one at a position by its clock."""
        self._space, self._searches, self._seconds_left = space, searches, seconds_left
        self._until = (1.0 - SHARE_AT_HOME) * seconds_left()
        self._bounds: dict[Option, float] = {
            position_name(at): float(bound) for at, bound in space.positions.searched.items()
        }
        self._waiting = list(self._bounds)
        self._live: dict[Option, Iterator[ExactStep]] = {}
        self._best, self._where = math.inf, space.first

    def steps(self) -> Iterator[ExactStep]:
        while self._started():
            for option, search in list(self._live.items()):
                if self._is_settled(option):
                    del self._live[option]
                    continue
                step = next(search, None)
                if step is None or step.complete:
                    del self._live[option]
                if step is not None:
                    yield self._noted(option, step)

    def _started(self) -> bool:
        """Begins searches as there is room for them; whether any goes on."""
        at_home = self._seconds_left() > self._until
        while self._waiting and len(self._live) < (1 if at_home else SEARCHED_AT_ONCE):
            option = self._waiting.pop(0)
            if not self._is_settled(option):
                space = self._space.spaces[option]
                space.threads = self._space.threads
                self._live[option] = self._searches[option](self._share)
        return bool(self._live)

    def _share(self) -> float:
        """What one position has of the seconds left."""
        left = self._seconds_left()
        return left - self._until if left > self._until else left / max(1, len(self._live))

    def _is_settled(self, option: Option) -> bool:
        """No program there is better than the best, which is elsewhere."""
        return self._bounds[option] >= self._best and option != self._where

    def take_in(self, option: Option, measured: Measurement) -> None:
        """What a program at a position measures."""
        loss = self._space.objectives[0].loss(measured.metrics) if measured.failure is None else math.inf
        if loss < self._best:
            self._best, self._where = loss, option

    def _noted(self, option: Option, step: ExactStep) -> ExactStep:
        self._bounds[option] = max(self._bounds[option], step.bound)
        candidate = None
        if step.candidate is not None:
            candidate = self._space.chosen(option, step.candidate)
            self.take_in(option, self._space.evaluate([candidate])[0])
        bound = min(self._best, float(self._space.positions.others), *self._bounds.values())
        left = [*self._waiting, *self._live]
        return ExactStep(candidate, bound, bound >= self._best and all(self._is_settled(one) for one in left))


def position_name(at: Cell) -> str:
    """The option of a position: "x y"."""
    return f"{at[0]} {at[1]}"


def _sum(one: Cell, other: Cell) -> Cell:
    return one[0] + other[0], one[1] + other[1]


def _corner(sums: Sequence[Sum]) -> Cell:
    """The least x and the least y of all cells."""
    cells = [cell for total in sums for cell, _ in total]
    return min(x for x, _ in cells), min(y for _, y in cells)
