"""Factors and offsets that training leaves in a model (batch normalisation, scalers, biases) go into the weights beside them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.builder import FOLDED_NAME
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.ranks import rank_of
from kilotune.codegen.trained.recurrent import GATES
from kilotune.codegen.trained.recurrent_folding import scaled_sequence

VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity"))
"""What one factor for all elements may be moved across."""

PRODUCTS = frozenset(("Gemm", "MatMul", "Conv"))


@dataclass(frozen=True, eq=False)
class Rescaling:
    """`source * factor + offset`, arrays that broadcast to the value's shape (the channels of an image are its second axis)."""

    source: str
    factor: RealArray
    offset: RealArray


@dataclass(frozen=True, eq=False)
class Product:
    """Constant weights of a product: `weights` [.., outputs last] for Gemm and MatMul, [outputs, inputs, ..] for a convolution."""

    source: str
    weights: RealArray
    bias: RealArray | None
    groups: int = 0

    @property
    def outputs(self) -> int:
        """Elements, or channels, of the result."""
        return int(self.weights.shape[0] if self.groups else self.weights.shape[1])

    @property
    def offsets(self) -> RealArray:
        """The bias of every output [outputs], zeros where there is none."""
        bias = np.zeros(1) if self.bias is None else self.bias.reshape(-1)
        return np.broadcast_to(bias, self.outputs)


def fold(model: TrainedGraph) -> TrainedGraph:
    """The model without nodes that nothing reads, and without factors and offsets that weights can take over."""
    model = pruned(model)
    for _ in range(len(model.nodes)):
        folded = _fold_one(model)
        if folded is None:
            break
        model = pruned(folded)
    return model


def pruned(model: TrainedGraph) -> TrainedGraph:
    """The model without nodes that nothing reads."""
    wanted, kept = {*model.outputs, *(state.behind for state in model.kept)}, list[TrainedNode]()
    for node in reversed(model.nodes):
        if wanted.intersection(name for name in node.outputs if name):
            wanted.update(node.inputs)
            kept.append(node)
    return replace(model, nodes=tuple(reversed(kept)))


def _fold_one(model: TrainedGraph) -> TrainedGraph | None:
    """The model with one node less, or None."""
    makers = {name: node for node in model.nodes for name in node.outputs}
    readers = Counter(name for node in model.nodes for name in node.inputs)
    readers.update(model.outputs)
    for node in model.nodes:
        try:
            folded = _fold_at(model, node, makers, readers)
        except (ValueError, IndexError, TypeError):  # attributes that are none: conversion says so
            continue
        if folded is not None:
            return folded
    return None


def _fold_at(
    model: TrainedGraph, node: TrainedNode, makers: Mapping[str, TrainedNode], readers: Mapping[str, int]
) -> TrainedGraph | None:
    """The model without that node, if it is a factor and an offset that weights can take over."""
    affine = affine_of(node, model.constants)
    if affine is None:
        return None
    maker = makers.get(affine.source)
    behind = None if maker is None or readers[affine.source] != 1 else _behind(model, maker, node, affine)
    if behind is not None or readers[node.output] != 1 or node.output in model.outputs:
        return behind
    return _before(model, node, affine)


def affine_of(node: TrainedNode, constants: Mapping[str, Array]) -> Rescaling | None:
    """What a node does with its operand, where that is a factor and an offset; None for all others."""
    if node.kind == "BatchNormalization" and len(node.inputs) >= 5:
        return _normalisation(node, constants)
    if node.kind not in ("Add", "Sub", "Mul", "Div") or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    if (first in constants) == (second in constants):
        return None
    constant = _real(constants[first if first in constants else second])
    if constant is None or (node.kind == "Div" and (first in constants or not constant.all())):
        return None
    one, zero = np.ones(()), np.zeros(())
    if node.kind == "Mul":
        return Rescaling(second if first in constants else first, constant, zero)
    if node.kind == "Div":
        return Rescaling(first, 1.0 / constant, zero)
    if node.kind == "Add":
        return Rescaling(second if first in constants else first, one, constant)
    return Rescaling(second, -one, constant) if first in constants else Rescaling(first, one, -constant)


def _normalisation(node: TrainedNode, constants: Mapping[str, Array]) -> Rescaling | None:
    arrays = [_real(constants[name]) for name in node.inputs[1:5] if name in constants]
    found = [array for array in arrays if array is not None]
    if len(found) != 4 or len({a.shape for a in found}) != 1 or found[0].ndim != 1 or node.integer("training_mode", 0):
        return None
    scale, offset, mean, variance = found
    with np.errstate(all="ignore"):  # what becomes of it is looked at
        factor = scale / np.sqrt(variance + node.number("epsilon", 1e-5))
    moved = offset - mean * factor
    if not (np.isfinite(factor).all() and np.isfinite(moved).all()):
        return None
    return Rescaling(node.inputs[0], factor, moved)


