"""Operators that move elements: most become other views of the same variable.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.ir import Affine, View
from kilotune.codegen.language.views import permuted, reshaped, sliced
from kilotune.codegen.trained.builder import Builder, Tensor
from kilotune.codegen.trained.model import TrainedNode


def identity(builder: Builder, node: TrainedNode) -> None:
    """A value under another name: also what does nothing after training."""
    name = node.inputs[0]
    if name in builder.labels:
        builder.labels[node.output] = builder.labels[name]
        return
    builder.tensors[node.output] = builder.tensor(name)


def dropout(builder: Builder, node: TrainedNode) -> None:
    """The value itself, as after training."""
    training = builder.optional(node, 2)
    if training is not None and builder.constant(training, "training_mode").any():
        raise ValueError("expected a model as after training, found a Dropout in training_mode")
    identity(builder, node)


def reshape(builder: Builder, node: TrainedNode) -> None:
    """Reshape, Flatten, Squeeze or Unsqueeze: the elements in their order, as another shape."""
    if node.inputs[0] in builder.labels:
        identity(builder, node)
        return
    tensor = builder.tensor(node.inputs[0])
    shape = _new_shape(builder, node, tensor.shape)
    if math.prod(shape) != math.prod(tensor.shape):
        raise ValueError(f"expected {math.prod(tensor.shape)} elements as in {list(tensor.shape)}, found {list(shape)}")
    view = reshaped(tensor.view, shape)
    if view is not None:
        builder.bind(node.output, view)
    elif tensor.view.shape == tensor.shape or reshaped(tensor.view, tensor.shape) is None:
        builder.tensors[node.output] = Tensor(tensor.view, shape)
    else:
        builder.tensors[node.output] = Tensor(builder.view(tensor), shape)


def _new_shape(builder: Builder, node: TrainedNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    if node.kind == "Flatten":
        axis = node.integer("axis", 1)
        if not -len(shape) <= axis <= len(shape):
            raise ValueError(f"expected an axis of {list(shape)}, found {axis}")
        axis = axis + len(shape) if axis < 0 else axis
        return math.prod(shape[:axis]), math.prod(shape[axis:])
    if node.kind in ("Squeeze", "Unsqueeze"):
        return _with_ones(builder, node, shape)
    target = list(builder.whole_numbers(node.inputs[1], "shape"))
    if not node.integer("allowzero", 0):
        if any(not d and k >= len(shape) for k, d in enumerate(target)):
            raise ValueError(f"expected sizes for {list(shape)}, found {target}")
        target = [shape[k] if d == 0 else d for k, d in enumerate(target)]
    if target.count(-1) > 1 or min(target, default=0) < -1:
        raise ValueError(f"expected sizes, one of which may be -1, found {target}")
    rest = math.prod(d for d in target if d != -1)
    if -1 in target:
        target[target.index(-1)] = math.prod(shape) // rest if rest else 0
    return tuple(target)


def _with_ones(builder: Builder, node: TrainedNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without axes of extent 1, or with new ones."""
    given = builder.optional(node, 1)
    axes = builder.whole_numbers(given, "axes") if given else tuple(node.attributes.get("axes", ()))
    if node.kind == "Squeeze":
        chosen = {axis_of(a, len(shape)) for a in axes} or {k for k, extent in enumerate(shape) if extent == 1}
        if any(shape[k] != 1 for k in chosen):
            raise ValueError(f"expected axes of extent 1 in {list(shape)}, found {list(axes)}")
        return tuple(extent for k, extent in enumerate(shape) if k not in chosen)
    rank = len(shape) + len(axes)
    new = {axis_of(a, rank) for a in axes}
    if len(new) != len(axes):
        raise ValueError(f"expected different axes, found {list(axes)}")
    rest = iter(shape)
    return tuple(1 if k in new else next(rest) for k in range(rank))


def axis_of(axis: int, rank: int) -> int:
    """From 0. ValueError "expected X, found Y" for one that is not there."""
    if not -rank <= axis < rank:
        raise ValueError(f"expected an axis from {-rank} to {rank - 1}, found {axis}")
    return axis % rank


def transpose(builder: Builder, node: TrainedNode) -> None:
    """Axes in another order."""
    view = builder.view(builder.tensor(node.inputs[0]))
    rank = len(view.shape)
    order = tuple(node.attributes.get("perm", range(rank)[::-1]))
    if sorted(order) != list(range(rank)):
        raise ValueError(f"expected an order of {rank} axes, found {list(order)}")
    builder.bind(node.output, permuted(view, order))


