"""Operators that sum products: matrices and convolutions.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.array_files import RealArray
from kilotune.codegen.ir import View
from kilotune.codegen.language.views import permuted, reshaped
from kilotune.codegen.onnx.attributes import read_window
from kilotune.codegen.trained.builder import Builder, Tensor, inverse, memory_order
from kilotune.codegen.trained.elementwise import add
from kilotune.codegen.trained.model import TrainedNode


def gemm(builder: Builder, node: TrainedNode) -> None:
    """alpha * A * B + beta * C."""
    if node.integer("transA", 0):
        raise ValueError("expected rows of features as A, found transA")
    weights = builder.weights(node.inputs[1], "weights") * node.number("alpha", 1.0)
    if weights.ndim != 2:
        raise ValueError(f"expected a matrix of weights, found shape {list(weights.shape)}")
    matrix = weights.T if node.integer("transB", 0) else weights
    product = times_matrix(builder, builder.tensor(node.inputs[0]), matrix, node)
    bias = builder.optional(node, 2)
    if bias is None:
        builder.bind(node.output, product)
        return
    if bias in builder.tensors:
        raise ValueError(f"expected a constant as C, found {bias!r}, which is computed from the features")
    offset = builder.weights(bias, "bias") * node.number("beta", 1.0)
    builder.bind(node.output, add(builder, product, offset, bias, node.output))


def _times_vector(builder: Builder, node: TrainedNode, vector: RealArray) -> None:
    """The sums of products along the last axis, which the result does not have."""
    product = times_matrix(builder, builder.tensor(node.inputs[0]), vector[:, None], node)
    shape = product.shape[:-1]
    view = reshaped(product, shape)
    builder.tensors[node.output] = Tensor(product, shape) if view is None else Tensor(view, shape)


def matmul(builder: Builder, node: TrainedNode) -> None:
    """The product of two values, one of which may be constant."""
    left, right = node.inputs
    if right in builder.constants:
        matrix = builder.weights(right, "weights")
        if matrix.ndim == 1:
            _times_vector(builder, node, matrix)
            return
        matrix = matrix.reshape(matrix.shape[-2:]) if math.prod(matrix.shape[:-2]) == 1 else matrix
        if matrix.ndim != 2:
            raise ValueError(f"expected one matrix of weights, found shape {list(matrix.shape)}")
        builder.bind(node.output, times_matrix(builder, builder.tensor(left), matrix, node))
        return
    if left in builder.constants:
        constant = builder.weights(left, "weights")
        a = builder.parameter(left, constant)
    else:
        a = builder.view(builder.tensor(left))
    b = builder.view(builder.tensor(right))
    builder.bind(node.output, _of_matrices(builder, a, b, node))


def _of_matrices(builder: Builder, a: View, b: View, node: TrainedNode) -> View:
    """(.., P, Q) times (.., Q, R), all leading axes of extent 1."""
    leading = max(len(a.shape), len(b.shape)) - 2
    if len(a.shape) < 2 or len(b.shape) < 2 or math.prod((*a.shape[:-2], *b.shape[:-2])) != 1:
        raise ValueError(f"expected two matrices, found shapes {list(a.shape)} and {list(b.shape)}")
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"expected matrices (p, q) and (q, r), found {list(a.shape)} and {list(b.shape)}")
    first, second = (ir.View(v.variable, v.shape[-2:], v.strides[-2:], v.offset) for v in (a, b))
    out = builder.temporary((first.shape[0], second.shape[1]), node.output)
    builder.emit(ir.MatMul(out, builder.location, first, second))
    result = reshaped(out, (*(1 for _ in range(leading)), *out.shape))
    assert result is not None
    return result


def times_matrix(builder: Builder, tensor: Tensor, matrix: RealArray, node: TrainedNode) -> View:
    """A value (.., Q) times constant weights (Q, R).

    One row of features is taken as a column, and the weights row by row: both are then read in the order in which they lie.
    """
    inputs, outputs = matrix.shape
    if not tensor.shape or tensor.shape[-1] != inputs or not matrix.size:
        raise ValueError(f"expected weights for {list(tensor.shape)}, found shape {list(matrix.shape)}")
    rows = math.prod(tensor.shape[:-1])
    name, shape = node.inputs[1], (*tensor.shape[:-1], outputs)
    if rows == 1:
        view, places = in_memory_order(tensor.view)
        column = reshaped(view, (inputs, 1))
        if column is None:
            column, places = reshaped(builder.view(tensor), (inputs, 1)), np.arange(inputs)
        assert column is not None
        weights = np.ascontiguousarray(matrix[places].T)
        sparse = 2 * int(np.count_nonzero(weights)) + outputs < weights.size
        out = builder.temporary((outputs, 1), node.output)
        stored = builder.parameter(name, weights)
        builder.emit(ir.MatMul(out, builder.location, stored, column, sparse=sparse))
    else:
        features = reshaped(builder.view(tensor), (rows, inputs))
        if features is None:
            raise ValueError(f"expected rows that lie beside one another, found shape {list(tensor.shape)}")
        out = builder.temporary((rows, outputs), node.output)
        stored = builder.parameter(name, np.ascontiguousarray(matrix.T))
        builder.emit(ir.MatMul(out, builder.location, features, permuted(stored, (1, 0))))
    result = reshaped(out, shape)
    assert result is not None
    return result


def in_memory_order(view: View) -> tuple[View, np.ndarray]:
    """The view with its axes as they lie in memory, and which elements of `view`, row-major, come there one after the other."""
    order = memory_order(view)
    numbers = np.arange(view.size).reshape(view.shape).transpose(order)
    return permuted(view, order), numbers.reshape(-1)


def convolution(builder: Builder, node: TrainedNode) -> None:
    """Conv of one or two dimensions, in groups or not."""
    image = builder.view(builder.tensor(node.inputs[0]))
    weights = builder.weights(node.inputs[1], "weights")
    groups, rank = node.integer("group", 1), len(image.shape)
    if rank not in (3, 4) or weights.ndim != rank or not weights.size:
        expected = (
            "an image (batch, channels, height, width) or a sequence (batch, channels, length), and weights alike"
        )
        raise ValueError(f"expected {expected}, found shapes {list(image.shape)} and {list(weights.shape)}")
    if groups < 1 or weights.shape[0] % groups or weights.shape[1] * groups != image.shape[1]:
        expected = f"weights for {image.shape[1]} channels in {groups} groups"
        raise ValueError(f"expected {expected}, found shape {list(weights.shape)}")
    flat = as_image(image)
    declared = tuple(node.attributes.get("kernel_shape", weights.shape[2:]))
    if declared != weights.shape[2:]:
        raise ValueError(f"expected weights of kernel {list(declared)}, found shape {list(weights.shape)}")
    shape = (flat.shape[3], flat.shape[1], flat.shape[2])
    window = read_window(node.attributes, weights.shape[2:], rank, shape)
    outputs = weights.shape[0]
    filters = weights.reshape(groups, outputs // groups, weights.shape[1], *window.kernel).transpose(0, 3, 4, 2, 1)
    out = builder.temporary((flat.shape[0], *window.output_size(*shape[1:]), outputs), node.output)
    top, left, bottom, right = window.pads
    stored = builder.parameter(node.inputs[1], np.ascontiguousarray(filters))
    padding = (top, bottom, left, right)
    builder.emit(ir.Conv2D(out, builder.location, flat, stored, window.stride, padding, window.dilation, groups))
    result = channels_second(out, rank)
    bias = builder.optional(node, 2)
    if bias is not None:
        offset = builder.weights(bias, "bias")
        if offset.shape != (outputs,):
            raise ValueError(f"expected a bias of {outputs} elements, found shape {list(offset.shape)}")
        result = add(builder, result, offset.reshape(-1, *(1 for _ in range(rank - 2))), bias, node.output)
    builder.bind(node.output, result)


def as_image(view: View) -> View:
    """(batch, height, width, channels) of ONNX's (batch, channels, height, width); of a sequence, an image of one row."""
    if len(view.shape) == 3:
        (count, channels, length), steps = view.shape, view.strides
        view = ir.View(
            view.variable, (count, channels, 1, length), (*steps[:2], steps[2] * length, steps[2]), view.offset
        )
    return permuted(view, (0, 2, 3, 1))


def channels_second(view: View, rank: int) -> View:
    """The way back from `as_image`."""
    image = permuted(view, inverse((0, 2, 3, 1)))
    if rank == 4:
        return image
    return ir.View(
        image.variable, (*image.shape[:2], image.shape[3]), (*image.strides[:2], image.strides[3]), image.offset
    )
