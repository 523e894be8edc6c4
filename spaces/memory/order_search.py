"""The order of execution with the least live sum: best first over the sets of operators that have run.

Dynamic programming over downsets is that of Liberis and Lane ("Neural networks on microcontrollers: saving memory at inference via
operator reordering", 2019) and of Ahn et al. ("Ordering chaos: memory-aware scheduling of irregularly wired neural networks for
edge devices", MLSys 2020), who prune it by a budget. Here sets are visited by the largest cost so far, so that at any time no order
costs less than the next set does; and an operator that frees as much as it keeps runs at once. In turn with that, cheaper orders
than the best one are looked for depth first, where such operators run at once whatever they cost below that: of wide graphs
these are several times fewer sets. A beam finds orders of graphs that are too large for all their sets, and windows of an order
are searched by themselves.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kilotune.spaces.memory.live_sums import ExecutionPoint, LiveSums, ones

BEAM_WIDTH, BEAM_SETS = 32, 60_000

MOST_STATES = 200_000
"""Sets of operators that are remembered; some hundred bytes each."""

STEP_STATES = 2000
"""Sets visited or remembered between two looks at a clock, in some hundredths of a second; a second or two of a thousand operators."""

CHEAPER_STATES = 20_000
"""Sets that are visited depth first meanwhile: most of them by one operator that costs nothing, which takes a tenth of the time."""

WINDOW_STATES = 3000
SMALLEST_WINDOW, LARGEST_WINDOW = 8, 40
WINDOWS_IN_VAIN = 200
"""So many windows in a row without an order that costs less end the search."""

ExecutionOrder = tuple[int, ...]


@dataclass(frozen=True)
class OrderStep:
    """The best order so far, what it costs at least and what every order does, in bytes. `done`: nothing more will come. `sets`: sets of
    operators that were remembered so far; `in_vain`: windows in a row without an order that costs less."""

    order: ExecutionOrder
    cost: int
    bound: int
    done: bool = False
    sets: int = 0
    in_vain: int = 0


def search_orders(
    sums: LiveSums, given: ExecutionOrder, seed: int = 0, begun: OrderStep | None = None
) -> Iterator[OrderStep]:
    """From the given order on, each step as good as the one before or better. The last one has `bound == cost` unless there
    were too many sets of operators.

    `begun`: where an earlier search from that order stood. Its bound holds, and once it has visited sets no beam runs again. Which sets
    these are is not known: they are visited once more, but no longer when the searches have remembered as many sets together as one may;
    then windows go on.
    """
    trivial = max([sums.cost(()), *(sums.alone(k) for k in range(sums.count))])
    before = begun or OrderStep(given, sums.cost(given), trivial)
    bound = min(max(trivial, before.bound), before.cost)
    now = replace(before, bound=bound, done=before.cost == bound)
    yield now
    if now.done:
        return
    widths = {1, _width(sums)} if begun is None else set() if begun.sets else {_width(sums)}
    for width in sorted(widths):  # the wider one takes half a minute of large graphs with many branches
        best = min((now.order, _beam(sums, width, random.Random(seed))), key=sums.cost)
        cost = sums.cost(best)
        now = replace(now, order=best, cost=cost, bound=min(bound, cost), done=cost <= bound)
        yield now
        if now.done:
            return
    if now.sets < MOST_STATES:
        for step in _by_sets(sums, now):
            now = step
            yield now
        if now.done:
            return
    yield from _by_windows(sums, now, random.Random(seed))


def _by_sets(sums: LiveSums, best: OrderStep) -> Iterator[OrderStep]:
    exact = BestFirst(sums, sums.start(), (1 << sums.count) - 1, best.cost, MOST_STATES, best.bound)
    cheaper = CheaperOrders(sums, best.cost, MOST_STATES)
    now, left = replace(best, done=best.bound == best.cost), 0
    while True:
        yield now
        if now.done or exact.stuck:
            return
        if left:
            left = cheaper.visit(left)
            if cheaper.found is not None:
                now = replace(now, order=cheaper.found, cost=cheaper.limit, bound=min(now.bound, cheaper.limit))
            if cheaper.none_left:
                now = replace(now, bound=now.cost)
            now = replace(now, done=now.bound == now.cost)
            continue
        exact.visit(STEP_STATES)
        left = CHEAPER_STATES
        bound = min(max(now.bound, exact.bound), now.cost)
        now = replace(now, bound=bound, sets=best.sets + exact.remembered, done=bound == now.cost)
        if exact.found is not None:
            cost = sums.cost(exact.found)
            now = replace(now, order=exact.found, cost=cost, bound=max(bound, cost), done=True)
        elif exact.stuck:
            now = replace(now, sets=max(now.sets, MOST_STATES))


def other_order(sums: LiveSums, rng: random.Random) -> ExecutionOrder:
    """A cheap order by a narrow beam that breaks ties at random."""
    return _beam(sums, 1 + rng.randrange(_width(sums)), rng)


def _width(sums: LiveSums) -> int:
    """Fewer sets of each size where there are many sizes."""
    return min(max(BEAM_SETS // max(sums.count, 1), 1), BEAM_WIDTH)


class BestFirst:
    """Orders from one set of operators to another one, whose costs are below a limit. `found`: the cheapest one, once it is known;
    no order costs less than `bound`; `stuck`: too many sets, or none is left. `known_bound`: one that was proved before."""

    def __init__(
        self, sums: LiveSums, start: ExecutionPoint, goal: int, limit: int, most_states: int, known_bound: int = 0
    ) -> None:
        self.bound, self.stuck = known_bound, False
        self.found: ExecutionOrder | None = None
        self._sums, self._goal, self._limit, self._most = sums, goal, limit, most_states
        self._start = start.done
        self._waiting: list[tuple[int, int, int, ExecutionPoint]] = []
        self._numbers = itertools.count()
        self._came: dict[int, tuple[int, int, ExecutionOrder]] = {}
        cost = 0 if start.done else sums.cost(())
        self._add(cost, start, start.done, ())

    @property
    def remembered(self) -> int:
        """How many sets."""
        return len(self._came)

    def visit(self, states: int) -> None:
        """So many more sets, or fewer: sets from which hundreds of operators may run take as long as all those that follow them."""
        most = min(len(self._came) + states, self._most)
        for _ in range(states):
            if not self._waiting:
                self.bound, self.stuck = self._limit, True
                return
            cost, _, _, at = heapq.heappop(self._waiting)
            if self._came[at.done][0] < cost:
                continue
            self.bound = max(self.bound, cost)
            if at.done == self._goal:
                self.found = self._path()
                return
            for operator in ones(at.ready & self._goal):
                step, after = self._sums.step(at, operator)
                self._add(max(cost, step), after, at.done, (operator,))
            if len(self._came) > most:
                self.stuck = len(self._came) > self._most
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


_Ran = tuple["_Ran", int] | None
"""The operators that have run: those before the last one, which other orders have in common, and the last one."""


class CheaperOrders:
    """Orders that cost less than a limit, each less than the last one: depth first, first where least stays alive. `found`: the last
    one, whose cost is the `limit` then; `none_left`: no order costs less than the limit, which is proved. It gives up once it remembers
    more than `most_states` sets of operators."""

    def __init__(self, sums: LiveSums, limit: int, most_states: int) -> None:
        self.limit, self.none_left = limit, False
        self.found: ExecutionOrder | None = None
        self._sums, self._most, self._goal = sums, most_states, (1 << sums.count) - 1
        self._begin()

    def _begin(self) -> None:
        self._met: set[int] = set()
        self._waiting: list[tuple[ExecutionPoint, _Ran]] = []
        if self._sums.cost(()) < self.limit:
            self._waiting.append((self._sums.start(), None))

    def visit(self, states: int) -> int:
        """So many more sets, or fewer: it ends where it finds an order, so that this is known at once. How many of them are left to visit;
        0 once there is nothing to find."""
        for visited in range(1, states + 1):
            if not self._waiting or len(self._met) > self._most:
                self.none_left = not self._waiting
                return 0
            at, ran = self._waiting.pop()
            if at.done == self._goal:
                self.found = _order_of(ran)
                self.limit = self._sums.cost(self.found)
                self._begin()
                return states - visited
            if at.done not in self._met:
                self._met.add(at.done)
                self._waiting += sorted(self._following(at, ran), key=lambda one: -one[0].alive_bytes)
        return 0

    def _following(self, at: ExecutionPoint, ran: _Ran) -> Iterator[tuple[ExecutionPoint, _Ran]]:
        """One operator further each, or only one that costs nothing: not as the first, which frees the inputs that nobody reads."""
        further: list[tuple[ExecutionPoint, _Ran]] = []
        for operator in ones(at.ready):
            step, after = self._sums.step(at, operator)
            if step >= self.limit:
                continue
            if at.done and self._sums.costs_nothing(at, after):
                yield after, (ran, operator)
                return
            if after.done not in self._met:
                further.append((after, (ran, operator)))
        yield from further


def _order_of(ran: _Ran) -> ExecutionOrder:
    found: list[int] = []
    while ran is not None:
        ran, operator = ran
        found.append(operator)
    return tuple(reversed(found))


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
    order, cost, in_vain = best.order, best.cost, best.in_vain
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
        yield OrderStep(order, cost, best.bound, False, best.sets, in_vain)
    yield OrderStep(order, cost, best.bound, True, best.sets, in_vain)
