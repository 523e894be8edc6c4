"""Operators that move no data: each returns another view of the same variable.

All are total on arguments that the elaborator has checked; they raise nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kilotune.codegen.ir import Affine, View, row_major_strides

_ENUMERATION_LIMIT = 1 << 22
"""Elements up to which two views are compared element by element; beyond, they count as overlapping."""


def scaled(place: Affine, factor: int) -> Affine:
    """`factor * place`."""
    if factor == 0:
        return Affine()
    return Affine(place.constant * factor, tuple((name, factor * step) for name, step in place.terms))


def permuted(view: View, axes: Sequence[int]) -> View:
    """Axis d of the result is axis `axes[d]` of `view`; with (1, 0) the transpose."""
    return replace(view, shape=tuple(view.shape[a] for a in axes), strides=tuple(view.strides[a] for a in axes))


def indexed(view: View, place: Affine) -> View:
    """`view[place]`: the first axis is gone."""
    offset = view.offset + scaled(place, view.strides[0])
    return replace(view, shape=view.shape[1:], strides=view.strides[1:], offset=offset)


def sliced(view: View, starts: Sequence[Affine], lengths: Sequence[int]) -> View:
    """`lengths[d]` elements from `starts[d]` on, along each axis."""
    offset = view.offset
    for start, stride in zip(starts, view.strides, strict=True):
        offset = offset + scaled(start, stride)
    return replace(view, shape=tuple(lengths), offset=offset)


def reversed_along(view: View, axis: int) -> View:
    """`view` backwards along one axis."""
    stride = view.strides[axis]
    strides = (*view.strides[:axis], -stride, *view.strides[axis + 1 :])
    return replace(view, strides=strides, offset=view.offset + Affine((view.shape[axis] - 1) * stride))


def broadcast_along_last(view: View, shape: tuple[int, ...]) -> View:
    """A vector repeated over the leading axes of `shape` (strides 0)."""
    return replace(view, shape=shape, strides=(*(0 for _ in shape[1:]), view.strides[-1]))


def reshaped(view: View, shape: tuple[int, ...]) -> View | None:
    """The elements of `view`, in row-major order, as `shape`; None when strides cannot express that.

    Axes of extent 1 are free. The others are merged where one steps through the next (stride = extent * stride of
    the next), and each merged run must be split evenly by the new extents.
    """
    runs = _merged_runs(view)
    strides: list[int] = []
    extents = iter(shape)
    for size, step in runs:
        taken: list[int] = []
        while _product(taken) < size:
            taken.append(next(extents))
        if _product(taken) != size:
            return None
        strides += [stride * step for stride in row_major_strides(tuple(taken))]
    strides += [0 for _ in extents]  # what is left are extents of 1
    return replace(view, shape=shape, strides=tuple(strides))


def _merged_runs(view: View) -> list[tuple[int, int]]:
    """(size, stride) of the longest runs of axes that are evenly spaced in memory, outermost first."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(view.shape, view.strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = (runs[-1][0] * extent, stride)
        else:
            runs.append((extent, stride))
    return runs


def _product(extents: Sequence[int]) -> int:
    size = 1
    for extent in extents:
        size *= extent
    return size


def same_elements(a: View, b: View) -> bool:
    """Whether equal positions of two views of one shape are always the same element."""
    steps_agree = all(s == t or n == 1 for s, t, n in zip(a.strides, b.strides, a.shape, strict=False))
    return a.variable == b.variable and a.shape == b.shape and a.offset == b.offset and steps_agree


def may_overlap(a: View, b: View) -> bool:
    """Whether two views may have an element in common. False is certain, True may be caution."""
    if a.variable != b.variable:
        return False
    if a.offset.terms != b.offset.terms or a.size + b.size > _ENUMERATION_LIMIT:
        return True
    return bool(np.intersect1d(_offsets(a), _offsets(b)).size)


def _offsets(view: View) -> np.ndarray:
    """Element offsets of a view for loop indices of 0."""
    offsets = np.array([view.offset.constant])
    for extent, stride in zip(view.shape, view.strides, strict=True):
        offsets = np.add.outer(offsets, np.arange(extent) * stride)
    return offsets.reshape(-1)


def bounds(place: Affine, ranges: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Least and largest value while every index runs through its (first, last)."""
    ends = [sorted((factor * ranges[name][0], factor * ranges[name][1])) for name, factor in place.terms]
    low = place.constant + sum(end[0] for end in ends)
    high = place.constant + sum(end[1] for end in ends)
    return low, high


def is_permutation(order: Sequence[int], shape: tuple[int, ...]) -> bool:
    """Whether `order` (axes from 1) names every axis once; axes of extent 1 may be left out."""
    missing = set(range(1, len(shape) + 1)) - set(order)
    in_range = all(1 <= axis <= len(shape) for axis in order)
    return in_range and len(set(order)) == len(order) and all(shape[axis - 1] == 1 for axis in missing)


def chain_axes(order: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes from 0 in the order of `order` (from 1), with those left out at the end."""
    named = [axis - 1 for axis in order]
    return tuple(itertools.chain(named, (axis for axis in range(rank) if axis not in named)))
