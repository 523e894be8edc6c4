"""What a candidate of the placement problem means, and what it measures: an offset for every buffer, or a way to find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.search.space import (
    Assignment,
    Constraint,
    Measurement,
    Objective,
)
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.bounds import LiveSum, largest_live_sum
from kilotune.spaces.memory.checker import Migration, PlacementError, Residence, check_residences
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.orders import FEATURES, Fit, place_in_order, weighted_order
from kilotune.spaces.memory.procedure import DoesNotFitError, block_allocation

ALLOCATOR = "allocator"
MOST_PUSHED = 5000
"""So many buffers are left where they were put."""

CANONICAL, SHIFTRY = "canonical", "shiftry"


@dataclass(frozen=True)
class MemoryLayout:
    """What a candidate means: a residence a buffer, more where buffers move."""

    residences: tuple[Residence, ...]
    migrations: tuple[Migration, ...] = ()


class MemoryCandidates:
    """Placements of an instance. Least peak in bytes; with a capacity, the question whether there is one within it."""

    def __init__(self, instance: Instance, capacity_bytes: int | None = None) -> None:
        self.instance = instance
        self.capacity_bytes = capacity_bytes
        self.largest_sum: LiveSum = largest_live_sum(instance)
        self.arrays = BufferArrays.of(instance)

    @property
    def least_peak_bytes(self) -> int:
        """No placement has a lower peak."""
        return self.largest_sum.peak_bytes

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The peak, or with a capacity what is above it."""
        return (Objective("peak_bytes" if self.capacity_bytes is None else "excess_bytes"),)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Buffers stay where they are put, and below the capacity."""
        stay = Constraint("bytes_migrated", 0.0)
        return (stay,) if self.capacity_bytes is None else (stay, Constraint("peak_bytes", float(self.capacity_bytes)))

    def loss_of(self, peak_bytes: int) -> float:
        """The first objective at a peak."""
        return float(peak_bytes if self.capacity_bytes is None else max(peak_bytes - self.capacity_bytes, 0))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics peak_bytes, bytes_migrated, gap_percent (to the largest live sum); checked."""
        return [self._measure(assignment) for assignment in batch]

    def layout(self, assignment: Assignment) -> MemoryLayout:
        """The residences of a candidate. DoesNotFitError: the paper's allocator fails within the capacity."""
        if assignment.get(ALLOCATOR) == SHIFTRY:
            blocks = block_allocation(self.instance, self.capacity_bytes)
            return MemoryLayout(blocks.residences, blocks.migrations)
        if ALLOCATOR not in assignment:
            order = weighted_order(self.arrays, [float(assignment[feature]) for feature in FEATURES])
            offsets = dict(zip(self.ids, place_in_order(self.arrays, order).tolist(), strict=True))
        else:
            answers = (str(option).rpartition("@") for name, option in assignment.items() if name != ALLOCATOR)
            offsets = {identifier: int(offset) for identifier, _, offset in answers}
        buffers = (b for b in self.instance.buffers if b.id in offsets)
        return MemoryLayout(tuple(Residence(b.id, b.lower, b.upper, offsets[b.id]) for b in buffers))

    def candidate(self, offsets: IntArray) -> Assignment:
        """The candidate of a placement, after every buffer has been pushed down as far as it goes. Of very many none is: that takes longer
        than to find the placement."""
        offsets = np.where(self.arrays.size > 0, offsets, 0)
        while True:
            order = np.lexsort((np.arange(len(offsets)), self.arrays.size > 0, offsets)).astype(np.int32)
            if len(offsets) >= MOST_PUSHED:
                break
            lower = place_in_order(self.arrays, order, Fit.ABOVE)
            if (lower == offsets).all():
                break
            offsets = lower
        placed = {str(k): f"{self.ids[b]}@{offsets[b]}" for k, b in enumerate(order.tolist(), start=1)}
        return {ALLOCATOR: CANONICAL, **placed}

    @cached_property
    def ids(self) -> list[str]:
        """The buffers' ids, in the order of the instance."""
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
