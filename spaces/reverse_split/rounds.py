"""Rounds of the compiled search over splits: other orders and register counts each time, ever longer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from kilotune.search.space import Assignment
from kilotune.spaces.reverse_split.candidates import ReverseSplitCandidates
from kilotune.spaces.reverse_split.depth_first import SplitLimits, SplitPlan, search_splits
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.procedure import PLAIN_NODE_LIMIT
from kilotune.spaces.reverse_split.reference_search import reference_plans
from kilotune.spaces.reverse_split.splits import start_sums

FIRST_NODES = 20_000
MOST_NODES = 256_000
"""The most nodes of a round of the split search; about 5 microseconds each for small kernels. Those of large ones end earlier, by the work
that splitting.c counts."""

LEAST_NODES, NODES_A_SECOND = 100, 20_000
"""When the time is nearly up."""

RELAXED_A_ROUND = 4
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


def split_candidates(
    space: ReverseSplitCandidates, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf
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
    if not problem.splits_fit:
        return  # a state of splits holds all sums at once
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
        report = search_splits(
            sums, problem.depth, limits, weights, seed=seed * 1_000_003 + number, seconds_left=seconds_left
        )
        if report is None:
            limit = PLAIN_NODE_LIMIT
            for plan in reference_plans(sums, problem.depth, problem.registers, weights, limit, seconds_left):
                yield number, (plan,), False
            return
        yield number, report.plans, report.complete and limits.registers == problem.registers
