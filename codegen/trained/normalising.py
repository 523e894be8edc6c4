"""What training or quantisation leaves behind: batch normalisation that no weights could take over, and rounding to integers.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.trained.builder import Builder
from kilotune.codegen.trained.elementwise import add, maker, scale, unary
from kilotune.codegen.trained.folding import affine_of
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.rearranging import identity

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
    """Rounding to integers, which a program decides itself: what is left of it is where the integers end, if that is at 0, as behind a
    Relu that was taken into them."""
    steps = builder.weights(node.inputs[1], "scale")
    named = builder.optional(node, 2)
    zero = np.zeros((), np.uint8) if named is None else builder.constant(named, "zero point")
    if zero.dtype.kind not in "iu" or not steps.size or (steps <= 0).any():
        raise ValueError(f"expected scales above 0 and whole zero points, found {zero.dtype}")
    bits = 8 * zero.dtype.itemsize
    least = 0 if zero.dtype.kind == "u" else -(1 << (bits - 1))
    made_here = node.inputs[0] in builder.tensors and not _is_positive(builder, node.inputs[0])
    if made_here and bool((zero.astype(np.int64) == least).all()):
        unary(builder, node, maker(builder, "relu"))
        return
    identity(builder, node)


def _is_positive(builder: Builder, name: str) -> bool:
    """Whether a value is the features, or what a Relu has written."""
    variable = builder.tensor(name).view.variable
    written = [s for s in builder.emitter.body if isinstance(s, ir.Operation) and s.out.variable == variable]
    if not written:  # the features, or what a loop has written
        return builder.emitter.variable(variable).role is ir.Role.INPUT
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