def gather(builder: Builder, node: TrainedNode) -> None:
    """Constant places along an axis: another view where they are evenly spaced, else each run of such places is copied."""
    view = builder.view(builder.tensor(node.inputs[0]))
    axis = axis_of(node.integer("axis", 0), len(view.shape))
    places = builder.constant(node.inputs[1], "places").astype(np.int64)
    extent = view.shape[axis]
    numbers = [int(p) + extent if p < 0 else int(p) for p in places.reshape(-1)]
    if not numbers or not all(0 <= p < extent for p in numbers):
        raise ValueError(f"expected places from {-extent} to {extent - 1}, found {places.reshape(-1).tolist()[:8]}")
    if places.ndim > 1:
        raise ValueError(f"expected one place, or a list of them, found shape {list(places.shape)}")
    runs = [along(view, axis, start, step, count) for start, step, count in _even_runs(numbers)]
    taken = runs[0] if len(runs) == 1 else _beside(builder, runs, axis, node.output)
    builder.bind(node.output, without_axis(taken, axis) if places.ndim == 0 else taken)


def _even_runs(numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    """(start, step, count) of runs at equal distances, which are the numbers one after the other."""
    runs: list[tuple[int, int, int]] = []
    for number in numbers:
        start, step, count = runs[-1] if runs else (0, 0, 0)
        if count == 1 or (count > 1 and number == start + count * step):
            runs[-1] = (start, number - start if count == 1 else step, count + 1)
        else:
            runs.append((number, 1, 1))
    return runs


def along(view: View, axis: int, start: int, step: int, count: int) -> View:
    """`count` places of one axis, from `start` in steps, which may be negative."""
    stride = view.strides[axis]
    step = step if count > 1 else 1
    shape = (*view.shape[:axis], count, *view.shape[axis + 1 :])
    strides = (*view.strides[:axis], stride * step, *view.strides[axis + 1 :])
    return replace(view, shape=shape, strides=strides, offset=view.offset + Affine(start * stride))


def without_axis(view: View, axis: int) -> View:
    """The only place of an axis of extent 1."""
    return replace(
        view,
        shape=(*view.shape[:axis], *view.shape[axis + 1 :]),
        strides=(*view.strides[:axis], *view.strides[axis + 1 :]),
    )


def cut(builder: Builder, node: TrainedNode) -> None:
    """Slice."""
    view = builder.view(builder.tensor(node.inputs[0]))
    rank = len(view.shape)
    starts, ends, axes, steps = _spans(builder, node, rank)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise ValueError("expected a step, found 0")
        axis = axis_of(axis, rank)
        # Going backward, an end far below zero means "past the first place", which Python's slices say by None.
        past_first = step < 0 and end <= -(1 << 31)
        chosen = range(view.shape[axis])[slice(start, None if past_first else end, step)]
        if not chosen:
            raise ValueError(f"expected at least one place of an axis of {view.shape[axis]}, found {start} to {end}")
        view = along(view, axis, chosen[0], step, len(chosen))
    builder.bind(node.output, view)


def _spans(builder: Builder, node: TrainedNode, rank: int) -> tuple[Sequence[int], ...]:
    """Starts, ends, axes and steps of a Slice, all of one length."""
    given: list[Sequence[int] | None] = []
    for place, name in enumerate(("starts", "ends", "axes", "steps"), start=1):
        value = builder.optional(node, place)
        given.append(builder.whole_numbers(value, name) if value else node.attributes.get(name))
    starts, ends, axes, steps = given
    if starts is None or ends is None or len(starts) != len(ends):
        raise ValueError("expected as many starts as ends, found others")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if len(axes) != len(starts) or len(steps) != len(starts) or len(starts) > rank:
        raise ValueError(f"expected an axis and a step for each of {len(starts)} starts, found others")
    return starts, ends, axes, steps


def split(builder: Builder, node: TrainedNode) -> None:
    """Parts along an axis."""
    view = builder.view(builder.tensor(node.inputs[0]))
    axis = axis_of(node.integer("axis", 0), len(view.shape))
    given = builder.optional(node, 1)
    sizes = builder.whole_numbers(given, "sizes") if given else tuple(node.attributes.get("split", ()))
    if not sizes:
        size = -(-view.shape[axis] // len(node.outputs))
        sizes = tuple(min(size, view.shape[axis] - k * size) for k in range(len(node.outputs)))
    if len(sizes) != len(node.outputs) or sum(sizes) != view.shape[axis] or min(sizes) < 1:
        raise ValueError(f"expected sizes of {len(node.outputs)} parts of {view.shape[axis]}, found {list(sizes)}")
    start = 0
    for name, size in zip(node.outputs, sizes, strict=True):
        builder.bind(name, along(view, axis, start, 1, size))
        start += size


def concat(builder: Builder, node: TrainedNode) -> None:
    """Values beside one another along an axis, constants among them: copied into one variable."""
    parts: list[View] = []
    for name in node.inputs:
        if name in builder.constants:
            parts.append(builder.parameter(name, builder.constants[name]))
        else:
            parts.append(builder.view(builder.tensor(name)))
    axis = axis_of(node.integer("axis", 1), len(parts[0].shape))
    rests = {(*part.shape[:axis], 0, *part.shape[axis + 1 :]) for part in parts}
    if len(rests) != 1:
        raise ValueError(f"expected shapes that differ along axis {axis} only, found {[list(p.shape) for p in parts]}")
    builder.bind(node.output, _beside(builder, parts, axis, node.output))


def _beside(builder: Builder, parts: Sequence[View], axis: int, name: str) -> View:
    """Copies of views beside one another, in a new variable."""
    total = sum(part.shape[axis] for part in parts)
    out = _concatenated(builder, parts[0], axis, total, name)
    start = 0
    for part in parts:
        target = along(out, axis, start, 1, part.shape[axis])
        builder.emit(ir.Copy(target, builder.location, part))
        start += part.shape[axis]
    return out


def _concatenated(builder: Builder, first: View, axis: int, total: int, name: str) -> View:
    """A new variable, its axes in memory as those of the first part."""
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return builder.like(replace(first, shape=shape), name)


def pad(builder: Builder, node: TrainedNode) -> None:
    """A border of zeros, or of another constant."""
    view = builder.view(builder.tensor(node.inputs[0]))
    mode = node.text("mode", "constant")
    if mode != "constant":
        raise ValueError(f"expected a constant border, found mode {mode}")
    given = builder.optional(node, 1)
    pads = builder.whole_numbers(given, "pads") if given else tuple(node.attributes.get("pads", ()))
    value = builder.optional(node, 2)
    level = float(builder.constant(value, "border").reshape(-1)[0]) if value else node.number("value", 0.0)
    rank = len(view.shape)
    named = builder.optional(node, 3)
    pads = _whole_pads(pads, builder.whole_numbers(named, "axes"), rank) if named else pads
    if len(pads) != 2 * rank or min(pads) < 0 or not math.isfinite(level):
        raise ValueError(f"expected {2 * rank} widths from 0 and a finite border, found {list(pads)} and {level:g}")
    if not any(pads):
        builder.bind(node.output, view)
        return
    shape = tuple(extent + pads[k] + pads[rank + k] for k, extent in enumerate(view.shape))
    out = builder.like(replace(view, shape=shape), node.output)
    filled = View(out.variable, (math.prod(shape),), (1,))
    builder.emit(ir.Fill(filled, builder.location, level))
    inside = sliced(out, [Affine(pads[k]) for k in range(rank)], view.shape)
    builder.emit(ir.Copy(inside, builder.location, view))
    builder.bind(node.output, out)


def _whole_pads(pads: Sequence[int], axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Widths before and behind every axis, of those of some. ValueError "expected X, found Y"."""
    places = [axis_of(axis, rank) for axis in axes]
    if len(set(places)) != len(places) or len(pads) != 2 * len(places):
        raise ValueError(f"expected two widths for each of different axes, found {list(pads)} for axes {list(axes)}")
    whole = [0] * (2 * rank)
    for number, axis in enumerate(places):
        whole[axis], whole[rank + axis] = pads[number], pads[len(places) + number]
    return tuple(whole)


def shape_of(builder: Builder, node: TrainedNode) -> None:
    """The shape is known here, so it is a constant."""
    start, end = node.attributes.get("start"), node.attributes.get("end")
    shape = builder.tensor(node.inputs[0]).shape[slice(start, end)]
    builder.constants[node.output] = np.asarray(shape, dtype=np.int64)
