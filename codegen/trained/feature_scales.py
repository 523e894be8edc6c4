"""Raw features of mixed size get scales of their own where the weights behind them can take these over."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import BoolArray, IntArray
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.fixed.arithmetic import exponent
from kilotune.codegen.trained.builder import FOLDED_NAME
from kilotune.codegen.trained.folding import fold
from kilotune.codegen.trained.leading_scalers import LeadingScaler, leading_scaler, names_told, without_leading_casts
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

LEAST_SPREAD = 4
"""How many binary orders of magnitude features must be apart: below that, one scale for all loses no more than so many bits of the
smallest."""

FAR = 4.0
"""A range is far from zero whose middle is more than so many times its half: without an offset, bits would go into what never changes."""

HEADROOM = 1.25
"""How far beyond what training data hold a feature may go before it leaves the range of its scale."""

MOST_EXPONENT = 60
"""Scales stay well within the range of 32-bit floats."""

OFFSET_BITS = 8
"""Bits of an offset below the range's own size, so that it is short and exact as a 32-bit float."""


def scaled_features(model: TrainedGraph, features: RealArray) -> tuple[TrainedGraph, FeatureScaling] | None:
    """The model for features with scales of their own, and these scales; None where one scale does as well, or where the first
    operators are neither products of weights that could take the scales over nor a scaler.

    features: [samples, features], those of training. The model's first weights and biases change; its results do not.
    """
    for axis in _axes(model):
        for movable in (True, False):  # padding takes over no offsets
            scaling = _scaling(features, model.input_shape, axis, movable)
            if scaling is None:
                continue
            made = _with_scales_undone(model, scaling, alike=True) or _with_scales_undone(model, scaling, alike=False)
            if made is not None:
                return made, scaling
    return None


def _axes(model: TrainedGraph) -> Iterator[int]:
    """Along which a product of weights may sum: the last one, or the channels of an image."""
    rank = len(model.input_shape)
    yield rank - 1
    if rank > 2:
        yield 1


def _scaling(features: RealArray, shape: tuple[int, ...], axis: int, movable: bool) -> FeatureScaling | None:
    """One scale for each place on that axis of an input of `shape`, with offsets where it is `movable`; None where one does as well."""
    by_place = np.moveaxis(features.reshape(len(features), *shape), axis + 1, 0).reshape(shape[axis], -1)
    lows, highs = by_place.min(axis=1), by_place.max(axis=1)
    offsets = np.array([_offset(low, high) if movable else 0.0 for low, high in zip(lows, highs, strict=True)])
    most = np.maximum(np.abs(lows - offsets), np.abs(highs - offsets))
    if not most.any():
        return None
    exponents = np.clip([exponent(HEADROOM * float(size)) for size in most], -MOST_EXPONENT, MOST_EXPONENT)
    exponents[most == 0] = exponents[most > 0].max()  # they do not add to what others are apart
    if exponents.max() - exponents.min() < LEAST_SPREAD and not offsets.any():
        return None
    offsets, exponents = _held(lows, lows == highs, offsets, exponents, movable)
    view = [1] * len(shape)
    view[axis] = -1
    spread = [np.broadcast_to(values.reshape(view), shape).reshape(-1) for values in (exponents, offsets)]
    return FeatureScaling(tuple(int(e) for e in spread[0]), tuple(float(o) for o in spread[1]))


def _held(
    values: RealArray, still: BoolArray, offsets: RealArray, exponents: IntArray, movable: bool
) -> tuple[RealArray, IntArray]:
    """Offsets and exponents with those of features that are `still`, which have one of `values` in all samples: they become 0, and
    range to 1 at most on either side: what a category is in use that training has none of.

    Training divides such features by no deviation, so that in a coarser unit their weights would be the largest of all and take the digits
    of the others, and so would what such a value comes to before it is subtracted again. Where all are still nothing is known of them.
    """
    if still.all():
        return offsets, exponents
    moved = np.where(still & movable, values, offsets)
    return moved, np.where(still & (values == moved), np.minimum(exponents, exponent(HEADROOM)), exponents)


def _offset(low: float, high: float) -> float:
    """The middle of a range that is small and far from zero, in few bits; else 0."""
    middle, half = (low + high) / 2, (high - low) / 2
    if half <= 0 or abs(middle) <= FAR * half:
        return 0.0
    step = math.ldexp(1.0, exponent(half) - OFFSET_BITS)
    return float(np.float32(round(middle / step) * step))


