"""The search of orders and placements together: what an order needs at least comes first, and proves most placements.

1. The file's order is placed, and then each order that needs less at least, until none does (`order_search`).
2. Where the placement of the best one takes more than its live sum, it gets all the work of the exact search.
3. Once that is proved, another order may still have a lower placement: orders are drawn at random and asked for one.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.order_search import ExecutionOrder, other_order, search_orders
from kilotune.spaces.memory.ordered_candidates import OrderedCandidates

FIRST_QUESTIONS = 4
"""Steps of the placement that each better order gets while orders are searched."""

MOST_QUESTIONS = 60
"""Steps of the placement of the best order before others get some, too."""

OTHER_ORDERS = 300
"""Orders that are drawn in vain before the search gives up."""


@dataclass(frozen=True)
class OrderedPlacement:
    """A placement in some order, and what no order and placement beat. Bytes; offsets as in the order's instance."""

    order: ExecutionOrder
    offsets: IntArray
    peak_bytes: int
    bound_bytes: int


def place_in_orders(
    space: OrderedCandidates, seed: int, seconds_left: Callable[[], float]
) -> Iterator[OrderedPlacement]:
    """Placements, not each better than the one before; whoever reads them stops when one is good enough."""
    best = math.inf
    last: OrderedPlacement | None = None
    order, bound = space.graph.file_order, 0
    tried: ExecutionOrder | None = None
    for found in search_orders(space.sums, order, seed):
        order, bound = found.order, found.bound
        if order != tried and found.cost < best:
            tried = order
            for last in _placed(space, order, bound, seed, seconds_left, FIRST_QUESTIONS):
                best = min(best, last.peak_bytes)
                yield last
        elif last is not None:
            yield replace(last, bound_bytes=bound)  # a step of the search of orders, which has a limit as well
    for last in _placed(space, order, bound, seed, seconds_left, MOST_QUESTIONS):
        best = min(best, last.peak_bytes)
        yield last
    rng = random.Random(seed)
    for _ in range(OTHER_ORDERS):
        other = other_order(space.sums, rng)
        if space.sums.cost(other) < best:
            for last in _placed(space, other, bound, seed, seconds_left, FIRST_QUESTIONS, int(best) - 1):
                best = min(best, last.peak_bytes)
                yield last
    yield from _placed(space, order, bound, seed, seconds_left)


def _placed(
    space: OrderedCandidates,
    order: ExecutionOrder,
    bound: int,
    seed: int,
    seconds_left: Callable[[], float],
    questions: int | None = None,
    goal: int | None = None,
) -> Iterator[OrderedPlacement]:
    """So many steps of the exact search of a placement in that order; None: to its end."""
    placements = space.placements_of(order)
    steps = minimise_peak(placements.arrays, placements.least_peak_bytes, goal, seed, seconds_left)
    for step in itertools.islice(steps, questions):
        yield OrderedPlacement(order, step.offsets, step.peak_bytes, bound)
