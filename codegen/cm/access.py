"""Which pixels of an array a reader's iterations touch, and the staircases that follow: fast enumeration in NumPy.

Rows and columns of a window are independent, so the last pixel that an iteration reads, in the writer's order, is its
last row and its last column; one array of each replaces the polyhedral computation of `codegen.cm.polyhedral`, which
tests hold equal to this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Int32Array
from kilotune.codegen.onnx.graph import Window

EdgeCounts = tuple[Int32Array, Int32Array, NDArray[np.bool_]]

BYTES_KEPT = 1 << 27
"""How many bytes of counts are kept: 250 edges at 224 x 224, thousands at 56 x 56, where a dense network has as many."""


@dataclass(frozen=True)
class Rectangle:
    """Pixels [top, bottom) x [left, right), iterated row by row; `by_columns`: column by column (an image from GMEM)."""

    top: int
    bottom: int
    left: int
    right: int
    by_columns: bool = False

    @property
    def height(self) -> int:
        """Rows."""
        return self.bottom - self.top

    @property
    def width(self) -> int:
        """Columns."""
        return self.right - self.left

    @property
    def steps(self) -> tuple[int, int]:
        """Iterations from a pixel to the one below it, and to the one on its right."""
        return (1, self.height) if self.by_columns else (self.width, 1)

    @property
    def size(self) -> int:
        """Pixels."""
        return self.height * self.width

    def rank(self, row: int, column: int) -> int:
        """The iteration that a pixel of the rectangle is."""
        down, right = self.steps
        return (row - self.top) * down + (column - self.left) * right

    def pixel(self, iteration: int) -> tuple[int, int]:
        """The inverse of `rank`."""
        if self.by_columns:
            column, row = divmod(iteration, self.height)
        else:
            row, column = divmod(iteration, self.width)
        return self.top + row, self.left + column


@dataclass(frozen=True)
class AccessPattern:
    """How a reader's iterations (its output pixels) read one writer's rectangle of an array.

    windows: the accesses of one iteration, united: a convolution and the residual addition after it may both read an
    array. What lies outside the writer's rectangle is padding, or another writer's.
    """

    windows: tuple[Window, ...]
    reader: Rectangle
    writer: Rectangle


def counts(reading: AccessPattern) -> EdgeCounts:
    """`needed`, `released` [reader iterations] and `sent` [writer iterations] of an `Edge`; read-only arrays."""
    needed = np.zeros(reading.reader.size, dtype=np.int32)
    last_use = np.full(reading.writer.size, -1, dtype=np.int32)
    for window in reading.windows:
        rows = _last_read(window, 0, reading)
        columns = _last_read(window, 1, reading)
        down, right = reading.writer.steps
        ranks = rows[:, None] * down + columns[None, :] * right + 1
        ranks[rows < 0, :] = 0
        ranks[:, columns < 0] = 0
        needed = np.maximum(needed, ranks.reshape(-1))
        users_y, users_x = _last_user(window, 0, reading), _last_user(window, 1, reading)
        uses = users_y[:, None] * reading.reader.width + users_x[None, :]
        uses[users_y < 0, :] = -1
        uses[:, users_x < 0] = -1
        last_use = np.maximum(last_use, (uses.T if reading.writer.by_columns else uses).reshape(-1))
    needed = np.maximum.accumulate(needed).astype(np.int32)
    frontier = np.maximum.accumulate(last_use)
    ends = np.bincount(
        frontier + 1, minlength=reading.reader.size + 1
    )  # how many writes each iteration is the last to hold
    released = np.cumsum(ends)[1:].astype(np.int32)
    sent = last_use >= 0
    for array in (needed, released, sent):
        array.setflags(write=False)
    return needed, released, sent


def pixels_read(reading: AccessPattern) -> int:
    """How many of the writer's pixels the reader reads at all, by an access of one window: `sent` has as many."""
    (window,) = reading.windows
    rows, columns = (int((_last_user(window, axis, reading) >= 0).sum()) for axis in (0, 1))
    return rows * columns


