"""The search behind `exhaustive`: three searches take turns, and what one finds is where the next one starts.

Splits: the compiled search in rounds, with other orders and register counts each time (restarts, for a depth-first search is
trapped in a bad first subtree). Every plan near the best is relaxed, not the first one. Improvement: programs near the
best one, by large neighbourhoods. Proof: all programs of growing cost, as far as that goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TYPE_CHECKING

from kilotune.codegen.scamp.plan import Plan
from kilotune.search.space import Assignment
from kilotune.spaces.reverse_split.compiled import SplitLimits, SplitPlan, search_splits
from kilotune.spaces.reverse_split.improvement import improve, plan_cost
from kilotune.spaces.reverse_split.measuring import Goal, SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.programs import BUS_TRANSFERS, INSTRUCTIONS, load_kernel
from kilotune.spaces.reverse_split.splits import start_sums

if TYPE_CHECKING:
    from kilotune.spaces.reverse_split.space import ReverseSplitSpace

FIRST_NODES = 20_000
MOST_NODES = 256_000
"""Of a round of the split search; about 5 microseconds each for small kernels, 100 for large ones."""

RELAXED_A_ROUND = 4
STEPS_A_WALK = 12
CANDIDATES_FIRST = 12

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
    if not start_sums(problem.wanted):
        return 0.0
    return 0.0


def search_programs(space: ReverseSplitSpace) -> Iterator[Standing]:
    """Ends with a complete standing when the best candidate is proved."""
    pool = _Pool(space)
    splits, walks = split_candidates(space), improved_candidates(space, pool)
    turns = [(splits, CANDIDATES_FIRST), (walks, 1)]
    while turns:
        for turn, share in list(turns):
            taken = 0
            for candidate in islice(turn, share):
                taken += 1
                if candidate is not None:
                    pool.add(candidate)
                complete = pool.best <= space.least
                yield Standing(candidate, space.least, complete)
                if complete:
                    return
            if taken < share:
                turns.remove((turn, share))
        turns = [(turn, RELAXED_A_ROUND if turn is splits else 1) for turn, _ in turns]


class _Pool:
    """The best plans so far, in instructions of the target: where improvement starts."""

    def __init__(self, space: ReverseSplitSpace) -> None:
        self._space = space
        self.best = float("inf")
        self.plans: list[Plan] = []

    def add(self, candidate: Assignment) -> None:
        """Keep the plan of a candidate that is as good as the best."""
        loss = self._space.objectives[0].loss(self._space.evaluate([candidate])[0].metrics)
        if loss > self.best or loss == float("inf"):
            return
        if loss < self.best:
            self.best, self.plans = loss, []
        self.plans.append(self._space.program(candidate).plan)


def improved_candidates(space: ReverseSplitSpace, pool: _Pool) -> Iterator[Assignment | None]:
    """Walks from the best plans in turn, each for some steps: their plans where they are cheaper, else None."""
    if load_kernel() is None:
        return
    problem = space.problem
    costs = INSTRUCTIONS if problem.goal is Goal.INSTRUCTIONS else BUS_TRANSFERS
    for seed in count():
        if not pool.plans or not any(problem.wanted):
            yield None
            continue
        start = pool.plans[seed % len(pool.plans)]
        results = [total.scaled(1 << (start.depth - problem.depth)) for total in problem.wanted]
        cost, best = plan_cost(start, costs), pool.best
        for plan in islice(improve(start, results, costs, seed), STEPS_A_WALK):
            cheaper = plan_cost(plan, costs) < cost
            cost = min(cost, plan_cost(plan, costs))
            yield space.program_candidate(plan) if cheaper else None
            if pool.best < best:
                break


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
            return
        yield number, report.plans, report.complete and limits.registers == problem.registers
