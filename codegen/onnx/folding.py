"""Per-channel factors and offsets (batch normalisation, constant Mul and Add) taken into the node before them, gates into functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence

from kilotune.codegen.onnx.functions import CLIPPED_LINE
from kilotune.codegen.onnx.graph import (
    AffineNode,
    ClipNode,
    ConvNode,
    FunctionNode,
    Graph,
    Node,
    ProductNode,
    UnknownArray,
    known,
)


def fold(graph: Graph, layouts: Mapping[str, Hashable]) -> Graph:
    """A network that computes what `graph` does with fewer nodes. layouts: by tensor, how its elements lie in the file; the file's own
    nodes go on around what is folded, so it stays apart from tensors that lie otherwise (behind a Transpose or a Reshape).

    An Affine whose operand is written by a Conv or an Affine, and read by nothing else, is merged into that node, which
    then writes the Affine's output. So is a product of a tensor and a function of it that nothing else reads. A line between limits
    (Affine and Clip, as exporters write the gate of HardSwish) is such a function, and a positive factor behind that product goes into
    it. Nodes that no output needs are left out.
    """
    folded: dict[str, str] = {}
    readers = graph.readers()
    kept: dict[str, Node] = {}
    for node in graph.nodes:
        merged, gone = _with_operands(node, kept, readers, graph)
        if any(layouts.get(name) != layouts.get(node.output) for name in gone):
            merged, gone = node, ()
        for name in gone:
            del kept[name]
        kept[node.output] = merged
        folded = {old: node.output if new in gone else new for old, new in folded.items()}
        folded.update(dict.fromkeys(gone, node.output))
    nodes = _needed(graph.output_tensors, list(kept.values()))
    names = {graph.input, *(n.output for n in nodes)}
    shapes = {name: shape for name, shape in graph.shapes.items() if name in names}
    return dataclasses.replace(graph, nodes=nodes, shapes=shapes, folded=folded)


def _with_operands(
    node: Node, kept: Mapping[str, Node], readers: Mapping[str, Sequence[Node]], graph: Graph
) -> tuple[Node, tuple[str, ...]]:
    """One node for this one and those that write its operands, and the outputs of those; itself, and none, where they stay apart."""
    source = kept.get(node.inputs[0])
    if isinstance(node, AffineNode) and source is not None and _alone(source.output, readers, graph):
        if isinstance(source, ConvNode | AffineNode):
            return _merged(source, node), (source.output,)
        scaled = _scaled_line(source, node)
        return (node, ()) if scaled is None else (scaled, (source.output,))
    if isinstance(node, ProductNode):
        line, gone = _line(node, kept)
        if line is None and (gate := _gate(node, kept)) is not None:
            line, gone = dataclasses.replace(gate, output=node.output, gated=True), (gate.output,)
        if line is not None and all(_alone(name, readers, graph) for name in gone):
            return line, gone
    return node, ()


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


def _line(product: ProductNode, kept: Mapping[str, Node]) -> tuple[FunctionNode | None, tuple[str, ...]]:
    """x * clip(slope * x + offset, low, high) as one function, and the outputs of the nodes that it takes the place of."""
    for gate, argument in (product.inputs, product.inputs[::-1]):
        clip = kept.get(gate)
        affine = kept.get(clip.inputs[0]) if isinstance(clip, ClipNode) else None
        if isinstance(clip, ClipNode) and isinstance(affine, AffineNode) and affine.inputs == (argument,):
            numbers = _numbers(affine)
            if numbers is not None:
                parameters = (*numbers, clip.low, clip.high)
                function = FunctionNode((argument,), product.output, CLIPPED_LINE, parameters, gated=True)
                return function, (affine.output, clip.output)
    return None, ()


def _numbers(affine: AffineNode) -> tuple[float, float] | None:
    """The factor and the offset where they are the same for all channels, and known."""
    if isinstance(affine.scale, UnknownArray) or isinstance(affine.offset, UnknownArray):
        return None
    scale, offset = affine.scale.reshape(-1), affine.offset.reshape(-1)
    same = (scale == scale[0]).all() and (offset == offset[0]).all()
    return (float(scale[0]), float(offset[0])) if same else None


def _scaled_line(source: Node, affine: AffineNode) -> FunctionNode | None:
    """A gated line times a positive factor, which its limits take as well."""
    if not isinstance(source, FunctionNode) or source.function != CLIPPED_LINE or not source.gated:
        return None
    factor, offset = _numbers(affine) or (0.0, 0.0)
    if factor <= 0 or offset:
        return None
    parameters = tuple(p * factor for p in source.parameters)
    return FunctionNode(source.inputs, affine.output, CLIPPED_LINE, parameters, gated=True)


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
