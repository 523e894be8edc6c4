"""The search behind `exhaustive`: splits first, then programs of any kind from the best of them on, and the proof.

Splits: the compiled search in rounds, with other orders and register counts each time (restarts, for a depth-first search is
trapped in a bad first subtree). Every plan near the best is relaxed, not the first one. Programs: see `exact.py`; they
start from the best plans of splits, and between them the rounds of splits go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

from kilotune.codegen.scamp.plan import Plan
from kilotune.search.space import Assignment
from kilotune.spaces.reverse_split.candidates import ReverseSplitCandidates
from kilotune.spaces.reverse_split.exact import shortest_program
from kilotune.spaces.reverse_split.first_program import objective_of
from kilotune.spaces.reverse_split.front import ProgramFront
from kilotune.spaces.reverse_split.measuring import SPARE_DEPTH, KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.programs import load_kernel
from kilotune.spaces.reverse_split.rounds import split_candidates
from kilotune.spaces.reverse_split.search_standing import NOTHING_EARLIER, EarlierPrograms, SearchStanding

CANDIDATES_FIRST: Mapping[str, int] = MappingProxyType({"auke": 8, "scamp5": 0})
"""Plans of splits, before anything else. The macros do so much at once that walks are better from the start."""

CANDIDATES_WITHOUT_WALKS = 8
"""Plans of splits where there is no compiler, which walks need."""

SHARE_OF_SPLITS = 0.2
"""How much of the time they take: relaxing a plan of many instructions takes half a second."""

MOST_DIFFERENT = 0.5
"""Different weights a cell. Of single 8-bit 3x3 kernels one round and the plan that it ends with took 4 of 5 seconds."""

LAST_OF_SLOW_SPLITS = 0.25
"""When rounds of splits that take seconds have their turns: in the last part of the time. Before, they fall into the construction of long
kernels, which then ends without a program: four 8-bit 3x3 kernels took a second of three for a round, and 157 macros for 110."""

MOST_STARTS = 4
SPLIT_EVERY: Mapping[str, int] = MappingProxyType({"auke": 4, "scamp5": 40})
MOST_BARREN = 2
FRONT_A_TURN = 16


@dataclass(frozen=True)
class ProgramSearchStep:
    """A candidate that is new, if there is one, and a bound on the first objective of all programs. `standing`: what a later search may
    go on from, where the step has got further."""

    candidate: Assignment | None
    bound: float
    complete: bool
    standing: SearchStanding | None = None


def search_programs(
    space: ReverseSplitCandidates,
    seed: int = 0,
    seconds_left: Callable[[], float] = lambda: math.inf,
    threads: int = 1,
    earlier: EarlierPrograms = NOTHING_EARLIER,
) -> Iterator[ProgramSearchStep]:
    """Ends with a complete standing when the best candidate is proved, by so many threads; else, and for a front, it is for the caller
    to stop asking. Steps of about a second at most, and no longer than `seconds_left()` or so. It goes on from what is `earlier`."""
    cheapest = _cheapest(space, seed, seconds_left, threads, earlier)
    front = space.problem.goal is KernelGoal.FRONT
    yield from _with_front(space, cheapest, seed, earlier.candidates) if front else cheapest


def _cheapest(
    space: ReverseSplitCandidates,
    seed: int,
    seconds_left: Callable[[], float],
    threads: int,
    earlier: EarlierPrograms,
) -> Iterator[ProgramSearchStep]:
    """By the first objective, then by the others."""
    pool, bound = _Pool(space), space.least
    problem = space.problem
    wanted = [total.scaled(1 << SPARE_DEPTH) for total in problem.wanted]
    for known in earlier.candidates or [space.program_candidate(space.first_plan)]:
        pool.add(known)
        yield ProgramSearchStep(None if earlier.candidates else known, bound, False)
    splits = split_candidates(space, seed, seconds_left)
    walks = load_kernel() is not None
    barren = 0  # rounds of splits in a row that gave nothing
    if not earlier.standing.walking:
        barren = yield from _splits_first(pool, splits, walks, seconds_left)
    if not walks:
        return
    found = shortest_program(
        wanted,
        problem.target,
        problem.depth + SPARE_DEPTH,
        objective_of(problem),
        registers=problem.registers,
        seed=seed,
        starts=pool.plans[:MOST_STARTS],
        kept=problem.kept,
        least=int(space.least),
        seconds_left=seconds_left,
        threads=threads,
        begun=earlier.standing,
    )
    plan: Plan | None = None
    splits_every, splits_from = _turns_of_splits(problem, seconds_left())
    for number, standing in enumerate(found):
        bound = max(bound, float(standing.bound))
        candidate = None
        if standing.plan is not None and standing.plan != plan and standing.cost <= pool.best:
            plan = standing.plan
            candidate = space.program_candidate(plan)
        elif (number + 1) % (splits_every * (1 + barren)) == 0 and pool.best > bound and seconds_left() <= splits_from:
            candidate = next(splits, None)
            barren = barren + 1 if candidate is None else 0
        if candidate is not None:
            pool.add(candidate)
        complete = standing.complete and pool.best <= bound
        yield ProgramSearchStep(candidate, min(bound, pool.best), complete, standing.standing)


def _splits_first(
    pool: _Pool, splits: Iterator[Assignment | None], walks: bool, seconds_left: Callable[[], float]
) -> Generator[ProgramSearchStep, None, int]:
    """Plans of splits before anything else, into the pool; how many rounds in a row gave nothing at the end."""
    space, barren = pool.space, 0
    until = (1.0 - SHARE_OF_SPLITS) * seconds_left()
    for candidate in islice(splits, _candidates_first(space.problem) if walks else CANDIDATES_WITHOUT_WALKS):
        barren = barren + 1 if candidate is None else 0
        if candidate is not None:
            pool.add(candidate)
        yield ProgramSearchStep(candidate, space.least, False)
        if pool.best <= space.least or barren == MOST_BARREN or (walks and seconds_left() < until):
            break
    return barren


def _candidates_first(problem: SplitProblem) -> int:
    """Plans of splits before anything else; none for kernels whose rounds take seconds and end longer than what is constructed."""
    return 0 if _splits_are_slow(problem) else CANDIDATES_FIRST[problem.target]


def _turns_of_splits(problem: SplitProblem, seconds: float) -> tuple[int, float]:
    """After how many steps a round of splits has its turn, and from how many seconds before the end on."""
    slow = _splits_are_slow(problem)
    return SPLIT_EVERY["scamp5" if slow else problem.target], (LAST_OF_SLOW_SPLITS if slow else 1.0) * seconds


def _splits_are_slow(problem: SplitProblem) -> bool:
    """Long kernels, and those whose weights hardly repeat: a split saves where two parts are alike."""
    weights = [abs(weight) for total in problem.wanted for _, weight in total]
    different = {weight // (weight & -weight) for weight in weights}  # but for doublings
    return problem.has_many_digits or len(different) > MOST_DIFFERENT * len(weights)


def _with_front(
    space: ReverseSplitCandidates, cheapest: Iterator[ProgramSearchStep], seed: int, known: Sequence[Assignment]
) -> Iterator[ProgramSearchStep]:
    """The search for the fewest transfers, and in turn with it, and after it, what else is on the front."""
    front, bound, searching = ProgramFront(space, seed), space.least, True
    for candidate in known:
        front.add(candidate)
    others = front.candidates()
    while True:
        standing = next(cheapest, None) if searching else None
        searching = standing is not None and not standing.complete
        if standing is not None:
            bound = max(bound, standing.bound)
            if standing.candidate is not None:
                front.add(standing.candidate)
            yield ProgramSearchStep(standing.candidate, bound, False, standing.standing)
        tried = list(islice(others, FRONT_A_TURN))
        for candidate in tried:
            yield ProgramSearchStep(candidate if front.add(candidate) else None, bound, False)
        if not searching and not tried:
            return


class _Pool:
    """The best plans so far, in instructions of the target: where improvement starts."""

    def __init__(self, space: ReverseSplitCandidates) -> None:
        self.space = space
        self.best = math.inf
        self._plans: list[tuple[float, Plan]] = []

    @property
    def plans(self) -> list[Plan]:
        """Cheapest first."""
        return [plan for _, plan in sorted(self._plans, key=lambda pair: pair[0])]

    def add(self, candidate: Assignment) -> None:
        """Keep the plan of a candidate that has a program."""
        loss = self.space.objectives[0].loss(self.space.evaluate([candidate])[0].metrics)
        if loss < math.inf:
            self.best = min(self.best, loss)
            self._plans.append((loss, self.space.program(candidate).plan))
