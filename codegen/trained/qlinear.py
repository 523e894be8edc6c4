"""Operators of quantised ONNX files that take integers and return integers (QLinearConv, QLinearAdd, QGemm, ..), as what they stand for:
DequantizeLinear, the operator on real numbers, QuantizeLinear.

Sources: ONNX's QLinearConv and QLinearMatMul, and the operators of ONNX Runtime's own domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType, UnionType

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.zero_points import LIKE

DOMAIN = "com.microsoft."


@dataclass(frozen=True)
class _Signature:
    """Where the operands stand: `kind` on real numbers, `tensors` behind which a scale and a zero point follow, the scale of the result,
    behind which its zero point follows, and a bias of 32 bits."""

    kind: str
    tensors: tuple[int, ...]
    result: int
    bias: int | None = None


_UNARY = ("AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Softmax")

SIGNATURES: Mapping[str, _Signature] = MappingProxyType(
    {
        "QLinearConv": _Signature("Conv", (0, 3), 6, bias=8),
        "QLinearMatMul": _Signature("MatMul", (0, 3), 6),
        f"{DOMAIN}QGemm": _Signature("Gemm", (0, 3), 7, bias=6),
        f"{DOMAIN}QLinearAdd": _Signature("Add", (0, 3), 6),
        f"{DOMAIN}QLinearMul": _Signature("Mul", (0, 3), 6),
        **{f"{DOMAIN}QLinear{kind}": _Signature(kind, (0,), 3) for kind in _UNARY},
    }
)
"""By the names of files. QLinearConcat has any number of tensors."""

CONCAT = f"{DOMAIN}QLinearConcat"

_ATTRIBUTES: Mapping[str, type | UnionType] = MappingProxyType({"alpha": int | float, "axis": int, "opset": int})


def with_real_operators(graph: TrainedGraph) -> TrainedGraph:
    """The graph without such operators. One whose operands are not as stated stays, and conversion refuses it."""
    constants, nodes = dict(graph.constants), list[TrainedNode]()
    for node in graph.nodes:
        signature = _signature(node)
        expanded = None if signature is None else list(_expanded(node, signature, constants))
        nodes += [node] if expanded is None else expanded
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _signature(node: TrainedNode) -> _Signature | None:
    """None for other operators, and for one that lacks operands, has attributes of other types, or has its channels last."""
    if node.kind == CONCAT:
        found = _Signature("Concat", tuple(range(2, len(node.inputs), 3)), 0)
    elif node.kind in SIGNATURES:
        found = SIGNATURES[node.kind]
    else:
        return None
    needed = max(found.result + 1, *(place + 3 for place in found.tensors))
    typed = all(isinstance(node.attributes.get(name, 1), kind) for name, kind in _ATTRIBUTES.items())
    return found if len(node.inputs) >= needed and typed and not node.attributes.get("channels_last", 0) else None


def _expanded(node: TrainedNode, signature: _Signature, constants: dict[str, Array]) -> Iterator[TrainedNode]:
    reals = []
    for number, place in enumerate(signature.tensors):
        write = f"{node.output}/real {number}"
        axis = 0
        if signature.kind == "MatMul" or (signature.kind == "Gemm" and not node.attributes.get("transB")):
            weights = constants.get(node.inputs[place])
            axis = 1 if weights is None else max(weights.ndim - 1, 0)
        yield node.in_its_place("DequantizeLinear", *node.inputs[place : place + 3], write=write, axis=axis)
        reals.append(write)
    if signature.bias is not None and len(node.inputs) > signature.bias and node.inputs[signature.bias]:
        scales = [constants.get(node.inputs[place + 1]) for place in signature.tensors]
        if all(scale is not None for scale in scales):
            product = np.multiply(*(np.asarray(scale, np.float32).reshape(-1) for scale in scales))
            product = product * np.float32(node.number("alpha", 1.0))  # QGemm's, which is a factor of the bias, too
            name, write = f"{node.output}/bias scale", f"{node.output}/bias"
            constants[name] = product[0] if product.size == 1 else product
            bias = constants.get(node.inputs[signature.bias])
            axis = 0 if bias is None or not bias.ndim else bias.ndim - 1  # QGemm's may be a row
            yield node.in_its_place("DequantizeLinear", node.inputs[signature.bias], name, write=write, axis=axis)
            reals.append(write)
    result = f"{node.output}/real"
    real = replace(node, kind=signature.kind, inputs=tuple(reals), outputs=(result,), opset=13)
    if signature.kind == "Softmax":  # the operator has the opset that it follows as an attribute
        attributes = {"axis": node.integer("axis", -1)}
        real = replace(real, opset=node.integer("opset", 13), attributes=attributes)
    yield real
    grid = node.inputs[signature.result : signature.result + 2]
    rounding = node.in_its_place("QuantizeLinear", result, *grid, **{LIKE: node.inputs[signature.tensors[0]]})
    # of its own place, by which its operation is found where what it bounds is looked for (`quantised_ends`)
    yield replace(rounding, place=f"{node.place}, the integers of its result")
