"""Raw features of mixed size get scales of their own where the weights behind them can take these over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import Array
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.fixed.arithmetic import exponent
from kilotune.codegen.trained.builder import FOLDED_NAME
from kilotune.codegen.trained.folding import Rescaling, affine_of, fold
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
            made = None if scaling is None else _behind_scales(model, scaling) or _with_scales_in_scaler(model, scaling)
            if scaling is not None and made is not None:
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
    exponents[most == 0] = exponents[most > 0].max()  # nothing is known of those: the widest range
    if exponents.max() - exponents.min() < LEAST_SPREAD and not offsets.any():
        return None
    view = [1] * len(shape)
    view[axis] = -1
    spread = [np.broadcast_to(values.reshape(view), shape).reshape(-1) for values in (exponents, offsets)]
    return FeatureScaling(tuple(int(e) for e in spread[0]), tuple(float(o) for o in spread[1]))


def _offset(low: float, high: float) -> float:
    """The middle of a range that is small and far from zero, in few bits; else 0."""
    middle, half = (low + high) / 2, (high - low) / 2
    if half <= 0 or abs(middle) <= FAR * half:
        return 0.0
    step = math.ldexp(1.0, exponent(half) - OFFSET_BITS)
    return float(np.float32(round(middle / step) * step))


def _behind_scales(model: TrainedGraph, scaling: FeatureScaling) -> TrainedGraph | None:
    """The model with what undoes the scales at its start, taken into its weights; None where they do not take it over."""
    steps = [("Mul", scaling.factors)]
    steps += [("Add", np.asarray(scaling.offsets))] if any(scaling.offsets) else []
    given, nodes, added = model.input_name, list[TrainedNode](), dict[str, RealArray]()
    for kind, values in steps:
        constant, made = (f"{model.input_name}{FOLDED_NAME}{kind}_{what}" for what in ("by", "made"))
        nodes.append(TrainedNode(kind, (given, constant), (made,), f"input {model.input_name!r}"))
        added[constant] = _narrowed(values.reshape(model.input_shape))
        given = made
    behind = tuple(
        replace(node, inputs=tuple(given if name == model.input_name else name for name in node.inputs))
        for node in model.nodes
    )
    folded = fold(replace(model, nodes=(*nodes, *behind), constants={**model.constants, **added}))
    read = {name for node in folded.nodes for name in node.inputs}
    return None if read.intersection(added) or model.input_name not in read else folded


def _with_scales_in_scaler(model: TrainedGraph, scaling: FeatureScaling) -> TrainedGraph | None:
    """The model with what undoes the scales in the factors and offsets at its start, a factor and an offset again; None where it has
    none, or where others read the features, too."""
    shape = model.input_shape
    factor, offset = scaling.factors.reshape(shape), np.asarray(scaling.offsets).reshape(shape)
    name, taken = model.input_name, list[TrainedNode]()
    while True:
        readers = [node for node in model.nodes if name in node.inputs]
        alone = len(readers) == 1 and name not in model.outputs
        affine = _by_element(readers[0], model.constants, shape) if alone else None
        if affine is None:
            break
        factor, offset = factor * affine.factor, offset * affine.factor + affine.offset
        taken.append(readers[0])
        name = taken[-1].output
    if not taken:
        return None
    rest = replace(model, nodes=tuple(node for node in model.nodes if node not in taken))
    alike = _with_scaler(rest, (taken[0], taken[-1]), (factor, offset), _powers(factor, offset))
    return alike or _with_scaler(rest, (taken[0], taken[-1]), (factor, offset), None)


def _powers(factor: RealArray, offset: RealArray) -> RealArray | None:
    """Powers of two near the largest results of a scaler of features from -1 to 1; None where these are alike."""
    sizes = np.abs(factor) + np.abs(offset)
    exponents = np.array([exponent(float(size)) for size in sizes.reshape(-1)]).reshape(sizes.shape)
    exponents[sizes == 0] = exponents.max()
    return np.ldexp(1.0, exponents) if exponents.max() - exponents.min() >= LEAST_SPREAD else None


def _with_scaler(
    model: TrainedGraph,
    places: tuple[TrainedNode, TrainedNode],
    affine: tuple[RealArray, RealArray],
    powers: RealArray | None,
) -> TrainedGraph | None:
    """The model behind a factor and an offset of its features, in the places of two nodes, of which the second made what the model reads.

    With `powers` the scaler's results are divided by them, so that one scale does for all, and the weights behind are multiplied; None
    where these do not take them over."""
    written = places[1].output
    names = [f"{model.input_name}{FOLDED_NAME}{what}" for what in ("factors", "scaled", "offsets", "powers", "alike")]
    factor, offset = (part if powers is None else part / powers for part in affine)
    nodes = [
        replace(places[0], kind="Mul", inputs=(model.input_name, names[0]), outputs=(names[1],), attributes={}),
        replace(places[1], kind="Add", inputs=(names[1], names[2]), outputs=(written,), attributes={}),
    ]
    added = {names[0]: _narrowed(factor), names[2]: _narrowed(offset)}
    if powers is not None:
        nodes[1] = replace(nodes[1], outputs=(names[4],))
        nodes.append(replace(places[1], kind="Mul", inputs=(names[4], names[3]), outputs=(written,), attributes={}))
        added[names[3]] = _narrowed(powers)
    made = replace(model, nodes=(*nodes, *model.nodes), constants={**model.constants, **added})
    if powers is None:
        return made
    folded = fold(made)
    readers = [name for node in folded.nodes for name in node.inputs]
    return None if names[3] in readers or names[0] not in readers else folded


def _by_element(node: TrainedNode, constants: Mapping[str, Array], shape: tuple[int, ...]) -> Rescaling | None:
    """What a node does with features of `shape`, in arrays that broadcast to it; None where it does something else."""
    affine = affine_of(node, constants)
    if affine is None:
        return None
    if node.kind == "BatchNormalization":  # one number for each place of the second axis
        if len(shape) < 2 or affine.factor.shape != shape[1:2]:
            return None
        by_channel = (-1, *(1 for _ in shape[2:]))
        return replace(affine, factor=affine.factor.reshape(by_channel), offset=affine.offset.reshape(by_channel))
    try:
        return affine if np.broadcast_shapes(affine.factor.shape, affine.offset.shape, shape) == shape else None
    except ValueError:
        return None


def _narrowed(values: RealArray) -> RealArray:
    """With extent 1 along the axes on which the values do not change."""
    for axis in range(values.ndim):
        first = np.take(values, [0], axis=axis)
        if (values == first).all():
            values = first
    return values
