"""Operations as nests of counters: which element each access reaches at each step, as plain data.

A step of the innermost counter is a step of the hardware. With `lanes` above 1 a step does as many neighbouring places of one counter at
once. Sparse products (`processing.py`) are the only operations that do not walk such a nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from kilotune.codegen import ir
from kilotune.codegen.emit.iteration import Iteration, first_of_rows, iterate
from kilotune.codegen.emit.schedule import WindowAxis, window_axes


@dataclass(frozen=True)
class Reach:
    """The element `offset + sum(counter[d] * strides[d]) + lane * lane_stride` of a variable."""

    variable: str
    offset: ir.Affine
    strides: tuple[int, ...]
    lane_stride: int = 0


@dataclass(frozen=True)
class Inside:
    """The place `offset + sum(counter[d] * strides[d])` lies in the image where it is at least 0 and below `extent`."""

    offset: int
    strides: tuple[int, ...]
    extent: int


@dataclass(frozen=True)
class StepNest:
    """Counters from the outermost; the innermost `gathered` of them belong to one element of the result.

    `reads` in the order of the operation's operands, None for a literal. `inside`: where the first operand is not padding. `axis`: the
    counter whose places may be done side by side.
    """

    extents: tuple[int, ...]
    gathered: int
    reads: tuple[Reach | None, ...]
    write: Reach
    inside: tuple[Inside, ...] = ()
    axis: int | None = None
    lanes: int = 1

    @property
    def steps(self) -> int:
        """How many steps one execution takes."""
        return ir.count_elements(self.extents)

    @property
    def terms(self) -> int:
        """How many steps belong to one element of the result."""
        return ir.count_elements(self.extents[len(self.extents) - self.gathered :])

    @property
    def gathers_lanes(self) -> bool:
        """Whether the lanes are terms of one element, and not elements of the result."""
        return self.axis is not None and self.lanes > 1 and self.axis >= len(self.extents) - self.gathered

    @property
    def places(self) -> int:
        """Places of the counter that lanes share out; lanes divide it."""
        return 1 if self.axis is None else self.extents[self.axis] * self.lanes

    def split(self, lanes: int) -> StepNest:
        """The nest with so many lanes. ValueError where they do not divide the places, or some are split already."""
        if lanes == 1:
            return self
        if self.axis is None or self.lanes > 1 or self.extents[self.axis] % lanes:
            raise ValueError(f"{lanes} lanes do not divide {self.places} places")
        axis = self.axis
        extents = tuple(e // lanes if d == axis else e for d, e in enumerate(self.extents))

        def shared(reach: Reach) -> Reach:
            strides = tuple(s * lanes if d == axis else s for d, s in enumerate(reach.strides))
            return replace(reach, strides=strides, lane_stride=reach.strides[axis])

        reads = tuple(None if reach is None else shared(reach) for reach in self.reads)
        return replace(self, extents=extents, reads=reads, write=shared(self.write), lanes=lanes)


def make_nest(operation: ir.Operation, halvings: int = -1) -> StepNest:
    """The nest of an operation other than NormaliseL2. `halvings`: of its sums (`Column.HALVINGS`)."""
    if isinstance(operation, ir.Elementwise):
        return _elements(operation)
    match operation:
        case ir.MatMul():
            return _matrix_product(operation, halvings)
        case ir.Conv2D():
            return _convolution(operation)
        case ir.MaxPool():
            return _windows(operation)
        case ir.ArgMax(a=a):
            loops = iterate([a])
            write = Reach(operation.out.variable, operation.out.offset, (0,) * len(loops.extents))
            read = Reach(a.variable, a.offset, loops.strides[0])
            return StepNest(loops.extents, len(loops.extents), (read,), write)
        case ir.QuantisedSoftmax():
            raise ValueError("hardware has no quantised programs")
        case ir.NormaliseL2():
            raise ValueError("NormaliseL2 is two nests (row_nests)")
        case _:
            assert_never(operation)


def _elements(operation: ir.Elementwise) -> StepNest:
    views = [item for item in operation.operands if isinstance(item, ir.View)]
    loops = iterate([operation.out, *views])
    strides = iter(loops.strides[1:])
    reads = tuple(
        Reach(item.variable, item.offset, next(strides)) if isinstance(item, ir.View) else None
        for item in operation.operands
    )
    write = Reach(operation.out.variable, operation.out.offset, loops.strides[0])
    return StepNest(loops.extents, 0, reads, write, axis=len(loops.extents) - 1 if loops.extents else None)


def _matrix_product(operation: ir.MatMul, halvings: int) -> StepNest:
    a, b, out = operation.a, operation.b, operation.out
    (height, length), width = a.shape, b.shape[1]
    axis = 0 if height >= width else 1
    if height == width == 1:
        axis = 2
    nest = StepNest(
        (height, width, length),
        1,
        (
            Reach(a.variable, a.offset, (a.strides[0], 0, a.strides[1])),
            Reach(b.variable, b.offset, (0, b.strides[1], b.strides[0])),
        ),
        Reach(out.variable, out.offset, (out.strides[0], out.strides[1], 0)),
        axis=axis,
    )
    # a tree of sums pairs neighbours, so its terms cannot be shared out in another way
    return replace(nest, axis=None) if axis == 2 and halvings > 0 else nest


def _image_reach(
    image: ir.View,
    batch: int,
    places: tuple[tuple[int, ...], tuple[int, ...]],
    channel: tuple[int, ...],
    axes: tuple[WindowAxis, WindowAxis],
) -> tuple[Reach, tuple[Inside, ...]]:
    """How a window reaches its image: `places` are the strides of the row and the column in pixels, `channel` those of the channel."""
    n, h, w, c = image.strides
    rows, columns = places
    strides = [h * row + w * column + c * step for row, column, step in zip(rows, columns, channel, strict=True)]
    strides[batch] += n
    start = image.offset + ir.Affine(-axes[0].before * h - axes[1].before * w)
    inside = tuple(
        Inside(-axis.before, steps, axis.extent) for axis, steps in zip(axes, places, strict=True) if axis.checks
    )
    return Reach(image.variable, start, tuple(strides)), inside


def _convolution(operation: ir.Conv2D) -> StepNest:
    """Counters: image, row, column, group, channel of the result in its group; row, column, channel under the window."""
    axes = window_axes(operation)
    groups, kernel_rows, kernel_columns, group_in, group_out = operation.b.shape
    count, height, width, _ = operation.out.shape
    rows = (0, axes[0].stride, 0, 0, 0, axes[0].dilation, 0, 0)
    columns = (0, 0, axes[1].stride, 0, 0, 0, axes[1].dilation, 0)
    image, inside = _image_reach(operation.a, 0, (rows, columns), (0, 0, 0, group_in, 0, 0, 0, 1), axes)
    g, y, x, i, o = operation.b.strides
    n, h, w, c = operation.out.strides
    return StepNest(
        (count, height, width, groups, group_out, kernel_rows, kernel_columns, group_in),
        3,
        (image, Reach(operation.b.variable, operation.b.offset, (0, 0, 0, g, o, y, x, i))),
        Reach(operation.out.variable, operation.out.offset, (n, h, w, c * group_out, c, 0, 0, 0)),
        inside,
        4,
    )


def _windows(operation: ir.MaxPool) -> StepNest:
    """Counters: image, row, column, channel; row and column under the window."""
    axes = window_axes(operation)
    count, height, width, channels = operation.out.shape
    rows = (0, axes[0].stride, 0, 0, 1, 0)
    columns = (0, 0, axes[1].stride, 0, 0, 1)
    image, inside = _image_reach(operation.a, 0, (rows, columns), (0, 0, 0, 1, 0, 0), axes)
    write = Reach(operation.out.variable, operation.out.offset, (*operation.out.strides, 0, 0))
    return StepNest((count, height, width, channels, *operation.kernel), 2, (image,), write, inside, 3)


def row_extents(operation: ir.NormaliseL2) -> tuple[int, ...]:
    """Loops around the rows of NormaliseL2."""
    return _rows(operation).extents


def row_nests(operation: ir.NormaliseL2, indices: Sequence[str], scratch: str) -> tuple[StepNest, StepNest]:
    """The two nests of a row: its sum of squares into the only element of `scratch`, then each element with that one. `indices`: the
    loops around the rows, one for each of `row_extents`."""
    loops, length = _rows(operation), operation.length
    written, read = (
        _row(view, strides, indices) for view, strides in zip((operation.out, operation.a), loops.strides, strict=True)
    )
    norm = Reach(scratch, ir.Affine(), (0,))
    return StepNest((length,), 1, (read,), norm), StepNest((length,), 0, (read, norm), written, axis=0)


def _rows(operation: ir.NormaliseL2) -> Iteration:
    return iterate([first_of_rows(operation.out), first_of_rows(operation.a)])


def _row(view: ir.View, strides: Sequence[int], indices: Sequence[str]) -> Reach:
    terms = tuple((index, stride) for index, stride in zip(indices, strides, strict=True) if stride)
    return Reach(view.variable, view.offset + ir.Affine(0, terms), (view.strides[-1] if view.shape else 0,))
