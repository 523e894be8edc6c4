"""The paper's own search: depth first, best pair first, cut by the cost of the best plan so far (AUKE Sections 3.1.3, 3.1.4)."""

from __future__ import annotations

from kilotune.spaces.reverse_split.compiled import SplitLimits, SplitPlan, search_splits
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights, ordered
from kilotune.spaces.reverse_split.pairs import largest_splits
from kilotune.spaces.reverse_split.plans import plan_of_splits
from kilotune.spaces.reverse_split.splits import Split, Sums, from_image, start_sums

NODE_LIMIT = 20_000
"""The paper lets its search run as long as one likes; its tool's own runs visit about as many states in ten seconds."""

PLAIN_NODE_LIMIT = 2_000
"""Without a C compiler."""


def paper_search(problem: SplitProblem, weights: OrderWeights, nodes: int = NODE_LIMIT) -> SplitPlan | None:
    """The first of the plans of the least cost before relaxation; None when the limit was too low for any."""
    sums = start_sums(problem.wanted)
    if not sums:
        return SplitPlan((), (), 1, 1)
    limits = SplitLimits(nodes, problem.registers, plans=1, first_discrepancies=1 << 20, factors=False, by_cost=True)
    report = search_splits(sums, problem.depth, limits, weights)
    if report is not None:
        return report.plans[0] if report.plans else None
    return plain_search(sums, problem.depth, problem.registers, weights, min(nodes, PLAIN_NODE_LIMIT))


def plain_search(sums: Sums, depth: int, registers: int, weights: OrderWeights, nodes: int) -> SplitPlan | None:
    """The same in Python: Algorithm 1 with the cut by cost. What splitting.c is compared with."""
    best: list[SplitPlan] = []
    path: list[tuple[str, Split]] = []
    visited = 0

    def visit(state: Sums, cost: int) -> None:
        nonlocal visited
        visited += 1
        last = from_image(state, depth)
        if last is not None:
            total = cost + last.length
            if not best or total < best[-1].cost:
                names, splits = tuple(name for name, _ in path), tuple(split for _, split in path)
                best.append(SplitPlan(names, splits, total, len(plan_of_splits(sums, depth, splits).steps)))
            return
        for named in ordered(state, largest_splits(state, registers, paper=True), weights):
            split = named.split
            reached = cost + split.cost(state)
            if visited >= nodes or len(named.after) + (split.transformation.length > 0) > registers:
                continue
            if not best or reached < best[-1].cost:
                path.append((named.name, split))
                visit(named.after, reached)
                path.pop()

    visit(sums, 0)
    return best[-1] if best else None


def first_descent(problem: SplitProblem) -> tuple[str, ...]:
    """The best pair all the way, whatever the registers hold."""
    state, names = start_sums(problem.wanted), list[str]()
    while state and from_image(state, problem.depth) is None:
        splits = largest_splits(state, problem.registers, paper=True) or largest_splits(state, len(state) + 2)
        best = ordered(state, splits, OrderWeights())[0]
        names.append(best.name)
        state = best.after
    return tuple(names)
