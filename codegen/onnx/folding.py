"""Per-channel factors and offsets (batch normalisation, constant Mul and Add) taken into the node before them, gates into functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kilotune.codegen.onnx.graph import (
    AffineNode,
    ConvNode,
    FunctionNode,
    Graph,
    Node,
    ProductNode,
    UnknownArray,
    known,
)


def fold(graph: Graph) -> Graph:
    """A network that computes what `graph` does with fewer nodes.

    An Affine whose operand is written by a Conv or an Affine, and read by nothing else, is merged into that node, which
    then writes the Affine's output. So is a product of a tensor and a function of it that nothing else reads. Nodes that no
    output needs are left out.
    """
    folded: dict[str, str] = {}
    readers = graph.readers()
    kept: dict[str, Node] = {}
    for node in graph.nodes:
        source = kept.get(node.inputs[0])
        alone = _alone(node.inputs[0], readers, graph)
        if isinstance(node, AffineNode) and isinstance(source, ConvNode | AffineNode) and alone:
            del kept[source.output]
            kept[node.output] = _merged(source, node)
            folded = {old: node.output if new == source.output else new for old, new in folded.items()}
            folded[source.output] = node.output
        elif isinstance(node, ProductNode) and (gate := _gate(node, kept)) and _alone(gate.output, readers, graph):
            del kept[gate.output]
            kept[node.output] = dataclasses.replace(gate, output=node.output, gated=True)
            folded[gate.output] = node.output
        else:
            kept[node.output] = node
    nodes = _needed(graph.output_tensors, list(kept.values()))
    names = {graph.input, *(n.output for n in nodes)}
    shapes = {name: shape for name, shape in graph.shapes.items() if name in names}
    return dataclasses.replace(graph, nodes=nodes, shapes=shapes, folded=folded)


def _alone(name: str, readers: Mapping[str, Sequence[Node]], graph: Graph) -> bool:
    """Whether one node reads the tensor, and nobody else."""
    return len(readers[name]) == 1 and name not in graph.output_tensors


def _gate(product: ProductNode, kept: Mapping[str, Node]) -> FunctionNode | None:
    """The operand that is a function of the other one."""
    for gate, argument in (product.inputs, product.inputs[::-1]):
        node = kept.get(gate)
        if isinstance(node, FunctionNode) and not node.gated and node.inputs == (argument,):
            return node
    return None


def _merged(source: ConvNode | AffineNode, affine: AffineNode) -> Node:
    if isinstance(affine.scale, UnknownArray):  # so is what it is merged with: a graph has all of its weights or none
        return dataclasses.replace(source, output=affine.output)
    scale, offset = affine.scale, known(affine.offset)
    if isinstance(source, ConvNode):
        unscaled = known(source.weight)
        weight = (unscaled * scale[:, None, None, None]).astype(unscaled.dtype)
        bias = known(source.bias) * scale + offset
        return dataclasses.replace(source, weight=weight, bias=bias, output=affine.output)
    return AffineNode(source.inputs, affine.output, known(source.scale) * scale, known(source.offset) * scale + offset)


def _needed(outputs: Sequence[str], nodes: list[Node]) -> tuple[Node, ...]:
    wanted, found = set(outputs), list[Node]()
    for node in reversed(nodes):
        if node.output in wanted:
            wanted.update(node.inputs)
            found.append(node)
    return tuple(reversed(found))
