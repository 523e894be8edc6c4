"""The search of orders and placements together: what an order needs at least comes first, and proves most placements.

1. The file's order is placed, and then each order that needs less at least, until none does (`order_search`); the placement of the last
   one and the search of orders get as much work each.
2. Where the placement of the best one takes more than its live sum, it gets more of the work of the exact search.
3. Once that is proved, another order may still have a lower placement: orders are drawn at random and asked for one.
4. What the placement of the best one still asks for gets the rest.

A search that goes on from an earlier one skips what that has done of these.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.order_search import ExecutionOrder, OrderStep, other_order, search_orders
from kilotune.spaces.memory.ordered_candidates import OrderedCandidates
from kilotune.spaces.memory.search_note import NO_ORDERS, ComponentProgress, OrderSearchNote, work_of

FIRST_QUESTIONS = 4
"""Steps of the placement that each better order gets at once."""

MOST_QUESTIONS = 60
"""Steps of the placement of the best order before others get some, too."""

OTHER_ORDERS = 300
"""Orders that are drawn in vain before the search gives up."""

SET_WORK, WINDOW_WORK, ORDER_WORK = 20_000, 20_000_000, 5_000_000
"""What a set of operators, a window and an order that is drawn take, in buffers looked at: as long as some tens of microseconds, some
tenths and some hundredths of a second."""


@dataclass(frozen=True)
class OrderedPlacement:
    """A placement in some order, and what no order and placement beat. Bytes; offsets as in the order's instance. `standing`: where the
    search stands that found it, and its `work` so far, in buffers looked at."""

    order: ExecutionOrder
    offsets: IntArray
    peak_bytes: int
    bound_bytes: int
    standing: OrderSearchNote = NO_ORDERS
    work: int = 0


def place_in_orders(
    space: OrderedCandidates,
    seed: int,
    seconds_left: Callable[[], float],
    known: Sequence[OrderedPlacement] = (),
    begun: OrderSearchNote = NO_ORDERS,
) -> Iterator[OrderedPlacement]:
    """Placements, not each better than the one before; whoever reads them stops when one is good enough. `known`: of an earlier search,
    and where that stood, with an order that can be executed; that is not looked at where none is known, or it had come to no order."""
    search = _OrderedSearch(space, seed, seconds_left)
    if known and begun.order:
        search.go_on(known, begun)
    return search.steps()


class _OrderedSearch:
    def __init__(self, space: OrderedCandidates, seed: int, seconds_left: Callable[[], float]) -> None:
        self._space, self._seed, self._seconds_left = space, seed, seconds_left
        self._best: float = math.inf
        self._last: OrderedPlacement | None = None
        self._bound, self._others, self._drawn_work = 0, 0, 0
        self._orders: OrderStep | None = None  # where their search stands
        self._placing: _PlacingInOrder | None = None

    def go_on(self, known: Sequence[OrderedPlacement], begun: OrderSearchNote) -> None:
        order = begun.order
        self._last = min(known, key=lambda placed: placed.peak_bytes)
        self._best, self._others = self._last.peak_bytes, begun.others
        self._orders = OrderStep(
            order, self._space.sums.cost(order), begun.bound_bytes, sets=begun.sets, in_vain=begun.in_vain
        )
        own = [placed for placed in known if placed.order == order]
        begin = min(own, key=lambda placed: placed.peak_bytes).offsets if own else None
        self._placing = self._placing_in(order, begin=begin, begun=begun)

    def steps(self) -> Iterator[OrderedPlacement]:
        yield from self._by_live_sums()
        assert self._orders is not None
        if self._placing is None or self._placing.order != self._orders.order:
            self._placing = self._placing_in(self._orders.order)
        yield from self._placed(self._placing, MOST_QUESTIONS - self._placing.asked)
        yield from self._by_chance()
        yield from self._placed(self._placing)

    def _by_live_sums(self) -> Iterator[OrderedPlacement]:
        space = self._space
        for found in search_orders(space.sums, space.graph.file_order, self._seed, self._orders):
            self._orders, self._bound = found, found.bound
            tried = None if self._placing is None else self._placing.order
            if found.order != tried and found.cost < self._best:
                self._placing = self._placing_in(found.order)
                yield from self._placed(self._placing, FIRST_QUESTIONS)
            elif self._last is not None:  # a step of the search of orders, which has a limit as well
                yield self._with_standing(replace(self._last, bound_bytes=self._bound))
            yield from self._in_turn(found)

    def _in_turn(self, found: OrderStep) -> Iterator[OrderedPlacement]:
        """Steps of the placement, until it has got as much work as the search of orders. No better order may come for long."""
        placing, asked = self._placing, -1
        while placing is not None and asked < placing.asked and work_of(placing.progress) < _order_work(found):
            if self._best <= max(self._bound, self._space.sums.cost(placing.order)):
                return
            asked = placing.asked
            yield from self._placed(placing, 1)

    def _by_chance(self) -> Iterator[OrderedPlacement]:
        rng, sums = random.Random(self._seed), self._space.sums
        while self._others < OTHER_ORDERS:
            self._others += 1
            other = other_order(sums, rng)
            if sums.cost(other) < self._best:
                drawn = self._placing_in(other, int(self._best) - 1)
                yield from self._placed(drawn, FIRST_QUESTIONS)
                self._drawn_work += work_of(drawn.progress)

    def _placing_in(
        self,
        order: ExecutionOrder,
        goal: int | None = None,
        begin: IntArray | None = None,
        begun: OrderSearchNote = NO_ORDERS,
    ) -> _PlacingInOrder:
        return _PlacingInOrder(self._space, order, goal, self._seed, self._seconds_left, begin, begun)

    def _placed(self, placing: _PlacingInOrder, questions: int | None = None) -> Iterator[OrderedPlacement]:
        for offsets, peak in placing.steps(questions):
            self._best = min(self._best, peak)
            self._last = OrderedPlacement(placing.order, offsets, peak, self._bound)
            yield self._with_standing(self._last)

    def _with_standing(self, found: OrderedPlacement) -> OrderedPlacement:
        at, own = self._orders, self._placing
        assert at is not None
        assert own is not None
        note = OrderSearchNote(
            0, self._bound, at.order, at.sets, at.in_vain, self._others, own.asked, own.least_bytes, own.progress
        )
        if own.order != at.order:  # it is not placed, as it needs more than a placement that is known
            note = replace(note, asked=0, least_bytes=0, progress=())
        work = _order_work(at) + ORDER_WORK * self._others + self._drawn_work + work_of(own.progress)
        return replace(found, standing=note, work=work)


class _PlacingInOrder:
    """The exact search of the placement in one order, a few steps at a time. `asked`: so many so far; `least_bytes`: what none beats."""

    def __init__(
        self,
        space: OrderedCandidates,
        order: ExecutionOrder,
        goal: int | None,
        seed: int,
        seconds_left: Callable[[], float],
        begin: IntArray | None,
        begun: OrderSearchNote,
    ) -> None:
        placements = space.placements_of(order)
        self.order, self.asked = order, begun.asked
        self.least_bytes = max(placements.least_peak_bytes, begun.least_bytes)
        self.progress: tuple[ComponentProgress, ...] = begun.progress
        self._steps = minimise_peak(
            placements.arrays, self.least_bytes, goal, seed, seconds_left, begin=begin, begun=begun.progress
        )

    def steps(self, most: int | None = None) -> Iterator[tuple[IntArray, int]]:
        """So many more, None: to its end: offsets and their peak, in bytes."""
        while most is None or most > 0:
            step = next(self._steps, None)
            if step is None:
                return
            self.asked += 1
            self.least_bytes, self.progress = max(self.least_bytes, step.bound_bytes), step.progress or self.progress
            yield step.offsets, step.peak_bytes
            most = None if most is None else most - 1


def _order_work(at: OrderStep) -> int:
    """What the search of orders took to come there, in buffers looked at."""
    return SET_WORK * at.sets + WINDOW_WORK * at.in_vain
