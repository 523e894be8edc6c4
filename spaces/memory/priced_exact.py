"""The least cost over banks, moves and offsets: branch and bound over the bank of every buffer.

What is left, once every buffer has a bank, falls apart into one search a bank (`spaces.memory.moves_search`). A choice
of some banks is bounded by their prices and by the live sums in each of them; buffers without a choice go first, then large
ones. Searches of a bank are kept by its buffers: neighbouring choices share most banks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from kilotune.search.space import Assignment, ExactStep
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import PlacementError, Residence, check_costs
from kilotune.spaces.memory.moves_search import BankProblem, BankSearchStep, MovesSearch
from kilotune.spaces.memory.priced_candidates import PricedCandidates
from kilotune.spaces.memory.priced_notes import NOTED_WORK, WORTH_NOTING, ChoiceNote, PricedNotes
from kilotune.spaces.memory.procedure import DoesNotFitError, allocation_in_banks

CHOICES_PER_LOOK = 256
"""Choices of banks that are bounded before the engine may look at its clock."""

UNREACHED = Fraction(1 << 60)


_BoundedChoice = tuple[Fraction, list[int]]
"""A bound on the cost, and a bank (index) for each of the first buffers."""


class _BankSearch:
    def __init__(self, space: PricedCandidates, seconds_left: Callable[[], float], notes: PricedNotes) -> None:
        self.seconds_left, self.notes = seconds_left, notes
        self.unnoted_work = 0
        self.space = space
        self.instance, self.memory = space.instance, space.memory
        self.buffers = self.instance.buffers
        self.arrays = BufferArrays.of(self.instance)
        self.allowed = [self.memory.allowed(b) for b in self.buffers]
        self.order = sorted(
            range(len(self.buffers)), key=lambda i: (len(self.allowed[i]) > 1, -self.buffers[i].size, i)
        )
        self.cost: Fraction | None = None
        self.residences: tuple[Residence, ...] = ()
        self.known: tuple[Residence, ...] = ()
        self.banks: dict[tuple[int, tuple[int, ...]], BankSearchStep] = {}
        self.visited = 0
        self.complete = True
        # What the buffers behind each place of the order cost at least, by their banks' prices.
        least = [min(self.memory.banks[k].price for k in self.allowed[i]) * self.buffers[i].size for i in self.order]
        self.rest = [sum(least[place:], Fraction(0)) for place in range(len(least) + 1)]

    def bound(self, homes: Sequence[int]) -> Fraction:
        """A bound on the cost of all choices that begin with these banks (in `order`); UNREACHED when a live sum exceeds a capacity."""
        begins, ends, count = self.arrays.sections
        change = np.zeros((len(self.memory.banks), count + 1), dtype=np.int64)
        total = self.rest[len(homes)]
        for i, k in zip(self.order, homes, strict=False):
            size = self.buffers[i].size
            whole = self.memory.banks[k].read_only
            change[k, 0 if whole else begins[i]] += size
            change[k, count if whole else ends[i]] -= size
            total += self.memory.banks[k].price * size
        for bank, peak in zip(self.memory.banks, change.cumsum(axis=1).max(axis=1, initial=0).tolist(), strict=True):
            if not bank.holds(peak):
                return UNREACHED
            total += peak if bank.peak_counts else 0
        return total

    def choices(self, begun: Sequence[int] = ()) -> Iterator[list[int] | None]:
        """Complete choices of banks in depth-first order, the cheaper bank first; None: a look at the clock. `begun`: the first one."""
        stack = self._stack_at(begun) or [(self.bound([]), [])]
        while stack:
            bound, homes = stack.pop()
            if self.cost is not None and bound >= self.cost:
                continue
            if len(homes) == len(self.order):
                yield homes
                continue
            self.visited += 1
            if self.visited % CHOICES_PER_LOOK == 0:
                yield None
            stack += self._children(homes)

    def _children(self, homes: Sequence[int]) -> list[_BoundedChoice]:
        """With a bank for the next buffer, the one with the lowest bound last."""
        children = [(self.bound([*homes, k]), [*homes, k]) for k in self.allowed[self.order[len(homes)]]]
        return sorted((c for c in children if c[0] < UNREACHED), key=lambda c: -c[0])

    def _stack_at(self, homes: Sequence[int]) -> list[_BoundedChoice]:
        """What is open when a complete choice is looked at, that one last; empty where there is no such choice."""
        stack: list[_BoundedChoice] = []
        if len(homes) != len(self.order):
            return []
        for count in range(len(homes)):
            children = self._children(homes[:count])
            places = [place for place, (_, child) in enumerate(children) if child[-1] == homes[count]]
            if not places:
                return []
            stack += children[: places[0]] if count + 1 < len(homes) else children[: places[0] + 1]
        return stack

    def solve(self, homes: Sequence[int]) -> Iterator[Fraction]:
        """Search the banks of a complete choice one by one; yields bounds on this choice, keeps what is better."""
        members: dict[int, list[int]] = {k: [] for k in range(len(self.memory.banks))}
        for i, k in zip(self.order, homes, strict=True):
            members[k].append(i)
        rent = sum(
            (self.memory.banks[k].price * self.buffers[i].size for k, own in members.items() for i in own), Fraction(0)
        )
        total, found = rent, list[Residence]()
        for k, own in members.items():
            key = (k, tuple(sorted(own)))
            known = [r for r in self.known if r.bank == self.memory.banks[k].name]
            same = {r.id for r in known} == {self.buffers[i].id for i in own}
            problem = BankProblem(
                self.instance,
                key[1],
                self.memory.banks[k],
                self.memory,
                tuple(cut for cut in self.space.cuts if cut[0] in set(own) and not self.memory.banks[k].read_only),
            )
            if key not in self.banks:
                for standing in self._searched(problem, known if same else (), homes):
                    self.banks[key] = standing
                    if len(self.memory.banks) == 1 and standing.cost is not None:
                        self.take(rent + standing.cost, standing.residences)
                    yield total + standing.bound
            standing = self.banks[key]
            self.complete = self.complete and standing.done
            if standing.cost is None:
                return
            total += standing.cost
            found += standing.residences
        self.take(total, found)

    def _searched(
        self, problem: BankProblem, known: Sequence[Residence], homes: Sequence[int]
    ) -> Iterator[BankSearchStep]:
        """The search of a bank from where an earlier one stood. What the clock broke off is not noted: it would never be answered."""
        of_bank = (problem.bank.name, problem.members, problem.cuts)
        complete, work = self.complete, 0
        begun, own = self.notes.of_bank(*of_bank), {(self.buffers[i].id, problem.bank.name) for i in problem.members}
        if begun is not None and begun.residences is not None and {(r.id, r.bank) for r in begun.residences} != own:
            begun = None  # it is damaged
        search = MovesSearch(problem, known, self.seconds_left, begun)
        for standing in search.steps():
            self.unnoted_work += search.work - work
            work = search.work
            if self.seconds_left() > 0.0:
                note = search.note
                if self.unnoted_work >= NOTED_WORK + note.work or (standing.done and work >= WORTH_NOTING):
                    self.notes.note_bank(*of_bank, note)
                    self.notes.note_choice(ChoiceNote(tuple(homes), complete, self.residences))
                    self.unnoted_work = 0
            yield standing

    def go_on(self) -> Sequence[int]:
        """Take in what was noted last; the choice of banks to begin with, () for none."""
        begun = self.notes.of_choice()
        if begun is None:
            return ()
        try:
            if begun.residences:
                self.take(check_costs(self.instance, self.memory, begun.residences).cost, begun.residences)
        except PlacementError:
            return ()
        self.complete = begun.complete
        return begun.homes

    def begin_with(self, known: Sequence[Residence]) -> None:
        """A placement that can be executed, within the capacities."""
        self.known = tuple(known)
        self.take(check_costs(self.instance, self.memory, self.known).cost, self.known)

    def begin_with_the_papers(self) -> None:
        """Take the placement of the paper's allocator, where that finds one."""
        try:
            self.begin_with(allocation_in_banks(self.instance, self.memory).residences)
        except (DoesNotFitError, PlacementError):
            return

    def reaches(self, bound: Fraction) -> bool:
        """Whether the best placement costs no more than a bound on all of them."""
        return self.cost is not None and self.cost <= bound

    def take(self, cost: Fraction, residences: Sequence[Residence]) -> None:
        if self.cost is None or cost < self.cost:
            self.cost, self.residences = cost, tuple(residences)


