"""ExecutionOrder of execution and placement together: which operator runs next, until all have run, then where each tensor lies.

A candidate is an order and a placement of the lifetimes that follow from it, as `MemorySpace` has them. Every one is executed by a checker
that follows the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property

from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import Assignment, ExactStep, Option, Procedure
from kilotune.spaces.memory.candidates import ALLOCATOR, SHIFTRY
from kilotune.spaces.memory.ordered_candidates import OrderedCandidates, operator_decision, placement_in
from kilotune.spaces.memory.ordered_placement import place_in_orders
from kilotune.spaces.memory.ordered_state import OrderedState
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.memory.space import SEMANTICS


class OrderedSpace(OrderedCandidates):
    """Operators step by step, then offsets; see the module's text."""

    name = "memory"

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
        best = math.inf
        for found in place_in_orders(self, seed, seconds_left):
            candidate = None
            if found.peak_bytes < best:
                best, placed = found.peak_bytes, self.placements_of(found.order)
                candidate = self.candidate(found.order, placed.candidate(found.offsets))
            capacity = self.capacity_bytes
            goal = found.bound_bytes if capacity is None else max(found.bound_bytes, capacity)
            done = best <= goal or (capacity is not None and found.bound_bytes > capacity)
            yield ExactStep(candidate, self.in_file_order.loss_of(found.bound_bytes), done)
            if done:
                return
