"""Probabilities as skl2onnx writes them for SGDClassifier: logistic functions of the classes, step by step, over their sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kilotune.codegen.trained.model import TrainedGraph, TrainedNode


def with_named_shares(graph: TrainedGraph) -> TrainedGraph:
    """The graph with Sigmoid for 1 / (1 + exp(-x)), and NormaliseL1 for such over their sum (with guards for a sum of 0, where all shares
    are made equal): neither changes which class has the largest score. Shares of a whole are not divided by their sum again."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    if len(makers) < sum(len(node.outputs) for node in graph.nodes):
        return graph
    nodes = []
    for node in graph.nodes:
        made = _logistic(graph, makers, node) or _share(graph, makers, node) or _whole(graph, makers, node) or node
        nodes.append(made)
        makers[made.output] = made
    return replace(graph, nodes=tuple(nodes))


def _logistic(graph: TrainedGraph, makers: Mapping[str, TrainedNode], node: TrainedNode) -> TrainedNode | None:
    """Reciprocal of 1 + exp(-1 * x) as Sigmoid."""
    if node.kind != "Reciprocal" or len(node.inputs) != 1:
        return None
    exponential = makers.get(_beside(graph, makers.get(node.inputs[0]), "Add", 1.0))
    if exponential is None or exponential.kind != "Exp" or len(exponential.inputs) != 1:
        return None
    read = _beside(graph, makers.get(exponential.inputs[0]), "Mul", -1.0)
    return node.in_its_place("Sigmoid", read) if read else None


def _beside(graph: TrainedGraph, node: TrainedNode | None, kind: str, level: float) -> str:
    """The operand of an Add or Mul whose other one is that constant; "" for any other node."""
    if node is None or node.kind != kind or len(node.inputs) != 2:
        return ""
    for name, other in (node.inputs, node.inputs[::-1]):
        constant = graph.constants.get(other)
        if constant is not None and constant.size == 1 and constant.reshape(-1)[0] == level:
            return name
    return ""


def _share(graph: TrainedGraph, makers: Mapping[str, TrainedNode], node: TrainedNode) -> TrainedNode | None:
    """(p + empty) / (sum of p + empty * count) as NormaliseL1 of p, where `empty` is 1 for a sum of 0, else 0."""
    if node.kind != "Div" or len(node.inputs) != 2:
        return None
    above, below = (makers.get(name) for name in node.inputs)
    if (
        above is None
        or below is None
        or {above.kind, below.kind} != {"Add"}
        or {len(above.inputs), len(below.inputs)} != {2}
    ):
        return None
    shares, empty = above.inputs
    total = below.inputs[0]
    mask = makers.get(below.inputs[-1])
    summed, logistic = makers.get(total), makers.get(shares)
    if summed is None or summed.inputs[:1] != (shares,) or not _is_of_rows(graph, summed):
        return None
    if logistic is None or logistic.kind != "Sigmoid" or mask is None or mask.kind != "Mul" or empty not in mask.inputs:
        return None
    return node.in_its_place("NormaliseL1", shares) if _is_zero_of(makers, empty, total) else None


def _whole(graph: TrainedGraph, makers: Mapping[str, TrainedNode], node: TrainedNode) -> TrainedNode | None:
    """What divides the results of a Softmax, or (1 - p, p), by their sum of 1, as nothing at all."""
    shares = makers.get(node.inputs[0]) if node.kind == "NormaliseL1" and node.inputs else None
    if shares is None:
        return None
    of_one = shares.kind == "Softmax" and shares.attributes.get("axis", -1) in (1, -1) and len(graph.input_shape) == 2
    if shares.kind == "Concat" and len(shares.inputs) == 2 and shares.attributes.get("axis") in (1, -1):
        no = makers.get(shares.inputs[0])
        of_one = no is not None and no.kind == "Sub" and no.inputs[1:] == (shares.inputs[1],)
        one = graph.constants.get(no.inputs[0]) if no is not None and of_one else None
        of_one = one is not None and one.size == 1 and float(one.reshape(-1)[0]) == 1.0
    return node.in_its_place("Identity", node.inputs[0]) if of_one else None


def _is_of_rows(graph: TrainedGraph, node: TrainedNode) -> bool:
    """Whether a node sums the elements of each row [1, elements]."""
    if node.kind != "ReduceSum" or len(graph.input_shape) != 2:
        return False
    given = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    axes = list(node.attributes.get("axes", ())) if given is None else given.reshape(-1).tolist()
    return axes in ([1], [-1])


def _is_zero_of(makers: Mapping[str, TrainedNode], name: str, total: str) -> bool:
    """Whether a value is Cast(Not(Cast(total)))."""
    for kind in ("Cast", "Not", "Cast"):
        maker = makers.get(name)
        if maker is None or maker.kind != kind or len(maker.inputs) != 1:
            return False
        name = maker.inputs[0]
    return name == total
