"""The search behind `exhaustive`: splits first, then programs of any kind from the best of them on, and the proof.

Splits: the compiled search in rounds, with other orders and register counts each time (restarts, for a depth-first search is
trapped in a bad first subtree). Every plan near the best is relaxed, not the first one. Programs: see `exact.py`; they
start from the best plans of splits, and between them the rounds of splits go on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TYPE_CHECKING

from kilotune.codegen.scamp.plan import Plan
from kilotune.search.space import Assignment
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.compiled import SplitLimits, SplitPlan, search_splits
from kilotune.spaces.reverse_split.exact import shortest_program
from kilotune.spaces.reverse_split.measuring import SPARE_DEPTH, Goal, SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.procedure import PLAIN_NODE_LIMIT, plain_search
from kilotune.spaces.reverse_split.programs import BUS_TRANSFERS, INSTRUCTIONS, Costs, load_kernel
from kilotune.spaces.reverse_split.splits import start_sums

if TYPE_CHECKING:
    from kilotune.spaces.reverse_split.space import ReverseSplitSpace

FIRST_NODES = 20_000
MOST_NODES = 256_000
"""Of a round of the split search; about 5 microseconds each for small kernels, 100 for large ones."""

RELAXED_A_ROUND = 4
CANDIDATES_FIRST = 12
"""Plans of splits, before anything else."""

MOST_STARTS = 4
SPLIT_EVERY = 4

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


def search_programs(space: ReverseSplitSpace) -> Iterator[Standing]:
    """Ends with a complete standing when the best candidate is proved; else it is for the caller to stop asking."""
    pool, bound = _Pool(space), space.least
    splits = split_candidates(space)
    for candidate in islice(splits, CANDIDATES_FIRST):
        pool.add(candidate)
        yield Standing(candidate, bound, pool.best <= bound)
        if pool.best <= bound:
            return
    if load_kernel() is None:
        return
    problem = space.problem
    wanted = [total.scaled(1 << SPARE_DEPTH) for total in problem.wanted]
    objective = "instructions" if problem.goal is Goal.INSTRUCTIONS else "transfers"
    found = shortest_program(
        wanted,
        problem.target,
        problem.depth + SPARE_DEPTH,
        objective,
        registers=problem.registers,
        starts=pool.plans[:MOST_STARTS],
    )
    for number, standing in enumerate(found):
        bound = max(bound, float(standing.bound))
        better = None
        if standing.plan is not None and standing.cost < pool.best:
            better = space.program_candidate(standing.plan)
        elif number % SPLIT_EVERY == 0:
            better = next(splits, None)
        if better is not None:
            pool.add(better)
        complete = pool.best <= bound
        yield Standing(better, min(bound, pool.best), complete)
        if complete:
            return


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

    def add(self, candidate: Assignment) -> None:
        """Keep the plan of a candidate that has a program."""
        loss = self._space.objectives[0].loss(self._space.evaluate([candidate])[0].metrics)
        if loss < math.inf:
            self.best = min(self.best, loss)
            self._plans.append((loss, self._space.program(candidate).plan))


def _costs(problem: SplitProblem) -> Costs:
    return INSTRUCTIONS if problem.goal is Goal.INSTRUCTIONS else BUS_TRANSFERS


def split_candidates(space: ReverseSplitSpace) -> Iterator[Assignment]:
    """Plans of growing rounds, best estimates first; none twice. The rounds end when one has visited all there is."""
    problem = space.problem
    seen: set[tuple[str, ...]] = set()
    best = 1 << 30
    for number, plans, complete in split_rounds(problem):
        fresh = [plan for plan in plans if plan.names not in seen]
        best = min([best, *(plan.relaxed for plan in fresh)])
        near = [plan for plan in fresh if plan.relaxed <= best + NEAR]
        for plan in near[:RELAXED_A_ROUND]:
            seen.add(plan.names)
            yield space.split_candidate(plan.names)
        if complete and number >= len(ORDERS) and not near:
            return


def split_rounds(problem: SplitProblem) -> Iterator[tuple[int, tuple[SplitPlan, ...], bool]]:
    """(round, plans best first, whether the round visited everything); ever longer rounds."""
    sums = start_sums(problem.wanted)
    if not sums:
        yield 0, (SplitPlan((), (), 1, 1),), True
        return
    registers = [r for r in dict.fromkeys((4, 3, problem.registers)) if len(sums) <= r <= problem.registers]
    registers = registers or [problem.registers]
    for number in count():
        nodes = min(FIRST_NODES << (number // (len(ORDERS) * len(registers))), MOST_NODES)
        limits = SplitLimits(nodes, registers[number % len(registers)])
        weights = ORDERS[number // len(registers) % len(ORDERS)]
        if number >= len(ORDERS) * len(registers):
            weights = replace(weights, noise=weights.noise + 0.25)
        report = search_splits(sums, problem.depth, limits, weights, seed=number)
        if report is None:
            plain = plain_search(sums, problem.depth, problem.registers, weights, PLAIN_NODE_LIMIT)
            yield number, (plain,) if plain else (), False
            return
        yield number, report.plans, report.complete and limits.registers == problem.registers
