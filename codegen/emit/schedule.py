"""What the emitted code of an operation does, as plain data: its loops, how it reaches elements, where its sums become runs.

The C text (`walk.py`, `dot.py`, `windows.py`) and the predicted costs (`evaluators/cost_counts.py`) are both made from it, so that
neither does or counts what the other does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.ir.numbers import Constant

CountedLoop = tuple[str, int]
"""Counter and trip count."""


@dataclass(frozen=True)
class Cursor:
    """How a nest of loops reaches the elements of a view: inside the outermost `depth` loops, by a pointer or by number.

    `strides[d]`: how far a step of loop d moves. `start`: the number of loops around the declaration of the pointer, which walks from
    there on without a jump; None for an element reached by its number.
    """

    view: ir.View
    strides: tuple[int, ...]
    depth: int
    start: int | None


@dataclass(frozen=True)
class Nest:
    """Loops from the outermost, the elements that they read, and the one that the innermost but `inner` loops write."""

    loops: tuple[CountedLoop, ...]
    reads: tuple[Cursor, ...]
    write: Cursor | None

    def visits(self, cursor: Cursor) -> int:
        """How often an element is reached in one execution."""
        return ir.count_elements(tuple(count for _, count in self.loops[: cursor.depth]))

    def pointers(self, cursor: Cursor) -> int:
        """How often a pointer is set in one execution; 0 where there is none."""
        if cursor.start is None:
            return 0
        return ir.count_elements(tuple(count for _, count in self.loops[: cursor.start]))


def make_nest(
    loops: Sequence[CountedLoop],
    reads: Sequence[tuple[ir.View, tuple[int, ...]]],
    write: tuple[ir.View, tuple[int, ...]] | None = None,
) -> Nest:
    """The nest over (view, strides of the loops around it) pairs.

    Pointers walk where elements lie beside each other; what is the same throughout an inner loop is read before it.
    """
    extents = [count for _, count in loops]
    cursors = tuple(_cursor(view, strides, extents) for view, strides in reads)
    return Nest(tuple(loops), cursors, None if write is None else _cursor(*write, extents))


def _cursor(view: ir.View, strides: tuple[int, ...], extents: Sequence[int]) -> Cursor:
    """Loops that run once do not count, nor do those that the view stands still in."""
    moving = [d for d, (s, e) in enumerate(zip(strides, extents, strict=False)) if s and e != 1]
    depth = moving[-1] + 1 if moving else 0
    kept = strides[:depth]
    start = None
    if moving and kept[-1] == 1:
        start, reach = depth - 1, extents[depth - 1]
        # the pointer runs on through an outer loop whose step is what the inner ones have walked
        while start > 0 and (extents[start - 1] == 1 or kept[start - 1] == reach):
            start -= 1
            reach *= extents[start]
    return Cursor(view, kept, depth, start)


def schedule_elements(operation: ir.Elementwise) -> Nest:
    """One nest in which every element of `out` is computed from elements at the same place."""
    views = [item for item in operation.operands if isinstance(item, ir.View)]
    loops = iterate([operation.out, *views])
    counters = [(f"i{axis}", extent) for axis, extent in enumerate(loops.extents)]
    reads = list(zip(views, loops.strides[1:], strict=True))
    return make_nest(counters, reads, (operation.out, loops.strides[0]))


@dataclass(frozen=True)
class SparseProduct:
    """Column by column of the right operand, and row by row over the values that are stored of the left one."""

    columns: CountedLoop
    rows: CountedLoop


@dataclass(frozen=True)
class DenseProduct:
    """`nest`: two loops over the result, one over the terms of a sum. `beside`: both operands lie beside each other in the
    innermost loop, so that a sum in order is one run."""

    nest: Nest
    beside: bool


@dataclass(frozen=True)
class WindowAxis:
    """One axis of a window that slides over an image: `positions` of the window, `kernel` places under it, `extent` of the image."""

    kernel: int
    stride: int
    dilation: int
    before: int
    extent: int
    positions: int

    @property
    def least(self) -> int:
        """The first place under any window, below 0 when it is padding."""
        return -self.before

    @property
    def greatest(self) -> int:
        """The last place under any window."""
        return (self.positions - 1) * self.stride + (self.kernel - 1) * self.dilation - self.before

    @property
    def checks(self) -> int:
        """Comparisons that tell whether a place lies in the image: for the ends that some window passes."""
        return (self.least < 0) + (self.greatest >= self.extent)

    @property
    def overlaps(self) -> bool:
        """Whether every window without gaps has a place in the image: padding may be wider than the kernel."""
        last = (self.positions - 1) * self.stride - self.before
        return self.before < self.kernel and last < self.extent

    @property
    def share_inside(self) -> float:
        """The share of places under all windows that lie in the image."""
        starts = np.arange(self.positions)[:, None] * self.stride - self.before
        places = starts + np.arange(self.kernel)[None, :] * self.dilation
        return float(((places >= 0) & (places < self.extent)).mean())

    @property
    def share_whole(self) -> float:
        """The share of windows that lie in the image as a whole."""
        starts = np.arange(self.positions) * self.stride - self.before
        return float(((starts >= 0) & (starts + (self.kernel - 1) * self.dilation < self.extent)).mean())


def window_axes(operation: ir.Windowed) -> tuple[WindowAxis, WindowAxis]:
    """Rows and columns of the window."""
    rows, columns = (
        WindowAxis(
            operation.kernel[axis],
            operation.stride[axis],
            operation.dilation[axis],
            operation.padding[2 * axis],
            operation.a.shape[1 + axis],
            operation.out.shape[1 + axis],
        )
        for axis in (0, 1)
    )
    return rows, columns


@dataclass(frozen=True)
class Convolution:
    """`axes` of the window. `beside`: pixels under a row of the kernel lie beside each other, channel by channel, and so do its
    weights, so that a sum in order is a run for each row inside the image, of which every window has one."""

    axes: tuple[WindowAxis, WindowAxis]
    beside: bool


def schedule_product(operation: ir.Product, storage: VariableStorage) -> SparseProduct | DenseProduct | Convolution:
    """How products are summed, with operands as they are stored."""
    weights = storage.strides(operation.b)
    if isinstance(operation, ir.Conv2D):
        # A parameter as the image is read by number: it may be packed in codes, and an AVR cannot copy it like values in RAM.
        is_in_memory = not storage.in_flash(operation.a.variable)
        return Convolution(window_axes(operation), is_in_memory and _pixels_lie_beside(operation, weights))
    a, b, out = operation.a, operation.b, operation.out
    (height, length), width = a.shape, b.shape[1]
    if a.variable in storage.sparse:
        return SparseProduct(("i1", width), ("i0", height))
    (a0, a1), (b0, b1) = storage.strides(a), weights
    nest = make_nest(
        [("i0", height), ("i1", width), ("k", length)], [(a, (a0, 0, a1)), (b, (0, b1, b0))], (out, out.strides)
    )
    return DenseProduct(nest, length > 1 and (a1, b0) == (1, 1))


def _pixels_lie_beside(operation: ir.Conv2D, weights: tuple[int, ...]) -> bool:
    a = operation.a
    channels = a.shape[3]
    if weights[2] != channels or (channels != 1 and weights[3] != 1) or min(a.strides[1], weights[1]) < 1:
        return False
    beside = a.strides[2] == channels and (channels == 1 or a.strides[3] == 1)
    overlap = all(axis.overlaps for axis in window_axes(operation))
    return operation.groups == 1 and operation.dilation == (1, 1) and beside and overlap


def in_order(halvings: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether sums with so many halvings (Column.HALVINGS) are taken term by term: a tree that halves nothing may be."""
    return np.asarray(np.asarray(halvings) <= 0)


def scales_terms(shift_a: npt.ArrayLike, shift_b: npt.ArrayLike, shift_term: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether factors or products are shifted before they are summed."""
    return np.asarray((np.asarray(shift_a) != 0) | (np.asarray(shift_b) != 0) | (np.asarray(shift_term) != 0))


def norm_bits(length: int, stored_bits: Constant, shift_a: Constant, shift_b: Constant) -> npt.NDArray[np.int64]:
    """The width, 32 or 64, that NormaliseL2 computes in: of rows of `length` elements, by their width and both shifts."""
    largest = np.left_shift(np.int64(1), np.maximum(np.asarray(stored_bits, np.int64) - 1 - shift_a, 0))
    quotient = np.left_shift(largest, np.clip(shift_b, 0, 31))
    return np.where((length * largest**2 < 1 << 32) & (quotient < 1 << 31), 32, 64)
