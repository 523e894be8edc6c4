"""What training or quantisation leaves behind: batch normalisation that no weights could take over, and rounding to integers.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.array_files import RealArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.trained.builder import Builder
from kilotune.codegen.trained.elementwise import add, clip, scale, unary
from kilotune.codegen.trained.folding import affine_of
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.rearranging import identity

RELU6 = 6.0

BEYOND = 0.05
"""How far features may be outside of the range that a file was quantised for, as a part of it: calibration leaves out some."""

MOST_BEYOND = 0.01
"""How many features may be further outside, as a part of all: outliers that calibration has not seen, and not another unit."""

ENDS = "ends"
"""The attribute of a QuantizeLinear with the two numbers that it bounds values to; infinite ones are none. No file has it."""

POSITIVE = frozenset(("relu", "relu6", "sigmoid", "abs", "exp"))
"""Functions that are never below 0."""


def batch_normalization(builder: Builder, node: TrainedNode) -> None:
    """A factor and an offset for every channel, the second axis."""
    affine = affine_of(node, builder.constants)
    view = builder.view(builder.tensor(node.inputs[0]))
    if affine is None or len(view.shape) < 2 or affine.factor.size != view.shape[1]:
        raise ValueError(f"expected constant, finite statistics of {list(view.shape)} for inference, found others")
    shape = (-1, *(1 for _ in view.shape[2:]))
    scaled = scale(builder, view, affine.factor.reshape(shape), node.inputs[1], node.output)
    builder.bind(node.output, add(builder, scaled, affine.offset.reshape(shape), node.inputs[2], node.output))


def normalise(builder: Builder, node: TrainedNode) -> None:
    """Each row over its Euclidean length."""
    view = builder.view(builder.tensor(node.inputs[0]))
    out = builder.temporary(view.shape, node.output)
    builder.emit(ir.NormaliseL2(out, builder.location, view))
    builder.bind(node.output, out)


def quantize(builder: Builder, node: TrainedNode) -> None:
    """Rounding to integers, which a program decides itself: what is left of it is where the integers end, if that is one of its `ENDS`,
    or at 0, as behind a Relu that was taken into them; of features only the former, which are positive often and no Relu's results."""
    steps = builder.weights(node.inputs[1], "scale")
    named = builder.optional(node, 2)
    zero = np.zeros((), np.uint8) if named is None else builder.constant(named, "zero point")
    if zero.dtype.kind not in "iu" or not steps.size or (steps <= 0).any():
        raise ValueError(f"expected scales above 0 and whole zero points, found {zero.dtype}")
    bits = 8 * zero.dtype.itemsize
    least = 0 if zero.dtype.kind == "u" else -(1 << (bits - 1))
    name = node.inputs[0]
    low, high = node.attributes.get(ENDS, (-math.inf, math.inf))
    if name not in builder.tensors:
        low, high = -math.inf, math.inf
    elif steps.size > 1:
        raise ValueError(f"expected one scale for all elements of a computed value, found {steps.size}")
    elif bool((zero.astype(np.int64) == least).all()) and not (
        _is_features(builder, name) or _is_positive(builder, name)
    ):
        low = 0.0
    if (low, high) == (-math.inf, math.inf):
        identity(builder, node)
        return
    high = RELU6 if low == 0 and abs(high - RELU6) < 1e-4 else high
    clip(builder, node.in_its_place("Clip", node.inputs[0], min=low, max=high))


def check_quantised_range(model: TrainedGraph, features: RealArray, path: Path) -> None:
    """InputError where many features are far beyond the integers that a file makes of them first: the file clips them, a program would not.

    features: [samples, features].
    """
    if model.feature_ends is not None:
        _check_within(model.feature_ends, "the integers of the file's input clip", features, path)
    for node in model.nodes:
        if node.kind != "QuantizeLinear" or node.inputs[0] != model.input_name or len(node.inputs) < 2:
            continue
        constants = [model.constants.get(name) for name in node.inputs[1:3]]
        step = constants[0]
        if step is None or step.size != 1 or (len(constants) > 1 and constants[1] is None):
            continue
        zero = np.zeros(1, np.uint8) if len(constants) < 2 or constants[1] is None else constants[1].reshape(-1)
        if zero.dtype.kind not in "iu":
            continue
        limits = np.iinfo(zero.dtype)
        low, high = ((float(end) - float(zero[0])) * float(step.reshape(-1)[0]) for end in (limits.min, limits.max))
        _check_within((low, high), "the file's first QuantizeLinear clips", features, path)


def _check_within(ends: tuple[float, float], clips: str, features: RealArray, path: Path) -> None:
    low, high = ends
    room = BEYOND * (high - low)
    strange = features[(features < low - room) | (features > high + room)]
    if strange.size > MOST_BEYOND * features.size:
        expected = f"from {low:g} to {high:g}, to which {clips} them"
        raise InputError(str(path), subject="features", expected=expected, found=f"{strange[0]:g}")


def _is_features(builder: Builder, name: str) -> bool:
    return builder.emitter.variable(builder.tensor(name).view.variable).role is ir.Role.INPUT


def _is_positive(builder: Builder, name: str) -> bool:
    """Whether a value is what a Relu has written, or another function that is never below 0."""
    variable = builder.tensor(name).view.variable
    written = [s for s in builder.emitter.body if isinstance(s, ir.Operation) and s.out.variable == variable]
    if not written:  # what a loop has written
        return False
    last = written[-1]
    return isinstance(last, ir.Pointwise | ir.TableFunction) and last.function in POSITIVE


def dequantize(builder: Builder, node: TrainedNode) -> None:
    """Back to real numbers."""
    identity(builder, node)


def cast(builder: Builder, node: TrainedNode) -> None:
    """To another type of real numbers."""
    from onnx import TensorProto

    kind = node.integer("to", TensorProto.FLOAT)
    real = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    if kind not in real and node.inputs[0] not in builder.labels:
        raise ValueError(f"expected real numbers to stay real numbers, found a Cast to type {kind}")
    identity(builder, node)


def negate(builder: Builder, node: TrainedNode) -> None:
    """-x."""
    location = builder.location
    unary(builder, node, lambda out, a: ir.Negate(out, location, a))
