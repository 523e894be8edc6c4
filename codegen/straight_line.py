"""Operations as they are executed: every operand resolved to the element numbers that it reads.

Both evaluators (float and fixed point) execute this form, in the loops of `codegen.looped_steps`. Convolutions become dot products
here, one instance a group, so that an executor has only one kernel for everything that multiplies and sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir

Elements = npt.NDArray[np.int32]

NOWHERE = -1
"""Element number of a padded place."""

GridAxes = tuple[tuple[int, int], ...]
"""Element numbers that lie in a grid: (how many, how far apart) along each axis, the last one running fastest."""


@dataclass(frozen=True)
class Source:
    """What a step reads: elements of a variable, or a literal (`elements` is then empty). `consecutive`: whether they are known to be
    neighbours, in row-major order; `grid`: the grid that they are known to lie in, None where that is not known."""

    variable: str | None
    elements: Elements
    literal: float = 0.0
    consecutive: bool = False
    grid: GridAxes | None = None

    @cached_property
    def distinct(self) -> bool:
        """Whether no element is read more than once, that of a padded place aside."""
        somewhere = self.elements[self.elements != NOWHERE]
        return self.consecutive or len(np.unique(somewhere)) == somewhere.size


@dataclass(frozen=True)
class OperationInstance:
    """One execution of an operation. `row` numbers the operation in program order, loops counted once.

    Element numbers by `ir.Order`: ELEMENTS reads [n] and writes [n]; PRODUCTS reads [P, Q] and [Q, R] and writes [P, R], with
    NOWHERE where a padded zero is read; WINDOWS reads [n, window] and writes [n]; ROWS reads and writes [n, row];
    READS_FIRST reads [n] and writes [1]. `consecutive` and `grid`: of `out`, as of a `Source`.
    """

    operation: ir.Operation
    row: int
    out: Elements
    sources: tuple[Source, ...]
    consecutive: bool = False
    grid: GridAxes | None = None


def instances(operation: ir.Operation, row: int, indices: dict[str, int]) -> Iterator[OperationInstance]:
    """An operation when loop indices have the values of `indices`: one instance, or one for each group of a convolution."""
    out = elements_of(operation.out, indices)
    if isinstance(operation, ir.Elementwise):
        flat = tuple(_broadcast(operand, out.size, indices) for operand in operation.operands)
        yield OperationInstance(operation, row, out.reshape(-1), flat)
        return
    match operation:
        case ir.MatMul(a=a, b=b):
            yield OperationInstance(operation, row, out, (_read(a, indices), _read(b, indices)))
        case ir.Conv2D():
            yield from _convolution(operation, row, out, indices)
        case ir.MaxPool(a=a):
            window = _windows(elements_of(a, indices), operation.kernel, operation)
            count, height, width, area, channels = window.shape
            places = np.moveaxis(window, 3, 4).reshape(count * height * width * channels, area)
            yield OperationInstance(operation, row, out.reshape(-1), (Source(a.variable, places),))
        case ir.NormaliseL2(a=a, length=length) | ir.QuantisedSoftmax(a=a, length=length):
            rows = elements_of(a, indices).reshape(-1, length)
            yield OperationInstance(operation, row, out.reshape(-1, length), (Source(a.variable, rows),))
        case ir.ArgMax(a=a):
            yield OperationInstance(
                operation, row, out.reshape(-1), (Source(a.variable, elements_of(a, indices).reshape(-1)),)
            )
        case _:
            assert_never(operation)


def elements_of(view: ir.View, indices: dict[str, int]) -> Elements:
    """Element numbers that the view selects, in the shape of the view."""
    numbers = np.full(view.shape, view.offset.at(indices), dtype=np.int32)
    for axis, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        along = np.arange(extent, dtype=np.int32) * np.int32(stride)
        numbers = numbers + along.reshape(tuple(extent if a == axis else 1 for a in range(len(view.shape))))
    return np.asarray(numbers, dtype=np.int32)


def _read(operand: ir.Operand, indices: dict[str, int]) -> Source:
    if isinstance(operand, ir.Literal):
        return Source(None, np.zeros(0, dtype=np.int32), operand.value)
    return Source(operand.variable, elements_of(operand, indices))


def _broadcast(operand: ir.Operand, count: int, indices: dict[str, int]) -> Source:
    source = _read(operand, indices)
    if source.variable is None:
        return source
    flat = source.elements.reshape(-1)
    return Source(source.variable, np.broadcast_to(flat, (count,)) if flat.size == 1 else flat)


def _convolution(operation: ir.Conv2D, row: int, out: Elements, indices: dict[str, int]) -> Iterator[OperationInstance]:
    image = elements_of(operation.a, indices)
    weights = elements_of(operation.b, indices)
    groups, kernel_height, kernel_width, group_in, group_out = weights.shape
    window = _windows(image, (kernel_height, kernel_width), operation)
    pixels = window.shape[0] * window.shape[1] * window.shape[2]
    by_group = window.reshape(pixels, window.shape[3], groups, group_in)
    results = out.reshape(pixels, groups, group_out)
    for group in range(groups):
        patches = by_group[:, :, group, :].reshape(pixels, -1)
        kernel = weights[group].reshape(-1, group_out)
        channels = slice(group * group_out, (group + 1) * group_out)
        yield OperationInstance(
            operation if groups == 1 or operation.completion is None else _of_group(operation, channels),
            row,
            results[:, group, :],
            (Source(operation.a.variable, patches), Source(operation.b.variable, kernel)),
        )


def _of_group(operation: ir.Conv2D, channels: slice) -> ir.Conv2D:
    """The operation with what becomes of the sums of some output channels."""
    assert operation.completion is not None
    return replace(operation, completion=operation.completion.channels(channels))


def _windows(image: Elements, kernel: tuple[int, int], operation: ir.Windowed) -> Elements:
    """Element numbers [N, H', W', kernel area, C] under every position of a sliding window over an NHWC image."""
    top, bottom, left, right = operation.padding
    stride, dilation = operation.stride, operation.dilation
    padded = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=NOWHERE)
    span = tuple((extent - 1) * step + 1 for extent, step in zip(kernel, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(padded, span, axis=(1, 2))
    view = view[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    moved = np.moveaxis(view, 3, 5)
    return np.ascontiguousarray(moved.reshape(*moved.shape[:3], -1, moved.shape[5]))
