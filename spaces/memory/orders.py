"""Greedy placement: buffers in some order, each put down once. The orders and fits of well-known compilers.

- `tflite`: TFLite-Micro's GreedyMemoryPlanner: by size, first fit.
- `xla`: XLA's GlobalDecreasingSizeBestFitHeap: by size, then by life; best fit.
- `tvm-size`, `tvm-conflicts`: TVM's unified static memory planner: always above every conflict, gaps are not filled.
- `start`: first fit in the order of the program.

Of our own, from the busiest point: what is alive where the live sum is largest is put down first, without a gap, and the others find
room beside it. `busiest-outward` goes on with what is nearest in time, `busiest-life` by size. Large graphs have one or few such
points, and come down to their live sums where an order by size alone leaves a gap of one large buffer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.native import load_kernel

PlacementOrder = npt.NDArray[np.int32]
"""Indices of all buffers, first to be placed first."""


class Fit(enum.IntEnum):
    """Where a buffer goes among those that are placed. The numbers are those of placing.c."""

    FIRST = 0  # the lowest gap that holds it
    BEST = 1  # the smallest gap that holds it
    ABOVE = 2  # above all that it conflicts with


QUICK_BUFFERS = 10_000
"""So many are placed within a tenth of a second."""


def place_in_order(buffers: BufferArrays, order: PlacementOrder, fit: Fit = Fit.FIRST) -> IntArray:
    """Offsets in bytes, shape (buffers,)."""
    kernel = load_kernel()
    if kernel is None:
        return place_in_order_reference(buffers, order, fit)
    order = np.ascontiguousarray(order, dtype=np.int32)
    offsets = np.zeros(len(buffers), dtype=np.int64)
    begins, ends, _ = buffers.sections
    columns = (begins, ends, buffers.size, buffers.alignment, order)
    flag = StopFlag()

    def call() -> int:
        addresses = (column.ctypes.data for column in columns)
        return int(
            kernel.kilotune_place_in_order(len(buffers), *addresses, int(fit), offsets.ctypes.data, flag.address)
        )

    # A thread takes longer to start than most placements.
    status = call() if len(buffers) <= QUICK_BUFFERS else interruptible(call, flag.set)
    if status:
        raise MemoryError("The placement of buffers ran out of memory.")
    return offsets


def place_in_order_reference(buffers: BufferArrays, order: PlacementOrder, fit: Fit = Fit.FIRST) -> IntArray:
    """Offsets in bytes of buffers placed one after the other, in Python: the definition of the compiled `place_in_order`."""
    offsets = np.zeros(len(buffers), dtype=np.int64)
    ends = np.zeros(len(buffers), dtype=np.int64)
    for count, b in enumerate(order):
        placed = order[:count]
        meets = placed[(buffers.lower[placed] < buffers.upper[b]) & (buffers.upper[placed] > buffers.lower[b])]
        meets = meets[np.argsort(offsets[meets], kind="stable")]
        tops = np.maximum.accumulate(np.concatenate([[0], ends[meets]]))
        tops = -(-tops // buffers.alignment[b]) * buffers.alignment[b]
        gaps = offsets[meets] - tops[:-1]
        holds = np.flatnonzero(gaps >= buffers.size[b])
        at = len(meets)
        if fit is not Fit.ABOVE and len(holds):
            at = holds[0] if fit is Fit.FIRST else holds[np.argmin(gaps[holds])]
        offsets[b] = tops[at]
        ends[b] = tops[at] + buffers.size[b]
    return offsets


def sorted_by(*keys: npt.NDArray[Any]) -> PlacementOrder:
    """Ascending by the first key; ties by the following ones, then as in the instance."""
    return np.lexsort(tuple(reversed(keys))).astype(np.int32)


def busiest_outward(buffers: BufferArrays) -> PlacementOrder:
    """What is alive at the busiest point by size, then the others by how many sections they are away from it."""
    begins, ends, _ = buffers.sections
    there, busiest = _at_busiest(buffers)
    away = np.where(ends <= busiest, busiest - ends, begins - busiest)
    return sorted_by(~there, np.where(there, -buffers.size, away))


def busiest_by_life(buffers: BufferArrays) -> PlacementOrder:
    """What is alive at the busiest point, the longest life first, then the others by size."""
    there, _ = _at_busiest(buffers)
    key = np.where(there, buffers.lower - buffers.upper, -buffers.size)
    return sorted_by(~there, key, np.where(there, 0, buffers.lower))


def _at_busiest(buffers: BufferArrays) -> tuple[npt.NDArray[np.bool_], int]:
    """Which buffers are alive in the section with the largest live sum, and that section. Without buffers there is none."""
    begins, ends, count = buffers.sections
    busiest = int(buffers.section_bytes.argmax()) if count else 0
    return (begins <= busiest) & (ends > busiest), busiest


GREEDY: Mapping[str, tuple[Callable[[BufferArrays], PlacementOrder], Fit]] = MappingProxyType(
    {
        "tflite": (lambda b: sorted_by(-b.size, b.lower), Fit.FIRST),
        "xla": (lambda b: sorted_by(-b.size, b.lower - b.upper), Fit.BEST),
        "tvm-size": (lambda b: sorted_by(-b.size), Fit.ABOVE),
        "tvm-conflicts": (lambda b: sorted_by(-b.conflicts, -b.size), Fit.ABOVE),
        "start": (lambda b: sorted_by(b.lower, b.upper), Fit.FIRST),
        "area": (lambda b: sorted_by(-b.area), Fit.FIRST),
        "life": (lambda b: sorted_by(b.lower - b.upper, -b.size), Fit.FIRST),
        "busiest-outward": (busiest_outward, Fit.FIRST),
        "busiest-life": (busiest_by_life, Fit.FIRST),
    }
)
"""Greedy placements by name; the last four are no compiler's, but often good."""

