"""Operators of an ONNX file that hang on constants alone are constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.folded import FOLDED
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

MOST_COMPUTED = 1 << 20
"""Elements of constants that are computed beforehand: an operator that makes more of them is left to conversion, which refuses it."""


def with_constants(graph: TrainedGraph) -> TrainedGraph:
    """The graph with the results of operators that only move or count constants, and the shape of its input, among its constants."""
    return _with_results(graph, _folded)


def with_executed_constants(graph: TrainedGraph) -> TrainedGraph:
    """The graph with the results of all operators that read nothing but constants among its constants, by ONNX's reference implementation.

    An operator that cannot be executed stays, and conversion says why.
    """
    return _with_results(graph, _executed)


def _with_results(
    graph: TrainedGraph, execute: Callable[[TrainedNode, Sequence[Array]], Sequence[Array]]
) -> TrainedGraph:
    constants, nodes = dict(graph.constants), list[TrainedNode]()
    for node in graph.nodes:
        results = None if node.refusal else _results(graph, constants, node, execute)
        if results is None:
            nodes.append(node)
        else:
            constants.update({name: array for name, array in zip(node.outputs, results, strict=True) if name})
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _results(
    graph: TrainedGraph,
    constants: dict[str, Array],
    node: TrainedNode,
    execute: Callable[[TrainedNode, Sequence[Array]], Sequence[Array]],
) -> Sequence[Array] | None:
    """What an operator writes, where that is constant."""
    if node.kind == "Shape" and node.inputs == (graph.input_name,):
        start, end = node.attributes.get("start"), node.attributes.get("end")
        return [np.asarray(graph.input_shape, dtype=np.int64)[slice(start, end)]]
    operands = [constants[name] for name in node.inputs if name in constants]
    if len(operands) < sum(1 for name in node.inputs if name) or "." in node.kind:
        return None
    try:
        with np.errstate(all="ignore"):  # what becomes of it is looked at where it is used
            return execute(node, operands) or None
    except Exception:  # of a damaged file anything may be raised, and conversion says what is wrong
        return None


def _folded(node: TrainedNode, operands: Sequence[Array]) -> Sequence[Array]:
    """Where conversion knows the operator on constants."""
    return [np.asarray(FOLDED[node.kind](node.attributes, operands))] if node.kind in FOLDED else []


def _executed(node: TrainedNode, operands: Sequence[Array]) -> Sequence[Array]:
    """By the reference implementation, but for operators of which conversion knows more than it does: what it must refuse."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    if node.kind in FOLDED or not operands or sum(operand.size for operand in operands) > MOST_COMPUTED:
        return []
    names = [name for name in node.inputs if name]
    made = helper.make_node(node.kind, list(node.inputs), list(node.outputs), **node.attributes)
    values = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape)
              for name, operand in zip(names, operands, strict=True)]  # fmt: skip
    results = [helper.make_empty_tensor_value_info(name) for name in node.outputs if name]
    body = helper.make_graph([made], "constant", values, results)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", node.opset)])
    found = iter(ReferenceEvaluator(model).run(None, dict(zip(names, operands, strict=True))))
    return [np.asarray(next(found)) if name else np.zeros(0) for name in node.outputs]