def read_pixels(window: Window, axis: int, reader: Rectangle, writer: Rectangle) -> NDArray[np.bool_]:
    """Which of the writer's rows (axis 0) or columns (1) are read by the reader's iterations in each of its rows or columns, by an access
    of one window: [reader's, writer's]."""
    taps, inside = _taps(window, axis, AccessPattern((window,), reader, writer))
    found = np.zeros((len(taps), writer.height if axis == 0 else writer.width), dtype=bool)
    found[np.nonzero(inside)[0], taps[inside]] = True
    return found


def is_read(reading: AccessPattern) -> bool:
    """Whether the reader reads any of the writer's pixels, by an access of one window: whether `sent` of `counts` has any. Most pairs of
    replicas are out of one another's reach, which takes no arrays to see."""
    (window,) = reading.windows
    return all(_reaches(window, axis, reading) for axis in (0, 1))


def _reaches(window: Window, axis: int, reading: AccessPattern) -> bool:
    """Whether some position of an axis is inside the writer's rectangle."""
    reader, writer = reading.reader, reading.writer
    outputs, pixels = (
        ((reader.top, reader.bottom), (writer.top, writer.bottom))
        if axis == 0
        else ((reader.left, reader.right), (writer.left, writer.right))
    )
    first = outputs[0] * window.stride[axis] - window.pads[axis]
    last = (
        (outputs[1] - 1) * window.stride[axis] - window.pads[axis] + (window.kernel[axis] - 1) * window.dilation[axis]
    )
    if last < pixels[0] * window.spread[axis] or first >= pixels[1] * window.spread[axis]:
        return False
    return bool(_taps(window, axis, reading)[1].any())


class RememberedCounts:
    """`counts` for whoever lowers one network again and again, with most edges as they were. A copy for another process
    begins with nothing."""

    def __init__(self) -> None:
        self._kept: dict[AccessPattern, EdgeCounts] = {}  # those first that were asked for the longest time ago
        self._bytes = 0

    def __call__(self, reading: AccessPattern) -> EdgeCounts:
        found = self._kept.pop(reading, None)
        if found is None:
            found = counts(reading)
            self._bytes += sum(array.nbytes for array in found)
            while self._bytes > BYTES_KEPT and self._kept:
                self._bytes -= sum(array.nbytes for array in self._kept.pop(next(iter(self._kept))))
        self._kept[reading] = found
        return found

    def __reduce__(self) -> tuple[type[RememberedCounts], tuple[()]]:
        return RememberedCounts, ()


def allowed(needed: Int32Array, writer_iterations: int) -> Int32Array:
    """The relation S as counts [writer_iterations + 1]: reader iterations that may run after n writer iterations."""
    return np.searchsorted(needed, np.arange(writer_iterations + 1), side="right").astype(np.int32)


def _taps(window: Window, axis: int, reading: AccessPattern) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Positions [outputs, kernel] of an axis, relative to the writer's rectangle, and whether they are inside it."""
    reader, writer = reading.reader, reading.writer
    outputs = np.arange(reader.top, reader.bottom) if axis == 0 else np.arange(reader.left, reader.right)
    start, stop = (writer.top, writer.bottom) if axis == 0 else (writer.left, writer.right)
    first = outputs * window.stride[axis] - window.pads[axis]
    taps = first[:, None] + np.arange(window.kernel[axis])[None, :] * window.dilation[axis]
    apart = window.spread[axis]
    inside = (taps >= start * apart) & (taps < stop * apart) & (taps % apart == 0)
    return (taps // apart - start).astype(np.int32), inside


def _last_read(window: Window, axis: int, reading: AccessPattern) -> NDArray[np.int32]:
    taps, inside = _taps(window, axis, reading)
    last: NDArray[np.int32] = np.where(inside, taps, -1).max(axis=1).astype(np.int32)
    return last


def _last_user(window: Window, axis: int, reading: AccessPattern) -> NDArray[np.int32]:
    taps, inside = _taps(window, axis, reading)
    writer = reading.writer
    users = np.full(writer.height if axis == 0 else writer.width, -1, dtype=np.int32)
    outputs = np.broadcast_to(np.arange(len(taps))[:, None], taps.shape)
    np.maximum.at(users, taps[inside], outputs[inside])
    return users
