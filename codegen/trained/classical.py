"""Operators of classical models (ai.onnx.ml: scalers, linear models, support vectors, names of classes) in terms of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.class_names import ClassName
from kilotune.codegen.onnx.obstacles import CLASSICAL_DOMAIN
from kilotune.codegen.onnx.tree_ensembles import TREE_OPERATORS
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.support_vectors import (
    support_vector_classifier,
    support_vector_regressor,
    with_outlier_labels,
)

DOMAIN = f"{CLASSICAL_DOMAIN}."
"""Before the names of their operators."""

TREES = tuple(f"{DOMAIN}{operator}" for operator in TREE_OPERATORS)

PROBABILITIES_OF = MappingProxyType({"NONE": "Identity", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"})
"""What stands behind scores, by `post_transform`."""

Replacement = tuple[list[TrainedNode], dict[str, Array]]
"""Nodes, and their constants."""


def without_classical(graph: TrainedGraph) -> TrainedGraph:
    """The graph with none of them but those that are refused, and with the classes that its labels stand for."""
    graph = with_outlier_labels(graph)
    nodes, constants, classes = list[TrainedNode](), dict(graph.constants), graph.classes
    for node in graph.nodes:
        kind = node.kind.removeprefix(DOMAIN)
        if node.kind == kind or kind not in REPLACEMENTS:
            nodes.append(node)
            continue
        classes = classes_of(node, constants) or classes
        try:
            chooses = (
                kind == "ArrayFeatureExtractor" and node.inputs[0] not in constants and node.inputs[1] in constants
            )
            made, added = _chosen(node, constants) if chooses else REPLACEMENTS[kind](node)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            found = str(error) if isinstance(error, ValueError) else "others"
            refusal = found if found.startswith("expected ") else f"expected the attributes of {kind}, found {found}"
            made, added = [replace(node, refusal=refusal)], {}
        nodes += made
        constants |= added
    return replace(graph, nodes=tuple(nodes), constants=constants, classes=classes)


def classes_of(node: TrainedNode, constants: Mapping[str, Array]) -> tuple[ClassName, ...]:
    """The classes that a node names, in their order; none for all other nodes."""
    lists = (node.attributes.get(f"classlabels_{kind}") for kind in ("ints", "int64s", "strings"))
    named: Sequence[Any] = next((given for given in lists if isinstance(given, list | tuple) and given), ())
    if not all(isinstance(name, int | str | bytes) for name in named):  # a list of another type than its name says
        return ()
    if node.kind == DOMAIN + "ArrayFeatureExtractor" and node.inputs and node.inputs[0] in constants:
        array = constants[node.inputs[0]].reshape(-1)
        named = array.tolist() if array.dtype.kind in "iuU" else ()
    return tuple(_class_name(name) for name in named)


def _class_name(given: Any) -> ClassName:
    if isinstance(given, bytes):
        return given.decode(errors="replace")
    return given if isinstance(given, str) else int(given)


def _array(node: TrainedNode, name: str) -> Array:
    """A list of numbers. ValueError "expected X, found Y" where it is missing or not finite."""
    values = np.asarray(node.attributes.get(name, ()), dtype=np.float64).reshape(-1)
    if not values.size or not np.isfinite(values).all():
        raise ValueError(f"expected finite {name}, found {'none' if not values.size else 'NaN or infinity'}")
    return values


def _scaler(node: TrainedNode) -> Replacement:
    """(x - offset) * scale."""
    offset, scale = f"{node.output}_offset", f"{node.output}_scale"
    constants: dict[str, Array] = {offset: _array(node, "offset"), scale: _array(node, "scale")}
    moved = f"{node.output}_moved"
    nodes = [
        node.in_its_place("Sub", node.inputs[0], offset, write=moved),
        node.in_its_place("Mul", moved, scale, write=node.output),
    ]
    return nodes, constants


def _linear_regressor(node: TrainedNode) -> Replacement:
    if node.text("post_transform", "NONE") != "NONE":
        raise ValueError(f"expected post_transform NONE, found {node.text('post_transform', 'NONE')}")
    targets = node.integer("targets", 1)
    return _linear(node, _array(node, "coefficients").reshape(targets, -1), node.output)


def _linear(node: TrainedNode, weights: Array, write: str) -> Replacement:
    """weights * x + intercepts."""
    names = [f"{node.output}_weights", f"{node.output}_intercepts"]
    given = node.attributes.get("intercepts")
    intercepts = np.zeros(len(weights)) if given is None or not len(given) else _array(node, "intercepts")
    if intercepts.size != len(weights):
        raise ValueError(f"expected {len(weights)} intercepts, found {intercepts.size}")
    gemm = node.in_its_place("Gemm", node.inputs[0], *names, write=write, transB=1)
    return [gemm], {names[0]: weights, names[1]: intercepts}


def _linear_classifier(node: TrainedNode) -> Replacement:
    """Scores, the label of the largest, and what the file calls probabilities. Two classes whose scores are each other's negative have
    one score, and the label is its sign."""
    after = node.text("post_transform", "NONE")
    if after not in PROBABILITIES_OF:
        raise ValueError(f"expected post_transform {', '.join(PROBABILITIES_OF)}, found {after}")
    labels = node.attributes.get("classlabels_ints") or node.attributes.get("classlabels_strings") or ()
    intercepts = np.asarray(node.attributes.get("intercepts") or [0.0], dtype=np.float64)
    weights = _array(node, "coefficients").reshape(intercepts.size, -1)
    stem, label = node.output, node.outputs[0]
    probabilities = node.outputs[1] if len(node.outputs) > 1 and node.outputs[1] else f"{stem}_probabilities"
    alone = len(labels) == 2 and len(weights) == 1
    opposite = len(weights) == 2 and (weights[0] == -weights[1]).all() and intercepts[0] == -intercepts[1]
    if alone and after != "LOGISTIC":
        return _one_score(node, weights, intercepts, probabilities)
    if alone or (len(labels) == 2 and opposite and after == "LOGISTIC"):
        one = replace(node, attributes={**node.attributes, "intercepts": intercepts[-1:].tolist()})
        nodes, constants = _linear(one, weights[-1:], f"{stem}_score")
        constants[f"{stem}_one"] = np.ones(())
        nodes += [
            node.in_its_place("Sigmoid", f"{stem}_score", write=f"{stem}_likely"),
            node.in_its_place("Sub", f"{stem}_one", f"{stem}_likely", write=f"{stem}_unlikely"),
            node.in_its_place("Concat", f"{stem}_unlikely", f"{stem}_likely", write=probabilities, axis=1),
        ]
    else:
        nodes, constants = _linear(node, weights, f"{stem}_scores")
        nodes.append(node.in_its_place(PROBABILITIES_OF[after], f"{stem}_scores", write=probabilities))
    return [*nodes, node.in_its_place("ArgMax", probabilities, write=label, axis=1)], constants


def _one_score(node: TrainedNode, weights: Array, intercepts: Array, shares: str) -> Replacement:
    """One score s of two classes: the second one where it is above 0; as shares of both onnxruntime returns (1 - s, s)."""
    both = replace(node, attributes={**node.attributes, "intercepts": [-intercepts[0], intercepts[0]]})
    nodes, constants = _linear(both, np.concatenate([-weights, weights]), f"{node.output}_scores")
    constants[f"{node.output}_shift"] = np.asarray([[1.0, 0.0]])
    nodes.append(node.in_its_place("Add", f"{node.output}_scores", f"{node.output}_shift", write=shares))
    return [*nodes, node.in_its_place("ArgMax", f"{node.output}_scores", write=node.outputs[0], axis=1)], constants


def _imputer(node: TrainedNode) -> Replacement:
    """What takes the place of NaN, which integers cannot be. ValueError where other numbers are replaced."""
    replaced = np.float64(node.number("replaced_value_float", np.nan))
    if not np.isnan(replaced):
        raise ValueError(f"expected numbers in the place of NaN, found some in that of {replaced:g}")
    return [node.in_its_place("Identity", node.inputs[0], write=node.output)], {}


def _normalizer(node: TrainedNode) -> Replacement:
    """Behind probabilities it changes no class; among features only the Euclidean one can be computed."""
    kind = {"L2": "NormaliseL2", "L1": "NormaliseL1"}.get(node.text("norm", "MAX"))
    if kind is None:
        raise ValueError(f"expected norm L1 or L2, found {node.text('norm', 'MAX')}")
    return [node.in_its_place(kind, node.inputs[0], write=node.output)], {}


def _chosen(node: TrainedNode, constants: Mapping[str, Array]) -> Replacement:
    """Columns by their places."""
    places = f"{node.output}_places"
    gather = node.in_its_place("Gather", node.inputs[0], places, write=node.output, axis=-1)
    return [gather], {places: constants[node.inputs[1]].reshape(-1)}


def _named(node: TrainedNode) -> Replacement:
    """Names for classes: the numbers stay."""
    return [node.in_its_place("Identity", node.inputs[-1], write=node.output)], {}


REPLACEMENTS: Mapping[str, Callable[[TrainedNode], Replacement]] = MappingProxyType(
    {
        "Scaler": _scaler,
        "LinearRegressor": _linear_regressor,
        "LinearClassifier": _linear_classifier,
        "SVMRegressor": support_vector_regressor,
        "SVMClassifier": support_vector_classifier,
        "Imputer": _imputer,
        "Normalizer": _normalizer,
        "ZipMap": _named,
        "ArrayFeatureExtractor": _named,
    }
)
"""By their names."""
