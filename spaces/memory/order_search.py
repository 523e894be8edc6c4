"""The order of execution with the least live sum: best first over the sets of operators that have run.

Dynamic programming over downsets is that of Liberis and Lane ("Neural networks on microcontrollers: saving memory at inference via
operator reordering", 2019) and of Ahn et al. ("Ordering chaos: memory-aware scheduling of irregularly wired neural networks for
edge devices", MLSys 2020), who prune it by a budget. Here sets are visited by the largest cost so far, so that at any time no order
costs less than the next set does; and an operator that frees as much as it keeps runs at once. A beam finds orders of graphs
that are too large for all their sets, and windows of an order are searched by themselves.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from kilotune.spaces.memory.live_sums import ExecutionPoint, LiveSums, ones

BEAM_WIDTH, BEAM_SETS = 32, 60_000

MOST_STATES = 200_000
"""Sets of operators that are remembered; some hundred bytes each."""

STEP_STATES = 2000
"""Sets visited between two looks at a clock, in some hundredths of a second."""

WINDOW_STATES = 3000
SMALLEST_WINDOW, LARGEST_WINDOW = 8, 40
WINDOWS_IN_VAIN = 200
"""So many windows in a row without an order that costs less end the search."""

ExecutionOrder = tuple[int, ...]


@dataclass(frozen=True)
class OrderStep:
    """The best order so far, what it costs at least and what every order does, in bytes. `done`: nothing more will come."""

    order: ExecutionOrder
    cost: int
    bound: int
    done: bool = False


def search_orders(sums: LiveSums, given: ExecutionOrder, seed: int = 0) -> Iterator[OrderStep]:
    """From the given order on, each step as good as the one before or better. The last one has `bound == cost` unless there
    were too many sets of operators."""
    trivial = max([sums.cost(()), *(sums.alone(k) for k in range(sums.count))])
    cost = sums.cost(given)
    yield OrderStep(given, cost, min(trivial, cost), cost == trivial)
    if cost == trivial:
        return
    best = min((given, _beam(sums, _width(sums), random.Random(seed))), key=sums.cost)
    cost = sums.cost(best)
    exact = BestFirst(sums, sums.start(), (1 << sums.count) - 1, cost, MOST_STATES)
    bound = min(trivial, cost)
    while True:
        yield OrderStep(best, cost, bound, bound == cost)
        if bound == cost:
            return
        exact.visit(STEP_STATES)
        bound = min(max(bound, exact.bound), cost)
        if exact.found is not None:
            best, cost = exact.found, sums.cost(exact.found)
            bound = max(bound, cost)
        elif exact.stuck:
            break
    yield from _by_windows(sums, OrderStep(best, cost, bound), random.Random(seed))


def other_order(sums: LiveSums, rng: random.Random) -> ExecutionOrder:
    """A cheap order by a narrow beam that breaks ties at random."""
    return _beam(sums, 1 + rng.randrange(_width(sums)), rng)


def _width(sums: LiveSums) -> int:
    """Fewer sets of each size where there are many sizes."""
    return min(max(BEAM_SETS // max(sums.count, 1), 1), BEAM_WIDTH)


class BestFirst:
    """Orders from one set of operators to another one, whose costs are below a limit. `found`: the cheapest one, once it is known;
    no order costs less than `bound`; `stuck`: too many sets, or none is left."""

    def __init__(self, sums: LiveSums, start: ExecutionPoint, goal: int, limit: int, most_states: int) -> None:
        self.bound, self.stuck = 0, False
        self.found: ExecutionOrder | None = None
        self._sums, self._goal, self._limit, self._most = sums, goal, limit, most_states
        self._start = start.done
        self._waiting: list[tuple[int, int, int, ExecutionPoint]] = []
        self._numbers = itertools.count()
        self._came: dict[int, tuple[int, int, ExecutionOrder]] = {}
        cost = 0 if start.done else sums.cost(())
        self._add(cost, start, start.done, ())

    def visit(self, states: int) -> None:
        """So many more sets."""
        for _ in range(states):
            if not self._waiting:
                self.bound, self.stuck = self._limit, True
                return
            cost, _, _, at = heapq.heappop(self._waiting)
            if self._came[at.done][0] < cost:
                continue
            self.bound = cost
            if at.done == self._goal:
                self.found = self._path()
                return
            for operator in ones(at.ready & self._goal):
                step, after = self._sums.step(at, operator)
                self._add(max(cost, step), after, at.done, (operator,))
            if len(self._came) > self._most:
                self.stuck = True
                return

    def _add(self, cost: int, at: ExecutionPoint, before: int, ran: ExecutionOrder) -> None:
        """A set that can be reached at that cost, after all that costs nothing has run, too."""
        if cost >= self._limit:
            return
        at, ran = self._with_free(cost, at, ran)
        known = self._came.get(at.done)
        if known is None or cost < known[0]:
            self._came[at.done] = (cost, before, ran)
            heapq.heappush(self._waiting, (cost, -at.done.bit_count(), next(self._numbers), at))

    def _with_free(self, cost: int, at: ExecutionPoint, ran: ExecutionOrder) -> tuple[ExecutionPoint, ExecutionOrder]:
        more = True
        while more:
            more = False
            for operator in ones(at.ready & self._goal):
                step, after = self._sums.step(at, operator)
                if step <= cost and self._sums.costs_nothing(at, after):
                    at, ran, more = after, (*ran, operator), True
                    break
        return at, ran

    def _path(self) -> ExecutionOrder:
        parts: list[ExecutionOrder] = []
        at = self._goal
        while True:
            _, before, ran = self._came[at]
            parts.append(ran)
            if before == self._start:
                return tuple(operator for part in reversed(parts) for operator in part)
            at = before


def _beam(sums: LiveSums, width: int, rng: random.Random) -> ExecutionOrder:
    """A cheap order: of the sets of operators of each size, the `width` best ones by their cost and what is alive after them go on."""
    level: dict[int, tuple[int, ExecutionPoint, ExecutionOrder]] = {0: (sums.cost(()), sums.start(), ())}
    for _ in range(sums.count):
        following: dict[int, tuple[int, ExecutionPoint, ExecutionOrder]] = {}
        for cost, at, order in level.values():
            for operator in ones(at.ready):
                step, after = sums.step(at, operator)
                reached = max(cost, step)
                if after.done not in following or reached < following[after.done][0]:
                    following[after.done] = (reached, after, (*order, operator))
        ranked = sorted(following.items(), key=lambda one: (one[1][0], one[1][1].alive_bytes, rng.random()))
        level = dict(ranked[:width])
    ((_, _, order),) = list(level.values())
    return order


def _by_windows(sums: LiveSums, best: OrderStep, rng: random.Random) -> Iterator[OrderStep]:
    """Stretches of the order around its costliest step, each searched by itself while the rest stays."""
    order, cost, in_vain = best.order, best.cost, 0
    while in_vain < WINDOWS_IN_VAIN and cost > best.bound:
        places: list[ExecutionPoint] = [sums.start()]
        costs: list[int] = []
        for operator in order:
            step, after = sums.step(places[-1], operator)
            places.append(after)
            costs.append(step)
        worst = rng.choice([k for k, step in enumerate(costs) if step == cost])
        length = min(rng.randint(SMALLEST_WINDOW, LARGEST_WINDOW), len(order))
        first = min(max(worst - rng.randrange(length), 0), len(order) - length)
        goal = places[first + length].done
        window = BestFirst(sums, places[first], goal, cost, WINDOW_STATES)
        while window.found is None and not window.stuck:
            window.visit(WINDOW_STATES)
        in_vain += 1
        if window.found is not None:
            order = (*order[:first], *window.found, *order[first + length :])
            lower = sums.cost(order)
            in_vain, cost = (0, lower) if lower < cost else (in_vain, cost)
        yield OrderStep(order, cost, best.bound)
    yield OrderStep(order, cost, best.bound, True)
