"""The paper's own search: depth first, best pair first, cut by the cost of the best plan so far (AUKE Sections 3.1.3, 3.1.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kilotune.spaces.reverse_split.depth_first import MOST_DEPTH, SplitLimits, SplitPlan, search_splits
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights, ordered
from kilotune.spaces.reverse_split.pairs import largest_splits
from kilotune.spaces.reverse_split.reference_search import reference_plans
from kilotune.spaces.reverse_split.splits import from_image, start_sums

NODE_LIMIT = 20_000
"""The paper lets its search run as long as one likes; its tool's own runs visit about as many states in ten seconds."""

PLAIN_NODE_LIMIT = 2_000
"""Without a C compiler."""

PAPER = SplitLimits(NODE_LIMIT, plans=1, first_discrepancies=1 << 20, factors=False, by_cost=True)


def paper_plans(problem: SplitProblem, weights: OrderWeights, nodes: int = NODE_LIMIT) -> Iterator[SplitPlan]:
    """Ends with the first of the plans of the least cost before relaxation; empty when the limit was too low for any, and for more
    results than registers, or six: AUKE keeps them all to the end. Without a compiler every better plan comes when it is found."""
    sums = start_sums(problem.wanted)
    if not problem.splits_fit:
        return
    if not sums:
        yield SplitPlan((), (), 1, 1)
        return
    limits = replace(PAPER, nodes=nodes, registers=problem.registers)
    report = search_splits(sums, problem.depth, limits, weights)
    if report is not None:
        yield from report.plans[:1]
        return
    yield from reference_plans(sums, problem.depth, problem.registers, weights, min(nodes, PLAIN_NODE_LIMIT))


def first_descent(problem: SplitProblem) -> tuple[str, ...] | None:
    """The best pair all the way, whatever the registers hold; None where that takes more than `MOST_DEPTH` splits."""
    if not problem.splits_fit:
        return None
    sums, weights = start_sums(problem.wanted), OrderWeights()
    limits = replace(PAPER, registers=problem.registers, descends=True)
    report = search_splits(sums, problem.depth, limits, weights) if sums else None
    if report is not None:
        return report.plans[0].names if report.plans else None
    state, names = sums, list[str]()
    while state and from_image(state, problem.depth) is None:
        splits = largest_splits(state, problem.registers, paper=True) or largest_splits(
            state, len(state) + 2, paper=True
        )
        if not splits or len(names) == MOST_DEPTH:
            return None
        best = ordered(state, splits, weights)[0]
        names.append(best.name)
        state = best.after
    return tuple(names)
