"""The search behind `exhaustive`: splits first, then programs of any kind from the best of them on, and the proof.

Splits: the compiled search in rounds, with other orders and register counts each time (restarts, for a depth-first search is
trapped in a bad first subtree). Every plan near the best is relaxed, not the first one. Programs: see `exact.py`; they
start from the best plans of splits, and between them the rounds of splits go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TYPE_CHECKING

from kilotune.codegen.scamp.plan import Plan
from kilotune.search.space import Assignment
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.compiled import SplitLimits, SplitPlan, search_splits
from kilotune.spaces.reverse_split.exact import costs_of, first_plans, shortest_program
from kilotune.spaces.reverse_split.improvement import plan_cost
from kilotune.spaces.reverse_split.measuring import SPARE_DEPTH, Goal, SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.procedure import PLAIN_NODE_LIMIT, plain_search
from kilotune.spaces.reverse_split.programs import Costs, load_kernel
from kilotune.spaces.reverse_split.splits import start_sums

if TYPE_CHECKING:
    from kilotune.spaces.reverse_split.space import ReverseSplitSpace

FIRST_NODES = 20_000
MOST_NODES = 256_000
"""Of a round of the split search; about 5 microseconds each for small kernels. Those of large ones end earlier, by the work
that splitting.c counts."""

LEAST_NODES, NODES_A_SECOND = 100, 20_000
"""When the time is nearly up."""

RELAXED_A_ROUND = 4
CANDIDATES_FIRST = 12
"""Plans of splits, before anything else."""

MOST_STARTS = 4
SPLIT_EVERY = 4
MOST_BARREN = 2

NEAR = 1
"""How many instructions a plan may be behind the best estimate to be relaxed all the same."""

ORDERS = (
    OrderWeights(),
    OrderWeights(remainder_penalty=1.5),
    OrderWeights(card_power=2.0, remainder_penalty=1.0),
    OrderWeights(noise=0.5),
    OrderWeights(distance_power=0.5, remainder_penalty=0.5, near_power=0.5),
    OrderWeights(noise=1.0, remainder_penalty=1.0),
)


@dataclass(frozen=True)
class Standing:
    """A candidate that is new, if there is one, and a bound on the first objective of all programs."""

    candidate: Assignment | None
    bound: float
    complete: bool


def least_cost(problem: SplitProblem) -> float:
    """Of the first objective, without a search."""
    return float(lower_bound(problem.wanted, problem.depth, problem.target, _costs(problem)))


def search_programs(
    space: ReverseSplitSpace, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf
) -> Iterator[Standing]:
    """Ends with a complete standing when the best candidate is proved; else it is for the caller to stop asking. Steps of
    about a second at most, and no longer than `seconds_left()` or so."""
    pool, bound = _Pool(space), space.least
    problem = space.problem
    wanted = [total.scaled(1 << SPARE_DEPTH) for total in problem.wanted]
    depth = problem.depth + SPARE_DEPTH
    first = min(first_plans(wanted, problem.target, depth, problem.registers), key=pool.cost, default=None)
    if first is not None:
        pool.add(space.program_candidate(first))
        yield Standing(space.program_candidate(first), bound, False)
    splits = split_candidates(space, seed, seconds_left)
    barren = 0  # rounds of splits in a row that gave nothing
    for candidate in islice(splits, CANDIDATES_FIRST):
        barren = barren + 1 if candidate is None else 0
        if candidate is not None:
            pool.add(candidate)
        yield Standing(candidate, bound, False)
        if pool.best <= bound or barren == MOST_BARREN:
            break
    if load_kernel() is None:
        return
    found = shortest_program(
        wanted,
        problem.target,
        depth,
        _objective(problem),
        registers=problem.registers,
        seed=seed,
        starts=pool.plans[:MOST_STARTS],
        seconds_left=seconds_left,
    )
    plan: Plan | None = None
    for number, standing in enumerate(found):
        bound = max(bound, float(standing.bound))
        candidate = None
        if standing.plan is not None and standing.plan != plan and standing.cost <= pool.best:
            plan = standing.plan
            candidate = space.program_candidate(plan)
        elif number % (SPLIT_EVERY * (1 + barren)) == 0 and pool.best > bound:
            candidate = next(splits, None)
            barren = barren + 1 if candidate is None else 0
        if candidate is not None:
            pool.add(candidate)
        complete = standing.complete and pool.best <= bound
        yield Standing(candidate, min(bound, pool.best), complete and problem.goal is not Goal.FRONT)
    if problem.goal is Goal.FRONT:
        yield from _front(space, seed, bound, splits)


def _front(
    space: ReverseSplitSpace, seed: int, bound: float, splits: Iterator[Assignment | None]
) -> Iterator[Standing]:
    return
    yield


class _Pool:
    """The best plans so far, in instructions of the target: where improvement starts."""

    def __init__(self, space: ReverseSplitSpace) -> None:
        self._space = space
        self.best = math.inf
        self._plans: list[tuple[float, Plan]] = []

    @property
    def plans(self) -> list[Plan]:
        """Cheapest first."""
        return [plan for _, plan in sorted(self._plans, key=lambda pair: pair[0])]

    def cost(self, plan: Plan) -> int:
        """What the first objective makes of a plan."""
        return plan_cost(plan, _costs(self._space.problem))

    def add(self, candidate: Assignment) -> None:
        """Keep the plan of a candidate that has a program."""
        loss = self._space.objectives[0].loss(self._space.evaluate([candidate])[0].metrics)
        if loss < math.inf:
            self.best = min(self.best, loss)
            self._plans.append((loss, self._space.program(candidate).plan))


def _objective(problem: SplitProblem) -> str:
    return "instructions" if problem.goal is Goal.INSTRUCTIONS else "transfers"


def _costs(problem: SplitProblem) -> Costs:
    return costs_of(_objective(problem))


def split_candidates(
    space: ReverseSplitSpace, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf
) -> Iterator[Assignment | None]:
    """Plans of growing rounds, best estimates first; none twice. None after a round without a new one. The rounds end when
    one has visited all there is."""
    problem = space.problem
    seen: set[tuple[str, ...]] = set()
    best = 1 << 30
    for number, plans, complete in split_rounds(problem, seed, seconds_left):
        fresh = [plan for plan in plans if plan.names not in seen]
        best = min([best, *(plan.relaxed for plan in fresh)])
        near = [plan for plan in fresh if plan.relaxed <= best + NEAR]
        for plan in near[:RELAXED_A_ROUND]:
            seen.add(plan.names)
            yield space.split_candidate(plan.names)
        if complete and number >= len(ORDERS) and not near:
            return
        if not near:
            yield None


def split_rounds(
    problem: SplitProblem, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf
) -> Iterator[tuple[int, tuple[SplitPlan, ...], bool]]:
    """(round, plans best first, whether the round visited everything); ever longer rounds."""
    sums = start_sums(problem.wanted)
    if not sums:
        yield 0, (SplitPlan((), (), 1, 1),), True
        return
    registers = [r for r in dict.fromkeys((4, 3, problem.registers)) if len(sums) <= r <= problem.registers]
    registers = registers or [problem.registers]
    for number in count():
        nodes = min(FIRST_NODES << (number // (len(ORDERS) * len(registers))), MOST_NODES)
        nodes = int(min(nodes, max(LEAST_NODES, NODES_A_SECOND * seconds_left())))
        limits = SplitLimits(nodes, registers[number % len(registers)])
        weights = ORDERS[number // len(registers) % len(ORDERS)]
        if number >= len(ORDERS) * len(registers):
            weights = replace(weights, noise=weights.noise + 0.25)
        report = search_splits(sums, problem.depth, limits, weights, seed=seed * 1_000_003 + number)
        if report is None:
            plain = plain_search(sums, problem.depth, problem.registers, weights, PLAIN_NODE_LIMIT)
            yield number, (plain,) if plain else (), False
            return
        yield number, report.plans, report.complete and limits.registers == problem.registers
