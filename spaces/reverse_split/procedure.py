"""The paper's own search: depth first, best pair first, cut by the cost of the best plan so far (AUKE Sections 3.1.3, 3.1.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from kilotune.spaces.reverse_split.compiled import MOST_DEPTH, SplitLimits, SplitPlan, search_splits
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights, ordered
from kilotune.spaces.reverse_split.pairs import NamedSplit, largest_splits
from kilotune.spaces.reverse_split.plans import plan_of_splits
from kilotune.spaces.reverse_split.splits import Sums, from_image, start_sums

NODE_LIMIT = 20_000
"""The paper lets its search run as long as one likes; its tool's own runs visit about as many states in ten seconds."""

PLAIN_NODE_LIMIT = 2_000
"""Without a C compiler."""

PAPER = SplitLimits(NODE_LIMIT, plans=1, first_discrepancies=1 << 20, factors=False, by_cost=True)


def paper_search(problem: SplitProblem, weights: OrderWeights, nodes: int = NODE_LIMIT) -> SplitPlan | None:
    """The first of the plans of the least cost before relaxation; None when the limit was too low for any."""
    sums = start_sums(problem.wanted)
    if not sums:
        return SplitPlan((), (), 1, 1)
    limits = replace(PAPER, nodes=nodes, registers=problem.registers)
    report = search_splits(sums, problem.depth, limits, weights)
    if report is not None:
        return report.plans[0] if report.plans else None
    return plain_search(sums, problem.depth, problem.registers, weights, min(nodes, PLAIN_NODE_LIMIT))


def plain_search(
    sums: Sums,
    depth: int,
    registers: int,
    weights: OrderWeights,
    nodes: int,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> SplitPlan | None:
    """The same in Python: Algorithm 1 with the cut by cost. What splitting.c is compared with. It ends early, with the
    best plan so far, where `seconds_left()` is no more."""
    best: SplitPlan | None = None
    path: list[NamedSplit] = []
    visited = 0

    def entered(state: Sums, cost: int) -> Iterator[NamedSplit]:
        """The splits of a state, in order; none of one that is finished."""
        nonlocal visited, best
        visited += 1
        last = from_image(state, depth)
        if last is None:
            return iter(ordered(state, largest_splits(state, registers, paper=True), weights))
        total = cost + last.length
        if best is None or total < best.cost:
            names, splits = tuple(named.name for named in path), tuple(named.split for named in path)
            best = SplitPlan(names, splits, total, len(plan_of_splits(sums, depth, splits).steps))
        return iter(())

    # A stack of its own: weights of 24 bits make descents that are deeper than Python's recursion may be.
    stack = [(sums, 0, entered(sums, 0))]
    while stack and visited < nodes and seconds_left() > 0:
        state, cost, splits = stack[-1]
        named = next(splits, None)
        if named is None:
            stack.pop()
            if path:
                path.pop()
            continue
        reached = cost + named.split.cost(state)
        if len(named.after) + (named.split.transformation.length > 0) > registers:
            continue
        if best is None or reached < best.cost:
            path.append(named)
            stack.append((named.after, reached, entered(named.after, reached)))
    return best


def first_descent(problem: SplitProblem) -> tuple[str, ...] | None:
    """The best pair all the way, whatever the registers hold; None where that takes more than `MOST_DEPTH` splits."""
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
