"""One classifier a class, side by side, is one classifier: columns taken of products and of rows put together, and products of the same
features put side by side, become products with fewer, or with more, columns of weights (skl2onnx writes OneVsRestClassifier so)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import Array, IntArray
from kilotune.codegen.trained.folding import Product, product_of, pruned
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

NONE: Mapping[str, Array] = MappingProxyType({})
FUNCTIONS = frozenset(("Sigmoid", "Tanh", "Relu"))
"""Functions of every element by itself: of parts put together they are what they are of each part."""


def with_joined_parts(graph: TrainedGraph) -> TrainedGraph:
    """The graph with as few products of rows [1, columns] as there can be without computing anything twice."""
    graph = pruned(graph)
    for _ in range(8 * len(graph.nodes)):  # every change removes a node, or moves one behind what puts parts together
        changed = next(_changes(graph), None)
        if changed is None:
            break
        graph = pruned(changed)
    return graph


def _changes(graph: TrainedGraph) -> Iterator[TrainedGraph]:
    """What the graph becomes by one change, for each that can be made."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    if len(makers) < sum(len(node.outputs) for node in graph.nodes):
        return
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    readers.update(graph.outputs)
    known = _Known(graph, makers, readers, _columns(graph))
    for node in graph.nodes:
        for change in (_renamed, _taken, _put_together):
            changed = change(known, node)
            if changed is not None:
                yield changed


@dataclass(frozen=True, eq=False)
class _Known:
    """What is known of a graph: who makes a value, how many read it, and the number of columns of each row [1, columns]."""

    graph: TrainedGraph
    makers: Mapping[str, TrainedNode]
    readers: Mapping[str, int]
    columns: Mapping[str, int]

    def product(self, name: str) -> Product | None:
        """Constant weights whose product is the row of that name, which nobody else reads; None for all else."""
        alone = name in self.columns and name in self.makers and self.readers[name] == 1
        return _product_of(self.graph, self.makers[name]) if alone else None

    def changed(self, at: TrainedNode, *made: TrainedNode, constants: Mapping[str, Array] = NONE) -> TrainedGraph:
        """The graph with other nodes in the place of one."""
        nodes = tuple(node for one in self.graph.nodes for node in (made if one is at else (one,)))
        return replace(self.graph, nodes=nodes, constants={**self.graph.constants, **constants})


def _columns(graph: TrainedGraph) -> dict[str, int]:
    """The values of the file that are rows [1, columns], and their columns."""
    shape = graph.input_shape
    known = {graph.input_name: shape[1]} if len(shape) == 2 and shape[0] == 1 else {}
    for node in graph.nodes:
        count = _columns_of(graph, node, known) if known and not node.refusal else None
        if count:
            known[node.output] = count
    return known


def _columns_of(graph: TrainedGraph, node: TrainedNode, known: Mapping[str, int]) -> int | None:
    reads = [known.get(name) for name in node.inputs]
    if node.kind == "Concat":
        counts = [count for count in reads if count]
        return sum(counts) if len(counts) == len(reads) and _is_of_columns(node) else None
    if node.kind in ("Add", "Sub", "Mul", "Div") and len(reads) == 2:
        row, constant = (
            reads[0] or reads[1],
            [graph.constants.get(name) for name in node.inputs if name in graph.constants],
        )
        level = constant[0] if len(constant) == 1 else None
        return row if row and level is not None and level.shape in ((), (1,), (1, 1), (row,), (1, row)) else None
    if not reads or not reads[0]:
        return None
    if node.kind in FUNCTIONS:
        return reads[0]
    if node.kind in ("Slice", "Gather"):
        places = _places(graph, node, reads[0])
        return None if places is None else len(places)
    product = _product_of(graph, node)
    return product.outputs if product is not None and len(product.weights) == reads[0] else None


def _is_of_columns(node: TrainedNode) -> bool:
    return node.attributes.get("axis") in (1, -1)


def _product_of(graph: TrainedGraph, node: TrainedNode) -> Product | None:
    if node.kind not in ("Gemm", "MatMul"):
        return None
    try:
        return product_of(node, graph.constants)
    except (ValueError, IndexError, TypeError):  # attributes that are none: conversion says so
        return None


