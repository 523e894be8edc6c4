"""Operators of an ONNX file that hang on constants alone are constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.folded import FOLDED
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

MOST_COMPUTED = 1 << 20
"""Elements of constants that are computed beforehand: an operator that makes more of them is left to conversion, which refuses it."""


SAME_SHAPE = frozenset(("BatchNormalization", "Cast", "Clip", "Identity", "Relu", "Sigmoid", "Tanh"))
"""Results of the shape of the first operand."""


def with_constants(graph: TrainedGraph, besides: frozenset[str] = frozenset()) -> TrainedGraph:
    """The graph with the results of operators that only move or count constants, and the shape of its input, among its constants. Operators
    of the kinds `besides` stay."""

    def execute(node: TrainedNode, operands: Sequence[Array]) -> Sequence[Array]:
        return () if node.kind in besides else _folded(node, operands)

    return _with_results(graph, execute)


def with_executed_constants(graph: TrainedGraph) -> TrainedGraph:
    """The graph with the results of all operators that read nothing but constants among its constants, by ONNX's reference implementation.

    An operator that cannot be executed stays, and conversion says why.
    """
    return _with_results(graph, _executed)


def _with_results(
    graph: TrainedGraph, execute: Callable[[TrainedNode, Sequence[Array]], Sequence[Array]]
) -> TrainedGraph:
    constants, nodes = dict(graph.constants), list[TrainedNode]()
    shapes = {graph.input_name: graph.input_shape}
    for node in graph.nodes:
        results = None if node.refusal else _results(shapes, constants, node, execute)
        if results is None or len(results) != len(node.outputs):  # of the latter conversion says what is wrong
            nodes.append(node)
            _note_shape(shapes, constants, node)
        else:
            constants.update({name: array for name, array in zip(node.outputs, results, strict=True) if name})
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _note_shape(shapes: dict[str, tuple[int, ...]], constants: Mapping[str, Array], node: TrainedNode) -> None:
    """The shape of what scalers, functions and transpositions make of the input, as far as it is plain."""
    given = next((shapes[name] for name in node.inputs if name in shapes), None)
    others = [constants[name].shape for name in node.inputs if name in constants]
    if given is None or len(node.outputs) != 1:
        return
    if node.kind in SAME_SHAPE:
        shapes[node.output] = given
    elif node.kind == "Transpose" and sorted(perm := np.ravel(node.attributes.get("perm", ()))) == [*range(len(given))]:
        shapes[node.output] = tuple(given[axis] for axis in perm)
    elif node.kind in ("Add", "Sub", "Mul", "Div") and len(others) == 1:
        try:
            shapes[node.output] = np.broadcast_shapes(given, others[0])
        except ValueError:
            return  # conversion says so


def _results(
    shapes: Mapping[str, tuple[int, ...]],
    constants: dict[str, Array],
    node: TrainedNode,
    execute: Callable[[TrainedNode, Sequence[Array]], Sequence[Array]],
) -> Sequence[Array] | None:
    """What an operator writes, where that is constant."""
    if node.kind == "Shape" and len(node.inputs) == 1 and node.inputs[0] in shapes:
        start, end = node.attributes.get("start"), node.attributes.get("end")
        return [np.asarray(shapes[node.inputs[0]], dtype=np.int64)[slice(start, end)]]
    operands = [constants[name] for name in node.inputs if name in constants]
    if len(operands) < sum(1 for name in node.inputs if name) or "." in node.kind:
        return None
    results = _guarded(node, operands, execute)
    return results if results is not None and len(results) == len(node.outputs) else None


def constant_results(node: TrainedNode, operands: Sequence[Array]) -> Sequence[Array] | None:
    """What an operator writes whose operands are these constants, in 64-bit floats where they are floats of several widths; None where it
    cannot be executed."""
    if len({operand.dtype for operand in operands if operand.dtype.kind == "f"}) > 1:
        operands = [operand.astype(np.float64) if operand.dtype.kind == "f" else operand for operand in operands]
    return _guarded(node, operands, _folded) or _guarded(node, operands, _executed)


def _guarded(
    node: TrainedNode, operands: Sequence[Array], execute: Callable[[TrainedNode, Sequence[Array]], Sequence[Array]]
) -> Sequence[Array] | None:
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
