"""Placement as a CP-SAT model: one interval of addresses a buffer, no overlap in the plane.

The peak is never minimised: the model is asked whether the bound can be reached, else for the middle between the bound
and the best peak known. What decides is the search, not the constraint: one worker, a fixed search that takes the
variable with the lowest minimum first, ties in a good static order, no linearisation, short restarts over orders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from ortools.sat.python import cp_model

from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.constraint_solver import SolverClock
from kilotune.search.space import Assignment, ModelAnswer, SolveLimit, Trial
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.candidates import MemoryCandidates
from kilotune.spaces.memory.orders import PlacementOrder, best_greedy, sorted_by

ORDERS = ("TWA", "WAT", "TAW", "ZWT")
FIRST_WORK = 0.25  # of CP-SAT, before it is asked something else
MOST_BUFFERS = 3000
"""Above this a model takes longer to build than a slice lasts; the greedy placement is all that is returned."""


class PlacementModel:
    """Warm-started by the best greedy placement, or the best trial where that is lower."""

    def __init__(self, space: MemoryCandidates, trials: Sequence[Trial]) -> None:
        self._space = space
        feasible = [t for t in trials if t.measurement.failure is None and not t.measurement.metrics["bytes_migrated"]]
        self._best_known = min((int(t.measurement.metrics["peak_bytes"]) for t in feasible), default=None)

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        """At most one candidate, better than what is known; see `search.space.CandidateModel`."""
        space, buffers = self._space, self._space.arrays
        clock = SolverClock(limit.work, limit.seconds, limit.clock)
        _, offsets = best_greedy(buffers)
        peak = int((offsets + buffers.size).max(initial=0))
        found = self._best_known is None or peak < self._best_known
        peak = peak if self._best_known is None else min(peak, self._best_known)
        bound = space.least_peak_bytes
        goal = max(bound, space.capacity_bytes or 0)
        turn = seed % len(ORDERS)
        work = FIRST_WORK
        while peak > max(goal, bound) and len(buffers) <= MOST_BUFFERS and not clock.is_over:
            target = goal if turn // len(ORDERS) % 2 == 0 else (goal + peak) // 2
            order = static_order(buffers, ORDERS[turn % len(ORDERS)])
            status, placed = ask(buffers, order, target, seed + turn, clock, work)
            if placed is not None:
                offsets, found = placed, True
                peak = int((offsets + buffers.size).max(initial=0))
            elif status == cp_model.INFEASIBLE:
                bound = max(bound, target + 1)
                if space.capacity_bytes is not None:
                    break
                goal = max(goal, bound)
            turn += 1
            work *= 1.2
        candidates = (space.candidate(offsets),) if found else ()
        loss = -math.inf if not bound else space.loss_of(bound)
        proved_empty = space.capacity_bytes is not None and bound > space.capacity_bytes
        return ModelAnswer(candidates, loss, exhausted=proved_empty and not found)


def static_order(buffers: BufferArrays, letters: str) -> PlacementOrder:
    """W lifetime, A area, T total of the live sections, Z size; the most demanding buffer first."""
    width = buffers.upper - buffers.lower
    keys = {"W": -width, "A": -buffers.area, "T": -buffers.load, "Z": -buffers.size}
    return sorted_by(*(keys[letter] for letter in letters))


def ask(
    buffers: BufferArrays, order: PlacementOrder, capacity: int, seed: int, clock: SolverClock, work: float
) -> tuple[int, IntArray | None]:
    """CP-SAT's status, and offsets when there is a placement within `capacity` bytes."""
    model = cp_model.CpModel()
    steps, times, addresses = [], [], []
    for b in range(len(buffers)):
        size, alignment = int(buffers.size[b]), int(buffers.alignment[b])
        if size > capacity:
            return int(cp_model.INFEASIBLE), None
        step = model.new_int_var(0, (capacity - size) // alignment, "")
        lower, upper = int(buffers.lower[b]), int(buffers.upper[b])
        steps.append(step)
        if size:
            times.append(model.new_fixed_size_interval_var(lower, upper - lower, ""))
            addresses.append(model.new_fixed_size_interval_var(step * alignment, size, ""))
    model.add_no_overlap_2d(times, addresses)
    model.add_decision_strategy([steps[b] for b in order], cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)
    solver = cp_model.CpSolver()
    solver.parameters.search_branching = cp_model.FIXED_SEARCH
    solver.parameters.linearization_level = 0
    solver.parameters.random_seed = seed % (1 << 31)
    status = int(clock.solve(solver, model, work))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return status, None
    return status, np.array([solver.value(step) for step in steps], dtype=np.int64) * buffers.alignment
