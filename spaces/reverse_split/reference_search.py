"""The paper's search in Python, for machines without a C compiler: Algorithm 1 with the cut by cost (AUKE Section 3.1).

It visits the states of splitting.c in the order of splitting.c, so that both have found the same after as many states; but it
takes about a millisecond for each, and so it gives every better plan as soon as it has it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.depth_first import RULES, SplitPlan
from kilotune.spaces.reverse_split.ordering import OrderWeights, score
from kilotune.spaces.reverse_split.pairs import NamedSplit
from kilotune.spaces.reverse_split.plans import plan_of_splits
from kilotune.spaces.reverse_split.splits import (
    Split,
    Sums,
    after_split,
    from_image,
    largest_pair,
    split_name,
    transformations,
)


def reference_search(
    sums: Sums,
    depth: int,
    registers: int,
    weights: OrderWeights,
    nodes: int,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> SplitPlan | None:
    """The last of `reference_plans`."""
    best = None
    for plan in reference_plans(sums, depth, registers, weights, nodes, seconds_left):
        best = plan
    return best


def reference_plans(
    sums: Sums,
    depth: int,
    registers: int,
    weights: OrderWeights,
    nodes: int,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> Iterator[SplitPlan]:
    """Plans of ever smaller cost before relaxation, at most `nodes` states visited; it ends early where `seconds_left()` is
    no more. The noise of `weights` is left out."""
    least: float = math.inf  # cost of a plan
    path: list[NamedSplit] = []
    visited = 0

    def entered(state: Sums, cost: int) -> tuple[SplitPlan | None, Iterator[tuple[int, NamedSplit]]]:
        """The plan of a state that is finished; the splits of one that is not, with their costs, in order."""
        nonlocal visited, least
        visited += 1
        if (last := from_image(state, depth)) is None:
            return None, iter(_ordered_splits(state, registers, weights, least - cost))
        total = cost + last.length
        if total >= least:
            return None, iter(())
        least = total
        names, splits = tuple(named.name for named in path), tuple(named.split for named in path)
        return SplitPlan(names, splits, total, len(plan_of_splits(sums, depth, splits).steps)), iter(())

    found, splits = entered(sums, 0)
    if found is not None:
        yield found
    # A stack of its own: weights of 24 bits make descents that are deeper than Python's recursion may be.
    stack = [(0, splits)]
    while stack and visited < nodes and seconds_left() > 0:
        cost, splits = stack[-1]
        following = next(splits, None)
        if following is None:
            stack.pop()
            if path:
                path.pop()
            continue
        more, named = following
        if cost + more < least:
            path.append(named)
            found, splits = entered(named.after, cost + more)
            stack.append((cost + more, splits))
            if found is not None:
                yield found


def _ordered_splits(sums: Sums, registers: int, weights: OrderWeights, below: float) -> list[tuple[int, NamedSplit]]:
    """Cost and split, best first: pairs of maximum size in both directions of every move, that cost less than `below` and whose
    sums the registers hold with one for the move. Of all that lead to a state the first one of the cheapest."""
    cheapest: dict[frozenset[Sum], tuple[int, NamedSplit, bytes]] = {}
    for a_from, b_from in product(range(len(sums)), repeat=2):
        within = a_from == b_from
        for t in transformations(sums, a_from, b_from, both_ways=True):
            if t.length + within >= below:
                continue
            for rule, how in enumerate(RULES[: 2 if within else 1]):
                b = largest_pair(sums, a_from, b_from, t, backwards=how == "last")
                if not b:
                    continue
                split = Split(a_from, b_from, t, b)
                left = split.remainders(sums)
                remaining = sum(map(bool, left))
                cost = t.length + remaining + within
                if cost >= below:
                    continue
                after = after_split(sums, split)
                if len(after) + (t.length > 0) > registers or after == sums:
                    continue
                key = frozenset(after)
                if key not in cheapest or cost < cheapest[key][0]:
                    numbers = (a_from, b_from, t.east, t.north, t.doublings, t.negated, rule, remaining)
                    tie = struct.pack("<4h4b", *numbers)  # what splitting.c compares
                    cheapest[key] = cost, NamedSplit(split_name(split, how), split, after), tie
    scored = [
        (-float(np.float32(score(sums, named, weights))), tie, cost, named) for cost, named, tie in cheapest.values()
    ]
    return [(cost, named) for _, _, cost, named in sorted(scored, key=lambda entry: entry[:2])]
