"""The least cost in one bank when buffers may move: branch and bound over the points at which they do.

A node says which cuts are paid for, and which are forbidden. Its relaxation lets buffers move at all other cuts for nothing
(but those that would cost more than the best placement so far): a plain placement of rectangles, which the exact search
of `spaces.memory.exact` answers. A relaxation that fails ends the node; one that moves nothing for free is its solution;
else one of the free moves that it made is forbidden, or paid for. Nodes are taken by their least cost, so the first cost
not yet refuted is a bound. Simultaneous moves that no order of memmoves executes are looked at order by order.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.checker import PlacementError, Residence, migrations_in_order
from kilotune.spaces.memory.incumbent_placement import IncumbentPlacement, best_within
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.priced_notes import MovesNode, MovesNote
from kilotune.spaces.memory.rectangles import Cut, Cuts, Rectangles, cut_up

QUESTIONS = 60
"""To the exact search, for one relaxation; an unanswered one prunes nothing."""

RELAXATION_WORK = 200_000
"""What a relaxation takes besides its questions, in buffers looked at; about a millisecond."""

UNLOST = Fraction(1 << 60)

MOST_ORDERS = 5040
"""Orders of simultaneous moves that are tried one by one; with more the result is not proved."""


@dataclass(frozen=True)
class BankSearchStep:
    """`cost` and `residences` of the best placement so far (None: none yet); no placement costs less than `bound`."""

    cost: Fraction | None
    residences: tuple[Residence, ...]
    bound: Fraction
    done: bool


@dataclass(frozen=True)
class BankProblem:
    """The buffers `members` of an instance in one bank. `cuts`: where they may move."""

    instance: Instance
    members: tuple[int, ...]
    bank: Bank
    memory: MemoryMap
    cuts: tuple[Cut, ...]

    def price(self, cuts: Cuts) -> Fraction:
        """The price of moving at all of these cuts, in bytes of peak."""
        price = self.memory.migration_price or Fraction(0)
        return price * sum(self.instance.buffers[i].size for i, _ in cuts)


class MovesSearch:
    """One bank's search. `known`: a placement to begin with. Costs are without the price of the bank itself. `begun`: where an earlier
    search of this problem stood, from which this one goes on."""

    def __init__(
        self,
        problem: BankProblem,
        known: Sequence[Residence] = (),
        seconds_left: Callable[[], float] = lambda: math.inf,
        begun: MovesNote | None = None,
    ) -> None:
        self.problem = problem
        self._seconds_left = seconds_left
        self.capacity = problem.bank.capacity_bytes
        self.cost: Fraction | None = None
        self.residences: tuple[Residence, ...] = ()
        self._polished: Fraction | None = None
        self._complete = True
        self._size: Callable[[int], int] = lambda i: problem.instance.buffers[i].size
        self._queue: list[MovesNode] = []
        self._next_number, self._lost = 1, UNLOST
        self._begun = begun
        self.work = 0
        """So far, in buffers looked at."""
        if known:
            self._take(known)

    @property
    def note(self) -> MovesNote:
        """Where the search stands, between two steps."""
        best = None if self.cost is None else self.residences
        return MovesNote(best, tuple(self._queue), self._next_number, self._lost, self._complete)

    def steps(self) -> Iterator[BankSearchStep]:
        """Standings, one a relaxation or so; the last is done unless some question stayed unanswered."""
        problem = self.problem
        # Moves can lower the peak below the least one without them, but not below what is live together.
        still = cut_up(problem.instance, problem.members, problem.bank, frozenset())
        floor = Fraction(int(still.arrays.section_bytes.max(initial=0)) if problem.bank.peak_counts else 0)
        if self._begun is None:
            self._try(frozenset(), self._best(still), still)
            self._polish()
            self._queue = [(floor, 0, 0, frozenset(), frozenset())]
        else:
            self._go_on(self._begun)
        queue = self._queue
        while queue:
            bound = queue[0][0]
            if self.cost is not None and bound >= self.cost:
                break
            yield BankSearchStep(self.cost, self.residences, min(bound, self._lost), False)
            self._look_at(heapq.heappop(queue), floor)
        final = min([self._lost, *([] if self.cost is None else [self.cost])])
        yield BankSearchStep(self.cost, self.residences, final, self._complete)

    def _go_on(self, begun: MovesNote) -> None:
        if begun.residences is not None:
            self._take(begun.residences)
        self._polished = self.cost
        self._queue = list(begun.nodes)
        self._next_number, self._lost, self._complete = begun.next_number, begun.lost, begun.complete

    def _look_at(self, node: MovesNode, floor: Fraction) -> None:
        problem = self.problem
        bound, _, _, paid, forbidden = node
        free = self._affordable(paid, forbidden, floor)
        allowed = paid | free
        rectangles = cut_up(problem.instance, problem.members, problem.bank, allowed)
        found = self._best(rectangles)
        if found.refuted(self.capacity):
            return
        bound = max(bound, problem.price(paid) + self._floor(found))
        if self.cost is not None and bound >= self.cost:
            return
        used = rectangles.used(found.offsets)
        executable = self._try(allowed, found, rectangles)
        self._polish()
        if self.cost is not None and bound >= self.cost:
            return
        if found.fits(self.capacity) and used <= paid and executable and self._moves_seldom(used):
            return
        open_cuts = sorted(free, key=lambda cut: (cut not in used, -self._size(cut[0]), cut))
        if open_cuts:
            self._branch((bound, *node[1:]), open_cuts[0], floor)
        elif not self._in_some_order(allowed, found):
            self._lost = min(self._lost, bound)
            self._complete = False

    def _branch(self, node: MovesNode, cut: Cut, floor: Fraction) -> None:
        """Forbid a move, or pay for it."""
        bound, _, _, paid, forbidden = node
        depth, number = -len(paid) - len(forbidden) - 1, self._next_number
        heapq.heappush(self._queue, (bound, depth, number, paid, forbidden | {cut}))
        dearer = max(bound, self.problem.price(paid | {cut}) + floor)
        heapq.heappush(self._queue, (dearer, depth, number + 1, paid | {cut}, forbidden))
        self._next_number += 2

    def _floor(self, found: IncumbentPlacement) -> Fraction:
        return Fraction(found.bound_bytes if self.problem.bank.peak_counts else 0)

    def _ask(self, cuts: Cuts) -> IncumbentPlacement:
        rectangles = cut_up(self.problem.instance, self.problem.members, self.problem.bank, cuts)
        return self._best(rectangles)

    def _best(self, rectangles: Rectangles) -> IncumbentPlacement:
        found = best_within(rectangles.arrays, self.capacity, QUESTIONS, seconds_left=self._seconds_left)
        self.work += RELAXATION_WORK + found.work
        return found

    def _affordable(self, paid: Cuts, forbidden: Cuts, floor: Fraction) -> Cuts:
        """Cuts that are neither paid nor forbidden and could be part of something better than the best so far."""
        problem = self.problem
        most = problem.memory.most_moves
        count: dict[int, int] = {}
        for i, _ in paid:
            count[i] = count.get(i, 0) + 1
        left = None if self.cost is None else self.cost - floor - problem.price(paid)
        return frozenset(
            cut
            for cut in problem.cuts
            if cut not in paid
            and cut not in forbidden
            and (most is None or count.get(cut[0], 0) < most)
            and (left is None or problem.price(frozenset([cut])) < left)
        )

    def _moves_seldom(self, used: Cuts) -> bool:
        most = self.problem.memory.most_moves
        return most is None or all(sum(i == j for j, _ in used) <= most for i in {i for i, _ in used})

    def _try(self, cuts: Cuts, found: IncumbentPlacement, rectangles: Rectangles | None = None) -> bool:
        """Keep a placement if it is the best one that can be executed; whether it can."""
        problem = self.problem
        whole = rectangles or cut_up(problem.instance, problem.members, problem.bank, cuts)
        return self._take(whole.residences(problem.instance, problem.bank.name, found.offsets))

    def _take(self, residences: Sequence[Residence]) -> bool:
        instance, bank = self.problem.instance, self.problem.bank
        try:
            moves = migrations_in_order(instance, residences)
        except PlacementError:
            return False
        place = {instance.buffers[i].id: i for i in self.problem.members}
        peak = max((r.offset + self._size(place[r.id]) for r in residences), default=0)
        used = frozenset((place[m.id], m.point) for m in moves)
        cost = self.problem.price(used) + (peak if bank.peak_counts else 0)
        if bank.holds(peak) and self._moves_seldom(used) and (self.cost is None or cost < self.cost):
            self.cost, self.residences = cost, tuple(residences)
        return True

    def _polish(self) -> None:
        """Forbid the moves of a new best placement one by one, the dearest first, where it can do without."""
        if self.cost is None or self.cost == self._polished:
            return
        place = {self.problem.instance.buffers[i].id: i for i in self.problem.members}
        for cut in sorted(self._used(place), key=lambda cut: (-self._size(cut[0]), cut)):
            used = self._used(place)
            if cut in used:
                fewer = used - {cut}
                self._try(fewer, self._ask(fewer))
        self._polished = self.cost

    def _used(self, place: Mapping[str, int]) -> Cuts:
        met: set[str] = set()
        used: list[Cut] = []
        for r in sorted(self.residences, key=lambda r: r.lower):
            if r.id in met:
                used.append((place[r.id], r.lower))
            met.add(r.id)
        return frozenset(used)

    def _in_some_order(self, cuts: Cuts, relaxed: IncumbentPlacement) -> bool:
        """All cuts are paid for: look at every order of the moves. Whether all questions were answered."""
        if not relaxed.fits(self.capacity):
            return False
        at_point: dict[int, list[Cut]] = {}
        for cut in sorted(cuts):
            at_point.setdefault(cut[1], []).append(cut)
        if math.prod(math.factorial(len(group)) for group in at_point.values()) > MOST_ORDERS:
            return False
        answered = True
        for orders in itertools.product(*(itertools.permutations(group) for group in at_point.values())):
            places = {cut: place for order in orders for place, cut in enumerate(order)}
            rectangles = cut_up(self.problem.instance, self.problem.members, self.problem.bank, cuts, places)
            found = self._best(rectangles)
            if found.refuted(self.capacity):
                continue
            self._try(cuts, found, rectangles)
            answered = answered and found.fits(self.capacity)
        return answered