def _real(array: Array) -> RealArray | None:
    """As float64; None for what is no array of finite real numbers."""
    if array.dtype.kind not in "fiub" or not array.size or not np.isfinite(array).all():
        return None
    return np.asarray(array, dtype=np.float64)


def product_of(node: TrainedNode, constants: Mapping[str, Array]) -> Product | None:
    """The weights of a product with constants; None for all others."""
    if node.kind not in PRODUCTS or len(node.inputs) < 2 or node.inputs[1] not in constants:
        return None
    weights = _real(constants[node.inputs[1]])
    named = node.inputs[2] if len(node.inputs) > 2 else ""
    bias = _real(constants[named]) if named in constants else None
    if weights is None or (named and bias is None):
        return None
    if node.kind == "Conv":
        groups = node.integer("group", 1)
        fit = weights.ndim > 2 and 1 <= groups <= len(weights) and len(weights) % groups == 0
        return Product(node.inputs[0], weights, bias, groups) if fit else None
    if weights.ndim != 2 or node.integer("transA", 0):
        return None
    matrix = weights.T if node.integer("transB", 0) else weights
    if bias is not None and bias.size > 1 and (bias.ndim > 2 or bias.size != bias.shape[-1]):  # not one for each output
        return None
    scaled = None if bias is None else bias * node.number("beta", 1.0)
    return Product(node.inputs[0], matrix * node.number("alpha", 1.0), scaled)


def _behind(model: TrainedGraph, maker: TrainedNode, node: TrainedNode, affine: Rescaling) -> TrainedGraph | None:
    """A factor and an offset behind a product become part of it."""
    product = product_of(maker, model.constants)
    normalises = node.kind == "BatchNormalization"
    if product is None or (normalises and not _meets_outputs(model, product)):
        return None
    rank = product.weights.ndim if product.groups else 2
    factor = _by_output(affine.factor, product, rank, normalises)
    offset = _by_output(affine.offset, product, rank, normalises)
    if factor is None or offset is None:
        return None
    shape = (-1, *(1 for _ in range(product.weights.ndim - 1))) if product.groups else (1, -1)
    made = replace(product, weights=product.weights * factor.reshape(shape), bias=product.offsets * factor + offset)
    return _with(model, {id(maker): None, id(node): _written(maker, made, node.output)}, maker, made, node.output)


def _meets_outputs(model: TrainedGraph, product: Product) -> bool:
    """Whether the second axis, which batch normalisation is about, is the one that a product of weights sums over and makes anew."""
    return bool(product.groups) or rank_of(model, product.source) == 2


def _by_output(values: RealArray, product: Product, rank: int, normalises: bool) -> RealArray | None:
    """One number for every output [outputs], where the values do not change along other axes; None otherwise."""
    if values.size == 1 and values.ndim <= rank:
        return np.full(product.outputs, float(values.reshape(-1)[0]))
    if normalises:
        return values if values.size == product.outputs else None
    axis = 1 if product.groups else rank - 1
    aligned = (1,) * (rank - values.ndim) + values.shape
    if len(aligned) != rank or aligned[axis] != product.outputs or math.prod(aligned) != product.outputs:
        return None
    return values.reshape(-1)


def _before(model: TrainedGraph, node: TrainedNode, affine: Rescaling) -> TrainedGraph | None:
    """A factor and an offset before a product, also through views where they are one number, become part of it."""
    name, between = node.output, list[TrainedNode]()
    while True:
        readers = [other for other in model.nodes if name in other.inputs]
        if len(readers) != 1 or (name in model.outputs):
            return None
        reader = readers[0]
        if not (reader.kind in VIEWS or keeps_elements(reader)) or reader in between:
            break
        between.append(reader)
        name = reader.output
    if reader.kind in GATES and reader.inputs[0] == name and node.kind != "BatchNormalization":
        return _before_sequence(model, node, affine, reader, between)
    product = product_of(reader, model.constants)
    if product is None or product.source != name:
        return None
    by_element = affine.factor.size > 1 or affine.offset.size > 1
    if by_element and not all(keeps_elements(node) for node in between):
        return None
    if node.kind == "BatchNormalization" and not _meets_outputs(model, product):
        return None
    made = _scaled_inputs(product, affine, reader, node.kind == "BatchNormalization")
    if made is None:
        return None
    changed = {id(node): None, id(reader): _written(reader, made, reader.output)}
    result = _with(model, changed, reader, made, reader.output)
    return _renamed(result, node.output, affine.source)


