"""Products of chosen features, as skl2onnx writes PolynomialFeatures: the columns of one degree become one product of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

FeatureTerm = tuple[int, ...]
"""Places of the features that are multiplied; none for the constant 1."""


def with_rows_of_terms(graph: TrainedGraph) -> TrainedGraph:
    """The graph in which columns of products of features, put together, are products of rows: one row of all terms of a degree."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    if len(graph.input_shape) != 2 or len(makers) < sum(len(node.outputs) for node in graph.nodes):
        return graph
    nodes, constants = list[TrainedNode](), dict(graph.constants)
    for node in graph.nodes:
        found = _terms(node, makers, graph.constants)
        nodes += [node] if found is None else _rows(node, *found, constants)
    return graph if len(nodes) == len(graph.nodes) else replace(graph, nodes=_read(graph, nodes), constants=constants)


def _read(graph: TrainedGraph, nodes: Sequence[TrainedNode]) -> tuple[TrainedNode, ...]:
    """The nodes without those that nobody reads any more."""
    needed, kept = set(graph.outputs), list[TrainedNode]()
    for node in reversed(nodes):
        if needed.intersection(node.outputs) or node.refusal:
            needed.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))


def _terms(
    node: TrainedNode, makers: Mapping[str, TrainedNode], constants: Mapping[str, Array]
) -> tuple[str, list[FeatureTerm]] | None:
    """The row whose elements a Concat multiplies, and its terms; None for anything else."""
    if node.kind != "Concat" or node.attributes.get("axis") not in (1, -1) or not node.inputs:
        return None
    sources, terms = set[str](), list[FeatureTerm]()
    for name in node.inputs:
        maker = makers.get(name)
        if maker is None:
            return None
        if _is_one(maker, makers):
            terms.append(())
            continue
        found = _product(maker, makers, constants)
        if found is None:
            return None
        sources.add(found[0])
        terms.append(found[1])
    return (sources.pop(), terms) if len(sources) == 1 else None


def _is_one(node: TrainedNode, makers: Mapping[str, TrainedNode]) -> bool:
    """Whether a node makes the number 1 for every sample."""
    value = np.asarray(node.attributes.get("value", 0.0)).reshape(-1)
    shape = makers.get(node.inputs[0]) if node.kind == "ConstantOfShape" and node.inputs else None
    of_product = shape is not None and shape.kind == "Shape" and len(shape.inputs) == 1
    inner = makers.get(shape.inputs[0]) if shape is not None and of_product else None
    return inner is not None and inner.kind == "ReduceProd" and value.size == 1 and float(value[0]) == 1.0


def _product(
    node: TrainedNode, makers: Mapping[str, TrainedNode], constants: Mapping[str, Array]
) -> tuple[str, FeatureTerm] | None:
    """The row and the places in it that a ReduceProd of chosen columns [1, columns] multiplies."""
    if node.kind != "ReduceProd" or node.attributes.get("keepdims", 1) != 1 or not node.inputs:
        return None
    given = constants.get(node.inputs[1]) if len(node.inputs) > 1 else np.asarray(node.attributes.get("axes", ()))
    chosen = makers.get(node.inputs[0])
    if given is None or given.reshape(-1).tolist() not in ([1], [-1]) or chosen is None or chosen.kind != "Gather":
        return None
    places = constants.get(chosen.inputs[1]) if len(chosen.inputs) == 2 else None
    if places is None or places.ndim != 1 or not places.size or places.dtype.kind not in "iu":
        return None
    if chosen.attributes.get("axis") not in (1, -1):
        return None
    return chosen.inputs[0], tuple(int(place) for place in places)


def _rows(
    node: TrainedNode, source: str, terms: Sequence[FeatureTerm], constants: dict[str, Array]
) -> list[TrainedNode]:
    """Nodes that make the columns, those of one degree at a time. `constants` gets what they need."""
    nodes, parts = list[TrainedNode](), list[str]()
    for number, (degree, group) in enumerate(groupby(terms, key=len)):
        places = np.array(list(group), dtype=np.int64)
        part = f"{node.output}_terms{number}"
        parts.append(part)
        if degree == 0:
            constants[part] = np.ones((1, len(places)))
            continue
        last = ""
        for place in range(degree):
            chosen = part if degree == 1 else f"{part}_{place}"
            constants[f"{part}_places{place}"] = places[:, place]
            nodes.append(node.in_its_place("Gather", source, f"{part}_places{place}", write=chosen, axis=1))
            if place:
                write = part if place == degree - 1 else f"{part}_of{place + 1}"
                nodes.append(node.in_its_place("Mul", last, chosen, write=write))
                last = write
            else:
                last = chosen
    return [*nodes, node.in_its_place("Concat", *parts, write=node.output, axis=1)]
