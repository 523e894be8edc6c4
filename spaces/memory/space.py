"""The placement problem: where each buffer lives in RAM (Shiftry Section 7).

A candidate is one of three things: offsets given buffer by buffer in ascending order (each at the lowest offset above
all that it conflicts with: canonical offsets, which every optimum can be pushed down to), the paper's allocator, or
(in `SortKeySpace`) six weights of a sort key for first fit. All of them are measured by the placement that they lead
to, and every placement goes through the checker.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kilotune.search.flat_state import FlatState
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
from kilotune.spaces.memory.bounds import LiveSum, largest_live_sum, require_capacity
from kilotune.spaces.memory.checker import Migration, PlacementError, Residence, check_residences
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.orders import FEATURES, Fit, place_in_order, weighted_order
from kilotune.spaces.memory.procedure import DoesNotFitError, block_allocation

ALLOCATOR = "allocator"
CANONICAL, SHIFTRY = "canonical", "shiftry"
WEIGHTS: tuple[int, ...] = (0, 1, 2, 4, -1, -2)


@dataclass(frozen=True)
class Layout:
    """What a candidate means: a residence a buffer, more where buffers move."""

    residences: tuple[Residence, ...]
    migrations: tuple[Migration, ...] = ()


class MemorySpace:
    """Least peak in bytes; with a capacity, the question whether there is a placement within it.

    ValueError when the capacity is below the largest live sum.
    """

    name = "memory"

    def __init__(self, instance: Instance, capacity_bytes: int | None = None) -> None:
        if capacity_bytes is not None:
            require_capacity(instance, capacity_bytes)
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
        rows = "\n".join(f"{b.id!r},{b.lower},{b.upper},{b.size},{b.alignment}" for b in self.instance.buffers)
        return hashlib.sha256(f"{type(self).__name__} {self.capacity_bytes}\n{rows}".encode()).hexdigest()[:32]

    def start(self) -> PlacementState | FlatState:
        """Nothing decided."""
        return PlacementState(self)

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
            offsets = dict(zip(self._ids, place_in_order(self.arrays, order).tolist(), strict=True))
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
        placed = {str(k): f"{self._ids[b]}@{offsets[b]}" for k, b in enumerate(order.tolist(), start=1)}
        return {ALLOCATOR: CANONICAL, **placed}

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
    def _ids(self) -> list[str]:
        return [b.id for b in self.instance.buffers]

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


class PlacementState:
    """Buffers placed so far, each above all that it conflicts with; in ascending order of (offset, buffer)."""

    def __init__(self, space: MemorySpace, answers: tuple[tuple[str, Option], ...] = (), placed: tuple[int, ...] = ()):
        self.space, self._answers, self._placed = space, answers, placed

    @cached_property
    def _floors(self) -> dict[int, int]:
        """Of the unplaced buffers, in bytes."""
        buffers, placed = self.space.arrays, list(self._placed)
        offsets = [int(str(option).rpartition("@")[2]) for _, option in self._answers[1:]]
        floors = np.zeros(len(buffers), dtype=np.int64)
        for b, offset in zip(placed, offsets, strict=True):
            meets = (buffers.lower < buffers.upper[b]) & (buffers.upper > buffers.lower[b])
            np.maximum(floors, np.where(meets, offset + buffers.size[b], 0), out=floors)
        floors = -(-floors // buffers.alignment) * buffers.alignment
        done = set(placed)
        return {b: int(floor) for b, floor in enumerate(floors) if b not in done}

    @property
    def decision(self) -> Decision | None:
        """Which buffer comes next, at its canonical offset; lowest first, and the larger one of equals."""
        if not self._answers:
            return Decision(ALLOCATOR, (CANONICAL, SHIFTRY))
        if self._answers[0][1] == SHIFTRY or len(self._placed) == len(self.space.arrays):
            return None
        floors, size = self._floors, self.space.arrays.size
        last = max((self._key(b, self._offset(k)) for k, b in enumerate(self._placed)), default=(-1, False, -1))
        waiting = [b for b in floors if self._key(b, floors[b]) > last] or list(floors)
        waiting.sort(key=lambda b: (floors[b], -int(size[b]), b))
        names = self.space._ids
        return Decision(str(len(self._placed) + 1), tuple(f"{names[b]}@{floors[b]}" for b in waiting))

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        return dict(self._answers)

    def take(self, option: Option) -> PlacementState:
        """Place the next buffer."""
        decision = self.decision
        if decision is None or option not in decision.options:
            raise ValueError(f"{option!r} is no option of {decision.name if decision else 'a complete assignment'}")
        answers = (*self._answers, (decision.name, option))
        if decision.name == ALLOCATOR:
            return PlacementState(self.space, answers)
        names = self.space._ids
        return PlacementState(self.space, answers, (*self._placed, names.index(str(option).rpartition("@")[0])))

    def bound(self) -> float:
        """The largest live sum, or the peak so far, or what the waiting buffers reach on their floors."""
        space = self.space
        if self._answers and self._answers[0][1] == SHIFTRY:
            return float("-inf")
        size = space.arrays.size
        tops = [self._offset(k) + int(size[b]) for k, b in enumerate(self._placed)]
        tops += [floor + int(size[b]) for b, floor in self._floors.items()]
        return space.loss_of(max([space.least_peak_bytes, *tops]))

    def _offset(self, place: int) -> int:
        return int(str(self._answers[place + 1][1]).rpartition("@")[2])

    def _key(self, b: int, offset: int) -> tuple[int, bool, int]:
        return offset, bool(self.space.arrays.size[b] > 0), b


class SortKeySpace(MemorySpace):
    """The same problem with flat decisions: the weights of six features in the key that first fit sorts by."""

    decisions = tuple(
        Decision(feature, (4, *(w for w in WEIGHTS if w != 4)) if feature == "size" else WEIGHTS)
        for feature in FEATURES
    )

    def start(self) -> FlatState:
        """Nothing decided."""
        return FlatState(self.decisions, self.loss_of(self.least_peak_bytes))