def least_cost(
    space: PricedCandidates, seconds_left: Callable[[], float], notes: PricedNotes, known: Sequence[Residence] = ()
) -> Iterator[ExactStep]:
    """Steps to the least cost; the last one is complete unless some question of a bank stayed unanswered.

    It notes where it stands, and goes on from what it finds noted. `known`: the best placement of earlier searches, which is no candidate
    again; (): the paper's is the first.
    """
    search = _BankSearch(space, seconds_left, notes)
    given: Fraction | None = None
    if known:
        search.begin_with(known)
        given = search.cost
    else:
        search.begin_with_the_papers()

    def step(bound: Fraction, complete: bool) -> ExactStep:
        nonlocal given
        candidate: Assignment | None = None
        if search.cost is not None and search.cost != given:
            candidate, given = space.candidate(search.residences), search.cost
        return ExactStep(candidate, float(bound), complete)

    floor = space.least_cost
    if search.cost is not None:
        yield step(floor, False)
    for higher in _floors(search, floor):
        floor = higher
        yield step(floor, False)
    complete = search.complete or search.reaches(floor)
    yield step(search.cost if complete and search.cost is not None else floor, complete)


def _floors(search: _BankSearch, floor: Fraction) -> Iterator[Fraction]:
    """Bounds on every cost, which rise as choices of banks are searched; until one is reached, or no choice is left."""
    single = len(search.memory.banks) == 1
    for homes in search.choices(search.go_on()):
        if homes is None:
            yield floor
            continue
        for bound in search.solve(homes):
            if single:
                floor = max(floor, bound)
            yield floor
        if search.reaches(floor):
            return
