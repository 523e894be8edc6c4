"""Zero points that an ONNX file leaves out: none of the integers' own type. What type that is, is said elsewhere, or follows from what made
the integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.between_grids import KEEPING
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

LIKE = "like"
"""The attribute of a QuantizeLinear that names integers whose type its own have, where nothing else says it. No file has it."""

MOVING = KEEPING | {"Pad", "Concat"}
"""Operators whose results are integers of their operand's type."""


def with_zero_points(graph: TrainedGraph) -> TrainedGraph:
    """The graph, each QuantizeLinear and DequantizeLinear with a zero point, as far as the type of its integers is known."""
    constants, nodes = dict(graph.constants), list[TrainedNode]()
    types: dict[str, np.dtype] = {name: array.dtype for name, array in constants.items()}
    for node in graph.nodes:
        if node.kind in ("QuantizeLinear", "DequantizeLinear") and len(node.inputs) > 1:
            made = _type_of(node, types)
            if not node.inputs[2:3] or not node.inputs[2]:
                node = _with_none(node, made, constants)
            if node.kind == "QuantizeLinear" and made is not None:
                types[node.output] = made
        elif node.kind in MOVING and node.inputs[0:1] and node.inputs[0] in types:
            types.update(dict.fromkeys(node.outputs, types[node.inputs[0]]))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _type_of(node: TrainedNode, types: dict[str, np.dtype]) -> np.dtype | None:
    """The type of the integers that a node makes, or reads; None where nothing says it."""
    if node.inputs[2:3] and node.inputs[2]:
        return types.get(node.inputs[2])
    if node.kind == "DequantizeLinear":
        return types.get(node.inputs[0])
    if LIKE in node.attributes:
        return types.get(node.attributes[LIKE])
    declared = node.attributes.get("output_dtype", 0)
    return _declared(declared) if declared else np.dtype(np.uint8)


def _declared(number: object) -> np.dtype | None:
    """The type that a file means by a number; None for numbers that it has no type for."""
    from onnx import helper

    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError):
        return None


def _with_none(node: TrainedNode, kind: np.dtype | None, constants: dict[str, Array]) -> TrainedNode:
    if kind is None:
        return replace(
            node, refusal=node.refusal or "expected a zero point, which says the type of integers, found none"
        )
    name = f"{node.output}/no zero point"
    constants[name] = np.zeros((), kind)
    return replace(node, inputs=(*node.inputs[:2], name))
