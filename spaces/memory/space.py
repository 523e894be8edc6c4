"""The placement problem: where each buffer lives in RAM (Shiftry Section 7).

A candidate is one of three things: offsets given buffer by buffer in ascending order (each at the lowest offset above
all that it conflicts with: canonical offsets, which every optimum can be pushed down to), the paper's allocator, or,
as the flat view decides, six weights of a sort key for first fit. All of them are measured by the placement that they
lead to, and every placement goes through the checker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatView
from kilotune.search.space import (
    Assignment,
    CandidateModel,
    Decision,
    ExactStep,
    Option,
    Procedure,
    Trial,
)
from kilotune.search.work_memory import NoMemory, WorkMemory, seed_of_run
from kilotune.spaces.memory.candidates import ALLOCATOR, SHIFTRY, MemoryCandidates
from kilotune.spaces.memory.checker import PlacementError, check_residences
from kilotune.spaces.memory.earlier_placements import best_that_holds
from kilotune.spaces.memory.exact import PlacementSearchStep, first_placement, minimise_peak
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.noted_search import NotedSearch
from kilotune.spaces.memory.orders import FEATURES, is_compiled
from kilotune.spaces.memory.placement_state import PlacementState
from kilotune.spaces.memory.procedure import DoesNotFitError
from kilotune.spaces.memory.search_note import PlacementSearchNote

MANY_BUFFERS = 2000
WEIGHTS: tuple[int, ...] = (0, 1, 2, 4, -1, -2)
SORT_KEY = tuple(
    Decision(feature, (4, *(w for w in WEIGHTS if w != 4)) if feature == "size" else WEIGHTS) for feature in FEATURES
)
"""The decisions of the flat view: the weights of six features in the key that first fit sorts by."""

SEMANTICS = 1
"""Version of what a placement problem means; part of its fingerprint."""


class MemorySpace(MemoryCandidates):
    """Offsets, buffer by buffer; see the module's text."""

    name = "memory"
    answers_always = True
    prefers_flat = False  # changes of one offset lead somewhere; samplers are hopeless at them

    def __init__(self, instance: Instance, capacity_bytes: int | None = None) -> None:
        super().__init__(instance, capacity_bytes)
        self.work_memory: WorkMemory = NoMemory()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "work_memory": NoMemory()}  # workers measure, and search for nothing

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the buffers and the capacity."""
        rows = tuple((b.id, b.lower, b.upper, b.size, b.alignment) for b in self.instance.buffers)
        return fingerprint(self.name, SEMANTICS, rows, self.capacity_bytes)

    def start(self) -> PlacementState:
        """Nothing decided."""
        return PlacementState(self)

    def flat_view(self) -> FlatView:
        """Placements by first fit in the order of a weighted sort key."""
        return FlatView(self, SORT_KEY, self.loss_of(self.least_peak_bytes))

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a candidate in the order in which they were asked: the allocator and the numbered buffers, or the
        weights of the sort key."""
        if ALLOCATOR not in answers:
            return {decision.name: answers[decision.name] for decision in SORT_KEY}
        return {name: answers[name] for name in sorted(answers, key=lambda n: 0 if n == ALLOCATOR else int(n))}

    def fallback(self) -> Assignment | None:
        """Where the procedure takes seconds, what the exact search begins with; without a compiler the order by size alone, which
        is placed when it is measured."""
        if not self.procedure_takes_long:
            return None
        if not is_compiled():
            return {decision.name: decision.options[0] for decision in SORT_KEY}
        return self.candidate(first_placement(self.arrays))

    @property
    def procedure_takes_long(self) -> bool:
        """Whether the paper's allocator takes seconds, which it does when its candidate is measured."""
        return len(self.arrays) >= MANY_BUFFERS

    def procedure(self) -> Procedure:
        """Algorithms 15-17; without a capacity there is no limit, so nothing migrates."""
        yield [{ALLOCATOR: SHIFTRY}]

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """The placement as a CP-SAT model; see `spaces.memory.model`."""
        from kilotune.spaces.memory.model import PlacementModel  # OR-tools takes a second to import

        return PlacementModel(self, trials)

    def exact_search(self, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """Branch and bound; see `spaces.memory.exact`."""
        standings = minimise_peak(self.arrays, self.least_peak_bytes, self.capacity_bytes, seed, seconds_left)
        return self._steps(standings, self._notes(seed), 0, math.inf)

    def exact_search_after(
        self, trials: Sequence[Trial], seed: int, seconds_left: Callable[[], float]
    ) -> Iterator[ExactStep] | None:
        """From the best of the placements, with what was proved and how the work was divided as earlier runs of this seed have noted it."""
        if not self.work_memory.keeps:
            return None
        begin = best_that_holds(trials, "peak_bytes", self._placed)
        peak = math.inf if begin is None else self.peak_of(begin)
        notes = self._notes(seed)
        note = notes.begin(peak)
        bound, own_seed = max(self.least_peak_bytes, note.bound_bytes), seed_of_run(seed, note.runs)
        standings = minimise_peak(
            self.arrays, bound, self.capacity_bytes, own_seed, seconds_left, begin=begin, begun=note.progress
        )
        return self._steps(standings, notes, note.runs, peak)

    def _steps(
        self, standings: Iterator[PlacementSearchStep], notes: NotedSearch[PlacementSearchNote], runs: int, best: float
    ) -> Iterator[ExactStep]:
        """Candidates below the best peak, and notes of where the search stands."""
        for standing in standings:
            better = standing.peak_bytes < best
            best = min(best, standing.peak_bytes)
            now = PlacementSearchNote(runs, standing.bound_bytes, standing.progress)
            notes.note(now, now.work, best)
            candidate = self.candidate(standing.offsets) if better else None
            yield ExactStep(candidate, self.loss_of(standing.bound_bytes), standing.done)

    def _notes(self, seed: int) -> NotedSearch[PlacementSearchNote]:
        return NotedSearch(
            self.work_memory, ("placement search", self.fingerprint, seed), PlacementSearchNote.from_json
        )

    def _placed(self, trial: Trial) -> tuple[int, IntArray] | None:
        """Its peak in bytes and where it has the buffers; None where it is no placement, or buffers move."""
        offsets = self.offsets_of(trial.assignment)
        return None if offsets is None else (self.peak_of(offsets), offsets)

    def offsets_of(self, assignment: Assignment) -> IntArray | None:
        """Where a candidate has the buffers, in bytes, shape (buffers,); None where it is no placement, or buffers move."""
        try:
            layout = self.layout(assignment)
            check_residences(self.instance, layout.residences)
        except (PlacementError, DoesNotFitError):
            return None
        offsets = {residence.id: residence.offset for residence in layout.residences}
        if layout.migrations or len(layout.residences) != len(self.ids) or len(offsets) != len(self.ids):
            return None
        return np.array([offsets[identifier] for identifier in self.ids], dtype=np.int64)

    def peak_of(self, offsets: IntArray) -> int:
        """Bytes."""
        return int((offsets + self.arrays.size).max(initial=0))
