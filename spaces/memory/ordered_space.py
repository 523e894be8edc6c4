"""ExecutionOrder of execution and placement together: which operator runs next, until all have run, then where each tensor lies.

A candidate is an order and a placement of the lifetimes that follow from it, as `MemorySpace` has them. Every one is executed by a checker
that follows the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from kilotune.codegen.tensor_graph import TensorGraph
from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import Assignment, ExactStep, Option, Procedure, Trial
from kilotune.search.work_memory import NoMemory, WorkMemory, seed_of_run
from kilotune.spaces.memory.candidates import ALLOCATOR, SHIFTRY
from kilotune.spaces.memory.noted_search import NotedSearch
from kilotune.spaces.memory.order_search import ExecutionOrder
from kilotune.spaces.memory.ordered_candidates import OrderedCandidates, operator_decision, placement_in
from kilotune.spaces.memory.ordered_placement import OrderedPlacement, place_in_orders
from kilotune.spaces.memory.ordered_state import OrderedState
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.memory.search_note import NO_ORDERS, OrderSearchNote
from kilotune.spaces.memory.space import SEMANTICS


class OrderedSpace(OrderedCandidates):
    """Operators step by step, then offsets; see the module's text."""

    name = "memory"

    def __init__(self, graph: TensorGraph, alignment_bytes: int = 1, capacity_bytes: int | None = None) -> None:
        super().__init__(graph, alignment_bytes, capacity_bytes)
        self.work_memory: WorkMemory = NoMemory()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "work_memory": NoMemory()}  # workers measure, and search for nothing

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the graph, the alignment and the capacity."""
        graph = (self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs)
        return fingerprint(f"{self.name} in any order", SEMANTICS, graph, self.alignment_bytes, self.capacity_bytes)

    def start(self) -> OrderedState:
        """Nothing has run."""
        return OrderedState(self, self.sums.start())

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a candidate in the order in which they were asked."""
        steps = {operator_decision(k): answers[operator_decision(k)] for k in range(self.sums.count)}
        return {**steps, **self.in_file_order.in_order(placement_in(answers))}

    def fallback(self) -> Assignment | None:
        """The file's order, and the best of the greedy placements."""
        space = self.in_file_order
        return self.candidate(self.graph.file_order, space.candidate(best_greedy(space.arrays)[1]))

    def procedure(self) -> Procedure:
        """Shiftry's Algorithms 15-17 on the file's order."""
        yield [self.candidate(self.graph.file_order, {ALLOCATOR: SHIFTRY})]

    def exact_search(self, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """Orders by their largest live sums, the best of them placed; then other orders, while one may have a lower placement."""
        return self._steps(place_in_orders(self, seed, seconds_left), self._notes(seed), 0, math.inf)

    def exact_search_after(
        self, trials: Sequence[Trial], seed: int, seconds_left: Callable[[], float]
    ) -> Iterator[ExactStep] | None:
        """From the best of the placements and the best order, with what was proved and what has been done as earlier runs of this seed have
        noted it."""
        if not self.work_memory.keeps:
            return None
        known = [placed for trial in trials if (placed := self._placed(trial)) is not None]
        best = min((placed.peak_bytes for placed in known), default=math.inf)
        notes = self._notes(seed)
        note = notes.begin(best)
        own_seed = seed_of_run(seed, note.runs)
        begun = note if self._is_order(note.order) else NO_ORDERS
        return self._steps(place_in_orders(self, own_seed, seconds_left, known, begun), notes, note.runs, best)

    def _steps(
        self, found_ones: Iterator[OrderedPlacement], notes: NotedSearch[OrderSearchNote], runs: int, best: float
    ) -> Iterator[ExactStep]:
        """Candidates below the best peak, and notes of where the search stands, until nothing is better."""
        for found in found_ones:
            candidate = None
            if found.peak_bytes < best:
                best, placed = found.peak_bytes, self.placements_of(found.order)
                candidate = self.candidate(found.order, placed.candidate(found.offsets))
            notes.note(replace(found.standing, runs=runs), found.work, best)
            capacity = self.capacity_bytes
            goal = found.bound_bytes if capacity is None else max(found.bound_bytes, capacity)
            done = best <= goal or (capacity is not None and found.bound_bytes > capacity)
            yield ExactStep(candidate, self.in_file_order.loss_of(found.bound_bytes), done)
            if done:
                return

    def _notes(self, seed: int) -> NotedSearch[OrderSearchNote]:
        subject = ("search of orders and placements", self.fingerprint, seed)
        return NotedSearch(self.work_memory, subject, OrderSearchNote.from_json)

    def _placed(self, trial: Trial) -> OrderedPlacement | None:
        """None: where it is no order or no placement, or buffers move."""
        try:
            order = self.order_of(trial.assignment)
            space = self.placements_of(order)
        except ValueError:
            return None
        offsets = space.offsets_of(placement_in(trial.assignment))
        return None if offsets is None else OrderedPlacement(order, offsets, space.peak_of(offsets), 0)

    def _is_order(self, noted: ExecutionOrder) -> bool:
        """Whether it can be executed."""
        if sorted(noted) != list(range(self.sums.count)):
            return False
        try:
            self.placements_of(noted)
        except ValueError:
            return False
        return True
