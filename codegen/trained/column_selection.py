"""Columns of features that are chosen, put in another order and scaled in parts, before the first product: its weights take that over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import Array, IntArray
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

MOST_COLUMNS = 1 << 16
"""Wider rows are left to the operators that make them."""


@dataclass(frozen=True, eq=False)
class ChosenColumns:
    """A row [1, columns] whose element i is `factor[i] * features[place[i]] + offset[i]`."""

    place: IntArray
    factor: RealArray
    offset: RealArray


def with_columns_in_weights(graph: TrainedGraph) -> TrainedGraph:
    """The graph in which products of chosen columns are products of all features, with weights of 0 for those that are left out, and other
    operators read one row that is made in one go. A graph that neither chooses nor puts together columns, nor multiplies scaled ones by a
    vector, is left as it is."""
    rows = _rows(graph)
    if not any(_is_reason(node, rows, graph.constants) for node in graph.nodes):
        return graph
    nodes, constants, needed = list[TrainedNode](), dict(graph.constants), set(graph.outputs)
    kept = [node for node in graph.nodes if node.output not in rows]
    for node in kept:
        weights = _weights(node, rows, constants)
        if weights is None:
            needed.update(node.inputs)
    for node in graph.nodes:
        weights = _weights(node, rows, constants)
        if (
            weights is not None
            and node.inputs[0] in needed
            and weights.shape[1:]
            and len(weights) <= graph.input_shape[1]
        ):
            weights = None  # the row is made anyway, and is no longer than the features
        if node.output in rows:
            made = _row(node, rows[node.output], graph.input_name, constants) if node.output in needed else []
        elif weights is not None:
            made = _product(node, rows[node.inputs[0]], weights, graph, constants)
        else:
            made = [node]
        nodes += made
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _is_reason(node: TrainedNode, rows: Mapping[str, ChosenColumns], constants: Mapping[str, Array]) -> bool:
    if node.output in rows:
        return node.kind in ("Gather", "Concat")
    weights = _weights(node, rows, constants)
    return weights is not None and weights.ndim == 1


def _rows(graph: TrainedGraph) -> dict[str, ChosenColumns]:
    """The values of the file that are such rows."""
    shape, written = graph.input_shape, [graph.input_name, *(name for node in graph.nodes for name in node.outputs)]
    if len(shape) != 2 or shape[0] != 1 or len(set(written)) < len(written):
        return {}
    rows = {graph.input_name: ChosenColumns(np.arange(shape[1]), np.ones(shape[1]), np.zeros(shape[1]))}
    for node in graph.nodes:
        made = None if node.refusal else _of_node(node, rows, graph.constants)
        if made is not None and len(made.place) <= MOST_COLUMNS:
            rows[node.output] = made
    return rows


def _of_node(
    node: TrainedNode, rows: Mapping[str, ChosenColumns], constants: Mapping[str, Array]
) -> ChosenColumns | None:
    """What a node makes of rows; None for another operator, and for what is not a row."""
    if node.kind in ("Add", "Sub", "Mul", "Div") and len(node.inputs) == 2:
        return _scaled(node, rows, constants)
    parts = [rows[name] for name in node.inputs[: 1 if node.kind == "Gather" else None] if name in rows]
    if not parts or (node.kind != "Gather" and len(parts) != len(node.inputs)):
        return None
    if node.kind == "Identity" or (node.kind == "Cast" and _stays_real(node)):
        return parts[0]
    if node.kind == "Concat" and node.attributes.get("axis") in (1, -1):
        return ChosenColumns(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ChosenColumns.__annotations__)
        )
    places = constants.get(node.inputs[1]) if node.kind == "Gather" and len(node.inputs) == 2 else None
    if places is None or node.attributes.get("axis") not in (1, -1):
        return None
    return _chosen(parts[0], places)


def _chosen(row: ChosenColumns, places: Array) -> ChosenColumns | None:
    count = len(row.place)
    if places.ndim != 1 or not places.size or places.dtype.kind not in "iu":
        return None
    if places.min() < -count or places.max() >= count:
        return None
    return ChosenColumns(row.place[places], row.factor[places], row.offset[places])


def _stays_real(node: TrainedNode) -> bool:
    from onnx import TensorProto

    return node.attributes.get("to") in (TensorProto.FLOAT, TensorProto.DOUBLE)


def _scaled(
    node: TrainedNode, rows: Mapping[str, ChosenColumns], constants: Mapping[str, Array]
) -> ChosenColumns | None:
    """A row with constants added, or multiplied by them."""
    turned = node.inputs[0] in constants
    named, given = node.inputs[::-1] if turned else node.inputs
    row, values = rows.get(named), constants.get(given)
    if row is None or values is None or values.dtype.kind not in "fiu" or (turned and node.kind == "Div"):
        return None
    shape = (1, len(row.place))
    if values.ndim > 2 or values.shape[:-1] not in ((), (1,)) or values.shape[-1:] not in ((), (1,), shape[1:]):
        return None
    level = np.broadcast_to(np.asarray(values, dtype=np.float64), shape)[0]
    if not np.isfinite(level).all() or (node.kind == "Div" and not level.all()):
        return None
    if node.kind in ("Mul", "Div"):
        by = level if node.kind == "Mul" else 1.0 / level
        return replace(row, factor=row.factor * by, offset=row.offset * by)
    sign = -1.0 if node.kind == "Sub" and turned else 1.0
    added = -level if node.kind == "Sub" and not turned else level
    return replace(row, factor=sign * row.factor, offset=sign * row.offset + added)


def _weights(node: TrainedNode, rows: Mapping[str, ChosenColumns], constants: Mapping[str, Array]) -> RealArray | None:
    """[columns, ..] of a product that takes such a row; None for another node, and for weights that do not fit."""
    if node.kind not in ("Gemm", "MatMul") or len(node.inputs) < 2 or node.inputs[0] not in rows:
        return None
    given = constants.get(node.inputs[1])
    if given is None or given.dtype.kind not in "fiu" or given.ndim not in ((2,) if node.kind == "Gemm" else (1, 2)):
        return None
    if node.attributes.get("transA") or not isinstance(node.attributes.get("alpha", 1.0), int | float):
        return None
    weights = np.asarray(given.T if node.attributes.get("transB") else given, dtype=np.float64)
    return weights if len(weights) == len(rows[node.inputs[0]].place) else None


def _product(
    node: TrainedNode, row: ChosenColumns, weights: RealArray, graph: TrainedGraph, constants: dict[str, Array]
) -> list[TrainedNode]:
    """The product of all features. `constants` gets its weights."""
    whole = np.zeros((graph.input_shape[1], *weights.shape[1:]))
    np.add.at(whole, row.place, (row.factor * weights.T).T)
    alpha = node.attributes.get("alpha", 1.0)
    names = [f"{node.output}_all_weights", f"{node.output}_moved"]
    constants[names[0]] = whole
    attributes = {key: value for key, value in node.attributes.items() if key != "transB"}
    made = replace(node, inputs=(graph.input_name, names[0], *node.inputs[2:]), attributes=attributes)
    if not row.offset.any():
        return [made]
    constants[names[1]] = alpha * (row.offset @ weights)
    unmoved = f"{node.output}_unmoved"
    return [replace(made, outputs=(unmoved,)), node.in_its_place("Add", unmoved, names[1])]


def _row(node: TrainedNode, row: ChosenColumns, features: str, constants: dict[str, Array]) -> list[TrainedNode]:
    """Nodes that make the row. `constants` gets what they need."""
    steps: list[tuple[str, Array]] = [("Gather", row.place), ("Mul", row.factor), ("Add", row.offset)]
    nodes, last = list[TrainedNode](), features
    for kind, values in steps:
        given, made = f"{node.output}_{kind}_with", node.output if kind == "Add" else f"{node.output}_{kind}"
        constants[given] = values
        nodes.append(node.in_its_place(kind, last, given, write=made, **({"axis": 1} if kind == "Gather" else {})))
        last = made
    return nodes
