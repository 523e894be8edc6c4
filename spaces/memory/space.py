"""The placement problem: where each buffer lives in RAM (Shiftry Section 7).

A candidate is one of three things: offsets given buffer by buffer in ascending order (each at the lowest offset above
all that it conflicts with: canonical offsets, which every optimum can be pushed down to), the paper's allocator, or,
as the flat view decides, six weights of a sort key for first fit. All of them are measured by the placement that they
lead to, and every placement goes through the checker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatView
from kilotune.search.space import (
    Assignment,
    CandidateModel,
    Constraint,
    Decision,
    ExactStep,
    Measurement,
    Objective,
    Option,
    Procedure,
    Trial,
)
from kilotune.spaces.memory.arrays import BufferArrays, IntArray
from kilotune.spaces.memory.bounds import LiveSum, largest_live_sum
from kilotune.spaces.memory.checker import Migration, PlacementError, Residence, check_residences
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.orders import FEATURES, Fit, best_greedy, place_in_order, weighted_order
from kilotune.spaces.memory.placement_state import ALLOCATOR, CANONICAL, SHIFTRY, PlacementState
from kilotune.spaces.memory.procedure import DoesNotFitError, block_allocation

MANY_BUFFERS = 2000
WEIGHTS: tuple[int, ...] = (0, 1, 2, 4, -1, -2)
SORT_KEY = tuple(
    Decision(feature, (4, *(w for w in WEIGHTS if w != 4)) if feature == "size" else WEIGHTS) for feature in FEATURES
)
"""The decisions of the flat view: the weights of six features in the key that first fit sorts by."""

SEMANTICS = 1
"""Version of what a placement problem means; part of its fingerprint."""


@dataclass(frozen=True)
class Layout:
    """What a candidate means: a residence a buffer, more where buffers move."""

    residences: tuple[Residence, ...]
    migrations: tuple[Migration, ...] = ()


class MemorySpace:
    """Least peak in bytes; with a capacity, the question whether there is a placement within it."""

    name = "memory"
    prefers_flat = False  # changes of one offset lead somewhere; samplers are hopeless at them

    def __init__(self, instance: Instance, capacity_bytes: int | None = None) -> None:
        self.instance = instance
        self.capacity_bytes = capacity_bytes
        self.certificate: LiveSum = largest_live_sum(instance)
        self.arrays = BufferArrays.of(instance)

    @property
    def least_peak_bytes(self) -> int:
        """No placement has a lower peak."""
        return self.certificate.peak_bytes

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The peak, or with a capacity what is above it."""
        return (Objective("peak_bytes" if self.capacity_bytes is None else "excess_bytes"),)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Buffers stay where they are put, and below the capacity."""
        stay = Constraint("bytes_migrated", 0.0)
        return (stay,) if self.capacity_bytes is None else (stay, Constraint("peak_bytes", float(self.capacity_bytes)))

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

    def loss_of(self, peak_bytes: int) -> float:
        """The first objective at a peak."""
        return float(peak_bytes if self.capacity_bytes is None else max(peak_bytes - self.capacity_bytes, 0))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics peak_bytes, bytes_migrated, gap_percent (to the largest live sum); checked."""
        return [self._measure(assignment) for assignment in batch]

    def layout(self, assignment: Assignment) -> Layout:
        """The residences of a candidate. DoesNotFitError: the paper's allocator fails within the capacity."""
        if assignment.get(ALLOCATOR) == SHIFTRY:
            blocks = block_allocation(self.instance, self.capacity_bytes)
            return Layout(blocks.residences, blocks.migrations)
        if ALLOCATOR not in assignment:
            order = weighted_order(self.arrays, [float(assignment[feature]) for feature in FEATURES])
            offsets = dict(zip(self.ids, place_in_order(self.arrays, order).tolist(), strict=True))
        else:
            answers = (str(option).rpartition("@") for name, option in assignment.items() if name != ALLOCATOR)
            offsets = {identifier: int(offset) for identifier, _, offset in answers}
        buffers = (b for b in self.instance.buffers if b.id in offsets)
        return Layout(tuple(Residence(b.id, b.lower, b.upper, offsets[b.id]) for b in buffers))

    def candidate(self, offsets: IntArray) -> Assignment:
        """The candidate of a placement, after every buffer has been pushed down as far as it goes."""
        offsets = np.where(self.arrays.size > 0, offsets, 0)
        while True:
            order = np.lexsort((np.arange(len(offsets)), self.arrays.size > 0, offsets)).astype(np.int32)
            lower = place_in_order(self.arrays, order, Fit.ABOVE)
            if (lower == offsets).all():
                break
            offsets = lower
        placed = {str(k): f"{self.ids[b]}@{offsets[b]}" for k, b in enumerate(order.tolist(), start=1)}
        return {ALLOCATOR: CANONICAL, **placed}

    def fallback(self) -> Assignment | None:
        """The best of the greedy placements, where the paper's allocator takes seconds."""
        return self.candidate(best_greedy(self.arrays)[1]) if len(self.arrays) >= MANY_BUFFERS else None

    def procedure(self) -> Procedure:
        """Algorithms 15-17; without a capacity there is no limit, so nothing migrates."""
        yield [{ALLOCATOR: SHIFTRY}]

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """The placement as a CP-SAT model; see `spaces.memory.model`."""
        from kilotune.spaces.memory.model import PlacementModel

        return PlacementModel(self, trials)

    def exact_search(self, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """Branch and bound; see `spaces.memory.exact`."""
        best = None
        for standing in minimise_peak(self.arrays, self.least_peak_bytes, self.capacity_bytes, seed, seconds_left):
            better = best is None or standing.peak_bytes < best
            best = standing.peak_bytes if better else best
            candidate = self.candidate(standing.offsets) if better else None
            yield ExactStep(candidate, self.loss_of(standing.bound_bytes), standing.done)

    @cached_property
    def ids(self) -> list[str]:
        """Of the buffers, in the order of the instance."""
        return [b.id for b in self.instance.buffers]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Places in the instance, by id."""
        return {identifier: b for b, identifier in enumerate(self.ids)}

    def _measure(self, assignment: Assignment) -> Measurement:
        try:
            layout = self.layout(assignment)
            peak = check_residences(self.instance, layout.residences)
        except (PlacementError, DoesNotFitError) as error:
            return Measurement(failure=str(error))
        metrics = {"peak_bytes": float(peak), "bytes_migrated": float(sum(m.size for m in layout.migrations))}
        if self.least_peak_bytes:
            metrics["gap_percent"] = 100.0 * (peak - self.least_peak_bytes) / self.least_peak_bytes
        if self.capacity_bytes is not None:
            metrics["excess_bytes"] = self.loss_of(peak)
        return Measurement(metrics)