def _before_sequence(
    model: TrainedGraph, node: TrainedNode, affine: Rescaling, reader: TrainedNode, between: list[TrainedNode]
) -> TrainedGraph | None:
    """A factor and an offset of each feature, also where steps and batch change places behind them, become part of a recurrent operator."""
    if not all(keeps_elements(one) or tuple(one.attributes.get("perm", ()))[2:] == (2,) for one in between):
        return None
    made = scaled_sequence(reader, model.constants, affine.factor, affine.offset)
    if made is None:
        return None
    nodes = tuple(made[0] if one is reader else one for one in model.nodes if one is not node)
    return _renamed(replace(model, nodes=nodes, constants={**model.constants, **made[1]}), node.output, affine.source)


def keeps_elements(node: TrainedNode) -> bool:
    """Whether every element stays what and where it is."""
    from onnx import TensorProto

    if node.kind == "Cast":
        return node.integer("to", 0) in (TensorProto.FLOAT, TensorProto.DOUBLE)
    return node.kind == "Identity"


def _scaled_inputs(product: Product, affine: Rescaling, node: TrainedNode, normalises: bool) -> Product | None:
    if product.groups:
        return _scaled_channels(product, affine, node, normalises)
    inputs = product.weights.shape[0]
    factor, offset = (_by_input(values, inputs, -1) for values in (affine.factor, affine.offset))
    if factor is None or offset is None:
        return None
    return replace(product, weights=product.weights * factor[:, None], bias=product.offsets + offset @ product.weights)


def _scaled_channels(product: Product, affine: Rescaling, node: TrainedNode, normalises: bool) -> Product | None:
    """Offsets stop at padding, whose zeros they would change."""
    weights, groups = product.weights, product.groups
    channels = weights.shape[1] * groups
    axis = 0 if normalises else -weights.ndim + 1
    factor, offset = (_by_input(values, channels, axis) for values in (affine.factor, affine.offset))
    padded = any(node.attributes.get("pads", ())) or node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    if factor is None or offset is None or (padded and offset.any()):
        return None
    by_group = (groups, weights.shape[0] // groups, weights.shape[1], *weights.shape[2:])
    shape = (groups, 1, weights.shape[1], *(1 for _ in weights.shape[2:]))
    split = weights.reshape(by_group)
    moved = (split * offset.reshape(shape)).reshape(weights.shape[0], -1).sum(axis=1)
    return replace(
        product, weights=(split * factor.reshape(shape)).reshape(weights.shape), bias=product.offsets + moved
    )


def _by_input(values: RealArray, inputs: int, axis: int) -> RealArray | None:
    """One number for every input, where the values change along that axis (from the end) only; None otherwise."""
    if values.size == 1 and values.ndim <= 2:
        return np.full(inputs, float(values.reshape(-1)[0]))
    if values.size != inputs or values.ndim < -axis or values.shape[axis] != inputs:
        return None
    return values.reshape(-1)


def _written(node: TrainedNode, product: Product, output: str) -> TrainedNode:
    """The product as a node that writes `output`."""
    names: tuple[str, ...] = (node.inputs[0], _name(node, 1), _name(node, 2))
    if product.groups:
        return replace(node, inputs=names, outputs=(output,))
    kept = {name: value for name, value in node.attributes.items() if name not in ("alpha", "beta", "transB", "transA")}
    if product.bias is not None and not product.bias.any():
        names = names[:2]
    return replace(node, kind="Gemm", inputs=names, outputs=(output,), attributes=kept)


def _name(node: TrainedNode, place: int) -> str:
    """What the new constants of a product are called: as the old ones where there are any, in a name that no file has."""
    named = node.inputs[place] if len(node.inputs) > place and node.inputs[place] else f"{node.inputs[1]}_bias"
    return named if FOLDED_NAME in named else f"{named}{FOLDED_NAME}{node.output}"


def with_product(model: TrainedGraph, node: TrainedNode, product: Product) -> TrainedGraph:
    """The model with another product in the place of a node."""
    return _with(model, {id(node): _written(node, product, node.output)}, node, product, node.output)


def _with(
    model: TrainedGraph, changed: Mapping[int, TrainedNode | None], node: TrainedNode, product: Product, output: str
) -> TrainedGraph:
    """The model with other nodes (None: gone), and the constants of a product."""
    nodes = [changed.get(id(one), one) for one in model.nodes]
    constants = {**model.constants, _name(node, 1): product.weights}
    if product.bias is not None:
        constants[_name(node, 2)] = product.bias
    return replace(model, nodes=tuple(one for one in nodes if one is not None), constants=constants)


def _renamed(model: TrainedGraph, name: str, source: str) -> TrainedGraph:
    """What read one value reads another."""
    nodes = tuple(
        replace(node, inputs=tuple(source if read == name else read for read in node.inputs)) for node in model.nodes
    )
    return replace(model, nodes=nodes)