def _places(graph: TrainedGraph, node: TrainedNode, width: int) -> IntArray | None:
    """Which columns of a row of `width` a Slice or a Gather takes [columns]; None for one that takes none, or something else."""
    given = [graph.constants.get(name) for name in node.inputs[1:]]
    arrays = [values for values in given if values is not None and values.dtype.kind in "iu" and values.ndim <= 1]
    if len(arrays) < len(given):
        return None
    if node.kind == "Gather":
        places = arrays[0] if len(arrays) == 1 and arrays[0].ndim == 1 and _is_of_columns(node) else np.zeros(0, int)
        inside = places.size and places.min() >= -width and places.max() < width
        return places % width if inside else None
    if len(arrays) not in (3, 4) or any(array.size != 1 for array in arrays):
        return None
    start, end, axis, step = (int(array.reshape(-1)[0]) for array in (*arrays, np.ones(1, int))[:4])
    places = np.arange(width)[start:end:step] if axis in (1, -1) and step else np.zeros(0, int)
    return places if places.size else None


def _renamed(known: _Known, node: TrainedNode) -> TrainedGraph | None:
    """What is read of an Identity is read of its operand."""
    if node.kind != "Identity" or len(node.inputs) != 1 or node.output in known.graph.outputs:
        return None
    names = {node.output: node.inputs[0]}
    nodes = (replace(one, inputs=tuple(names.get(name, name) for name in one.inputs)) for one in known.graph.nodes)
    return replace(known.graph, nodes=tuple(one for one in nodes if one.outputs != node.outputs))


def _taken(known: _Known, node: TrainedNode) -> TrainedGraph | None:
    """Columns of a product are a product with those columns of its weights; of rows put together, those of one of them; of a function, the
    function of those of its operand."""
    width = known.columns.get(node.inputs[0]) if node.inputs else None
    if node.kind not in ("Slice", "Gather") or not width or node.inputs[0] not in known.makers:
        return None
    places = _places(known.graph, node, width)
    if places is None:
        return None
    source = node.inputs[0]
    product, maker = known.product(source), known.makers[source]
    if product is not None:
        few = replace(product, weights=product.weights[:, places], bias=product.offsets[places])
        return _with_product(known, node, few)
    if maker.kind in FUNCTIONS and known.readers[source] == 1:
        inner = f"{node.output}_of"
        taken = replace(node, inputs=(maker.inputs[0], *node.inputs[1:]), outputs=(inner,))
        return known.changed(node, taken, replace(maker, inputs=(inner,), outputs=node.outputs))
    return _part(known, node, maker, places) if maker.kind == "Concat" else None


def _part(known: _Known, node: TrainedNode, maker: TrainedNode, places: IntArray) -> TrainedGraph | None:
    """Columns that all come from the same one of the rows that were put together."""
    start = 0
    for name in maker.inputs:
        width = known.columns[name]
        if places.min() >= start and places.max() < start + width:
            inner = f"{node.output}_places"
            if np.array_equal(places, np.arange(start, start + width)):
                return known.changed(node, node.in_its_place("Identity", name))
            return known.changed(
                node, node.in_its_place("Gather", name, inner, axis=1), constants={inner: places - start}
            )
        start += width
    return None


def _put_together(known: _Known, node: TrainedNode) -> TrainedGraph | None:
    """Products of one source, or the same function of several rows, that nobody else reads, as one."""
    if node.kind != "Concat" or node.output not in known.columns:
        return None
    if len(node.inputs) == 1:
        return known.changed(node, node.in_its_place("Identity", node.inputs[0]))
    products = [known.product(name) for name in node.inputs]
    found = [product for product in products if product is not None]
    if len(found) == len(products) and len({product.source for product in found}) == 1:
        weights = np.concatenate([product.weights for product in found], axis=1)
        bias = np.concatenate([product.offsets for product in found])
        return _with_product(known, node, replace(found[0], weights=weights, bias=bias))
    parts = [known.makers[name] for name in node.inputs if name in known.makers and known.readers[name] == 1]
    if len(parts) < len(node.inputs) or {part.kind for part in parts} - FUNCTIONS or len({p.kind for p in parts}) > 1:
        return None
    inner = f"{node.output}_together"
    together = replace(node, inputs=tuple(part.inputs[0] for part in parts), outputs=(inner,))
    return known.changed(node, together, replace(parts[0], inputs=(inner,), outputs=node.outputs))


def _with_product(known: _Known, node: TrainedNode, product: Product) -> TrainedGraph:
    """The graph with that product in the place of a node."""
    weights, bias = f"{node.output}_joined_weights", f"{node.output}_joined_bias"
    made = node.in_its_place("Gemm", product.source, weights, bias)
    return known.changed(node, made, constants={weights: product.weights, bias: product.offsets})