FEATURES = ("size", "life", "load", "conflicts", "start", "end")
"""What a weighted sort key adds up, each feature as its rank from 0 to 1."""


def weighted_order(buffers: BufferArrays, weights: Sequence[float]) -> PlacementOrder:
    """Descending by the weighted sum of the features' ranks; `weights` as in FEATURES."""
    columns = (
        buffers.size,
        buffers.upper - buffers.lower,
        buffers.load,
        buffers.conflicts,
        buffers.lower,
        buffers.upper,
    )
    key = np.zeros(len(buffers))
    for weight, column in zip(weights, columns, strict=True):
        distinct, rank = np.unique(column, return_inverse=True)
        key += weight * rank / max(len(distinct) - 1, 1)
    return np.argsort(-np.round(key, 9), kind="stable").astype(np.int32)


def best_greedy(buffers: BufferArrays) -> tuple[str, IntArray]:
    """The lowest peak among all of GREEDY: its name and its offsets. Once one takes the largest live sum, the others are not tried."""
    least = int(buffers.section_bytes.max(initial=0))
    best: tuple[int, str, IntArray] | None = None
    for name, (order, fit) in GREEDY.items():
        offsets = place_in_order(buffers, order(buffers), fit)
        peak = int((offsets + buffers.size).max(initial=0))
        if best is None or peak < best[0]:
            best = (peak, name, offsets)
        if best[0] <= least:
            break
    assert best is not None
    return best[1:]


def greedy_placements(buffers: BufferArrays) -> Iterator[IntArray]:
    """Offsets by all of GREEDY, one after the other, those from the busiest point first: of large graphs they are the lowest."""
    for _, (order, fit) in sorted(GREEDY.items(), key=lambda item: not item[0].startswith("busiest")):
        yield place_in_order(buffers, order(buffers), fit)


def is_compiled() -> bool:
    """Whether placing is: else thousands of buffers take a third of a second each time."""
    return load_kernel() is not None
