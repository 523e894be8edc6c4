"""What a candidate with banks and priced moves means, and what it costs: a bank for every buffer, where it moves, its offsets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from kilotune.codegen.arrays import IntArray
from kilotune.search.space import (
    Assignment,
    Constraint,
    Decision,
    Measurement,
    Option,
)
from kilotune.spaces.memory.banks import MemoryMap, require_banks, require_total
from kilotune.spaces.memory.bounds import LiveSum, largest_live_sum
from kilotune.spaces.memory.candidates import ALLOCATOR, SHIFTRY, MemoryLayout
from kilotune.spaces.memory.checker import PlacementError, Residence, check_costs, migrations_in_order
from kilotune.spaces.memory.incumbent_placement import best_within
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.load_bound import least_cost_without_addresses
from kilotune.spaces.memory.procedure import DoesNotFitError, allocation_in_banks
from kilotune.spaces.memory.rectangles import Cut, Cuts, Rectangles, cut_up, possible_cuts, some_order

PLACED = "placed"
OFFSETS, SEARCHED = "offsets", "searched"
DECODING_QUESTIONS, DECODING_WORK = 4, 100_000
"""How long a candidate without offsets is searched for some: questions to the exact search, and buffers looked at in each."""


@dataclass(frozen=True)
class BankPlan:
    """A bank (index) for every buffer, and where buffers may move."""

    homes: tuple[int, ...]
    cuts: Cuts

    def members(self, bank: int) -> list[int]:
        """Indices of the buffers in a bank."""
        return [i for i, home in enumerate(self.homes) if home == bank]


class PricedCandidates:
    """Placements in the banks of `memory`. ValueError when a buffer has no bank, or what is live together exceeds all of them."""

    def __init__(self, instance: Instance, memory: MemoryMap) -> None:
        require_banks(instance, memory)
        require_total(instance, memory)
        self.instance, self.memory = instance, memory
        self.largest_sum: LiveSum = largest_live_sum(instance)
        self.cuts: tuple[Cut, ...] = possible_cuts(instance, memory)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Every bank's peak is within its capacity."""
        return tuple(
            Constraint(f"{bank.name}_peak_bytes", float(bank.capacity_bytes))
            for bank in self.memory.banks
            if bank.capacity_bytes is not None
        )

    @cached_property
    def least_cost(self) -> Fraction:
        """A cost that no placement beats: what the banks and the sums of live sizes ask for, without addresses."""
        return least_cost_without_addresses(self.instance, self.memory)

    @cached_property
    def decisions_of_plan(self) -> tuple[Decision, ...]:
        """A bank for every buffer that has a choice; for every possible cut, whether the buffer may move there."""
        buffers = self.instance.buffers
        named = [(b, tuple(self.memory.banks[k].name for k in self.memory.allowed(b))) for b in buffers]
        banks = [Decision(f"bank:{b.id}", names) for b, names in named if len(names) > 1]
        return (*banks, *(Decision(_cut_name(self.instance, cut), ("stay", "move")) for cut in self.cuts))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics cost, bytes_migrated, and `BANK_peak_bytes` of every bank; checked."""
        return [self._measure(assignment) for assignment in batch]

    def plan(self, assignment: Assignment) -> BankPlan:
        """What a candidate says about banks and cuts."""
        homes = []
        for b in self.instance.buffers:
            allowed = self.memory.allowed(b)
            name = assignment.get(f"bank:{b.id}")
            homes.append(next((k for k in allowed if self.memory.banks[k].name == name), allowed[0]))
        moves = frozenset(cut for cut in self.cuts if assignment.get(_cut_name(self.instance, cut)) == "move")
        return BankPlan(tuple(homes), moves)

    def layout(self, assignment: Assignment) -> MemoryLayout:
        """The residences of a candidate, and the moves in an order that can be executed. DoesNotFitError: the paper's
        allocator fails. PlacementError: the offsets are no placement."""
        if assignment.get(ALLOCATOR) == SHIFTRY:
            residences: Sequence[Residence] = allocation_in_banks(self.instance, self.memory).residences
        else:
            plan = self.plan(assignment)
            offsets = str(assignment.get(OFFSETS, SEARCHED))
            residences = self._searched(plan) if offsets == SEARCHED else self._given(plan, offsets)
        return MemoryLayout(tuple(residences), tuple(migrations_in_order(self.instance, residences)))

    def candidate(self, residences: Sequence[Residence]) -> Assignment:
        """The candidate of a placement. All moves must be at possible cuts."""
        own: dict[str, list[Residence]] = {}
        for r in sorted(residences, key=lambda r: r.lower):
            own.setdefault(r.id, []).append(r)
        answers: dict[str, Option] = {ALLOCATOR: PLACED}
        for decision in self.decisions_of_plan:
            if decision.name.startswith("bank:"):
                answers[decision.name] = own[decision.name.removeprefix("bank:")][0].bank
        for i, point in self.cuts:
            moves = any(r.lower == point for r in own[self.instance.buffers[i].id][1:])
            answers[_cut_name(self.instance, (i, point))] = "move" if moves else "stay"
        answers[OFFSETS] = " ".join(str(r.offset) for b in self.instance.buffers for r in own[b.id])
        return answers

    def _measure(self, assignment: Assignment) -> Measurement:
        try:
            layout = self.layout(assignment)
            bill = check_costs(self.instance, self.memory, layout.residences, within_capacities=False)
        except (PlacementError, DoesNotFitError) as error:
            return Measurement(failure=str(error))
        peaks = {f"{name}_peak_bytes": float(peak) for name, peak in bill.peak_bytes.items()}
        return Measurement({"cost": float(bill.cost), "bytes_migrated": float(bill.bytes_migrated), **peaks})

    def _searched(self, plan: BankPlan) -> list[Residence]:
        found: list[Residence] = []
        for k, bank in enumerate(self.memory.banks):
            members = plan.members(k)
            cuts = frozenset(cut for cut in plan.cuts if plan.homes[cut[0]] == k)
            rectangles = cut_up(self.instance, members, bank, cuts)
            residences = rectangles.residences(self.instance, bank.name, _decode(rectangles, bank.capacity_bytes))
            try:
                migrations_in_order(self.instance, residences)
            except PlacementError:
                rectangles = cut_up(self.instance, members, bank, cuts, some_order(cuts))
                residences = rectangles.residences(self.instance, bank.name, _decode(rectangles, bank.capacity_bytes))
            found += residences
        return found

    def _given(self, plan: BankPlan, text: str) -> list[Residence]:
        offsets = iter(text.split())
        points: dict[int, list[int]] = {}
        for i, point in sorted(plan.cuts):
            points.setdefault(i, []).append(point)
        found = []
        for i, b in enumerate(self.instance.buffers):
            bounds = [b.lower, *points.get(i, ()), b.upper]
            for lower, upper in itertools.pairwise(bounds):
                offset = next(offsets, None)
                if offset is None:
                    raise PlacementError(f"{b.id} has no single address at program point {lower}.")
                found.append(Residence(b.id, lower, upper, int(offset), self.memory.banks[plan.homes[i]].name))
        return found


def _decode(rectangles: Rectangles, capacity: int | None) -> IntArray:
    return best_within(rectangles.arrays, capacity, DECODING_QUESTIONS, DECODING_WORK).offsets


def _cut_name(instance: Instance, cut: Cut) -> str:
    return f"move:{instance.buffers[cut[0]].id}@{cut[1]}"