def _with_scales_undone(model: TrainedGraph, scaling: FeatureScaling, alike: bool) -> TrainedGraph | None:
    """The model for features with scales, which every reader of the features undoes: a scaler by its factors and offsets, others by
    weights behind it; None where a reader does neither.

    With `alike` the results of scalers are divided by powers of two, so that one scale does for all, and the weights behind are multiplied;
    None where these do not take them over, and where all scalers' results are alike anyway.
    """
    model = without_leading_casts(model)
    readers = [node for node in model.nodes if model.input_name in node.inputs]
    if not readers or model.input_name in names_told(model):
        return None
    factor, offset = (np.reshape(part, model.input_shape) for part in (scaling.factors, scaling.offsets))
    undoing, passing, mixed = LeadingScaler((), (), factor, offset), set[str](), False
    for number, reader in enumerate(readers):
        names = f"{model.input_name}{FOLDED_NAME}{number or ''}"
        scaler = leading_scaler(model, reader, undoing)
        powers = _powers(scaler) if scaler is not None and alike else None
        mixed = mixed or powers is not None
        if scaler is None:
            model, more = _behind_undoing(model, reader, undoing, names)
        else:
            model, more = _with_scaler(model, scaler, powers, names)
        passing |= more
    if alike and not mixed:
        return None
    folded = fold(model)
    read = {name for node in folded.nodes for name in node.inputs}
    return None if read.intersection(passing) or model.input_name not in read else folded


def _behind_undoing(
    model: TrainedGraph, reader: TrainedNode, undoing: LeadingScaler, names: str
) -> tuple[TrainedGraph, set[str]]:
    """The model whose node `reader` reads what undoes the scales, and the constants that weights have to take over."""
    steps = [("Mul", undoing.factor)] + ([("Add", undoing.offset)] if undoing.offset.any() else [])
    given, nodes, added = model.input_name, list[TrainedNode](), dict[str, RealArray]()
    for kind, values in steps:
        constant, made = (f"{names}{kind}_{what}" for what in ("by", "made"))
        nodes.append(TrainedNode(kind, (given, constant), (made,), f"input {model.input_name!r}"))
        added[constant] = _narrowed(values)
        given = made
    read = tuple(given if name == model.input_name else name for name in reader.inputs)
    behind = tuple(replace(node, inputs=read) if node is reader else node for node in model.nodes)
    return replace(model, nodes=(*nodes, *behind), constants={**model.constants, **added}), set(added)


def _with_scaler(
    model: TrainedGraph, scaler: LeadingScaler, powers: RealArray | None, names: str
) -> tuple[TrainedGraph, set[str]]:
    """The model with a product and a sum in the place of a scaler's nodes, and the constants that weights have to take over: `powers`, by
    which the scaler's results are divided first."""
    given, nodes = model.input_name, list[TrainedNode]()
    for number, choice in enumerate(scaler.choices):
        nodes.append(replace(choice, inputs=(given, choice.inputs[1]), outputs=(f"{names}chosen{number}",)))
        given = nodes[-1].output
    parts = (scaler.factor, scaler.offset) if powers is None else (scaler.factor / powers, scaler.offset / powers)
    steps = [("Mul", "factors", parts[0]), ("Add", "offsets", parts[1])]
    steps += [] if powers is None else [("Mul", "powers", powers)]
    added = {f"{names}{what}": _narrowed(values) for _, what, values in steps}
    for kind, what, _ in steps:
        place = scaler.nodes[0 if what == "factors" else -1]
        nodes.append(place.in_its_place(kind, given, f"{names}{what}", write=f"{names}{what}_made"))
        given = nodes[-1].output
    nodes[-1] = replace(nodes[-1], outputs=(scaler.output,))
    rest = tuple(node for node in model.nodes if not any(node is one for one in scaler.nodes))
    made = replace(model, nodes=(*nodes, *rest), constants={**model.constants, **added})
    return made, set() if powers is None else {f"{names}powers"}


def _powers(scaler: LeadingScaler) -> RealArray | None:
    """Powers of two near the largest results of a scaler of features from -1 to 1; None where these are alike."""
    sizes = np.abs(scaler.factor) + np.abs(scaler.offset)
    exponents = np.array([exponent(float(size)) for size in sizes.reshape(-1)]).reshape(sizes.shape)
    exponents[sizes == 0] = exponents.max()
    return np.ldexp(1.0, exponents) if exponents.max() - exponents.min() >= LEAST_SPREAD else None


def _narrowed(values: RealArray) -> RealArray:
    """With extent 1 along the axes on which the values do not change."""
    for axis in range(values.ndim):
        first = np.take(values, [0], axis=axis)
        if (values == first).all():
            values = first
    return values
