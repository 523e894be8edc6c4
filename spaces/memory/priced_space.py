"""Placement with banks and moves that have a price: one cost for all of it (see `spaces.memory.banks`).

A candidate says which bank each buffer is in, at which points it may move, and `offsets`: either an explicit placement
(an offset a rectangle, see `spaces.memory.rectangles`) or `searched`, which stands for the placement that a short
deterministic search finds for those banks and cuts. Or it is the paper's allocator with its defragmentation. Every placement
goes through the checker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatView
from kilotune.search.space import (
    Assignment,
    CandidateModel,
    Decision,
    ExactStep,
    Objective,
    Option,
    Procedure,
    Trial,
    answered,
)
from kilotune.search.work_memory import NoMemory, WorkMemory
from kilotune.spaces.memory.banks import MemoryMap
from kilotune.spaces.memory.candidates import ALLOCATOR, SHIFTRY
from kilotune.spaces.memory.checker import PlacementError, Residence, check_costs
from kilotune.spaces.memory.earlier_placements import best_that_holds
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.priced_candidates import OFFSETS, PLACED, SEARCHED, PricedCandidates
from kilotune.spaces.memory.priced_exact import least_cost
from kilotune.spaces.memory.priced_notes import PricedNotes
from kilotune.spaces.memory.procedure import DoesNotFitError
from kilotune.spaces.memory.space import SEMANTICS


class Suggestions(tuple[Option, ...]):
    """Options that are good guesses; any other text of a placement is an answer too."""

    def __contains__(self, option: object) -> bool:
        return super().__contains__(option) or (isinstance(option, str) and set(option) <= set("0123456789 "))


class PricedSpace(PricedCandidates):
    """Least cost in bytes of peak: banks and moves first, then the offsets."""

    name = "memory"
    answers_always = True
    prefers_flat = False
    objectives = (Objective("cost"),)

    def __init__(self, instance: Instance, memory: MemoryMap) -> None:
        super().__init__(instance, memory)
        self.work_memory: WorkMemory = NoMemory()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "work_memory": NoMemory()}  # workers measure, and search for nothing

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the buffers, the banks and the prices."""
        return fingerprint(f"{self.name} in banks", SEMANTICS, self.instance.buffers, self.memory)

    def start(self) -> PricedState:
        """Nothing decided."""
        return PricedState(self, ())

    def flat_view(self) -> FlatView:
        """Banks and cuts; offsets are searched."""
        return FlatView(self, self.decisions_of_plan, float(self.least_cost))

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a candidate in the order in which they were asked. Without an allocator it is one of the flat view."""
        names = (ALLOCATOR, *(decision.name for decision in self.decisions_of_plan), OFFSETS)
        return {name: answers[name] for name in names if name in answers}

    def procedure(self) -> Procedure:
        """Algorithms 15-17, each buffer in the first bank that has room."""
        yield [{ALLOCATOR: SHIFTRY}]

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """Banks, moves and offsets as a CP-SAT model; see `spaces.memory.priced_model`."""
        from kilotune.spaces.memory.priced_model import PricedModel  # OR-tools takes a second to import

        return PricedModel(self, trials)

    def exact_search(self, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """Branch and bound over banks and cuts; see `spaces.memory.priced_exact`."""
        return least_cost(self, seconds_left, PricedNotes(self.work_memory, self.fingerprint, False))

    def exact_search_after(
        self, trials: Sequence[Trial], seed: int, seconds_left: Callable[[], float]
    ) -> Iterator[ExactStep] | None:
        """From the best of the placements, with the choice of banks and the moves that earlier runs have noted as the next ones; nothing in
        it is random."""
        if not self.work_memory.keeps:
            return None
        known = best_that_holds(trials, "cost", self._placed) or ()
        return least_cost(self, seconds_left, PricedNotes(self.work_memory, self.fingerprint, True), known)

    def _placed(self, trial: Trial) -> tuple[Fraction, tuple[Residence, ...]] | None:
        """Its cost and where it has the buffers; None where it is no placement within the capacities."""
        try:
            residences = self.layout(trial.assignment).residences
            return check_costs(self.instance, self.memory, residences).cost, residences
        except (PlacementError, DoesNotFitError):
            return None


@dataclass(frozen=True)
class PricedState:
    """Allocator, then the plan, then the offsets."""

    space: PricedSpace
    chosen: tuple[Option, ...]

    @property
    def decision(self) -> Decision | None:
        """The next question."""
        if not self.chosen:
            return Decision(ALLOCATOR, (PLACED, SHIFTRY))
        plan = self.space.decisions_of_plan
        if self.chosen[0] == SHIFTRY or len(self.chosen) == len(plan) + 2:
            return None
        return (
            plan[len(self.chosen) - 1] if len(self.chosen) <= len(plan) else Decision(OFFSETS, Suggestions((SEARCHED,)))
        )

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        names = (ALLOCATOR, *(d.name for d in self.space.decisions_of_plan), OFFSETS)
        return dict(zip(names, self.chosen, strict=False))

    def take(self, option: Option) -> PricedState:
        """Answer the next question."""
        answered(self.decision, option)
        return PricedState(self.space, (*self.chosen, option))

    def bound(self) -> float:
        """What no placement beats."""
        return float(self.space.least_cost)
