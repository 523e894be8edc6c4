"""Functions of a concatenation, computed where its parts are written.

A pointwise node that reads a concatenation has no core to run on but one of its own, which all parts are sent to and which sends on as
much again: in a dense network a third of the cores and more than half of the traffic. Channel by channel it computes the same on every part
by itself, at the end of the partition that writes it; its reader then reads a concatenation of the results. As streams are not shared
between readers, a part that goes to several readers costs no more on links where it goes to each in another form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from kilotune.codegen.onnx.graph import (
    VIEWS,
    AffineNode,
    ClipNode,
    ConcatNode,
    Graph,
    Node,
    ReluNode,
    ShiftNode,
    TableNode,
    TensorShape,
    UnknownArray,
    Weights,
)

ONE_OPERAND = (AffineNode, ClipNode, ReluNode, ShiftNode, TableNode)
"""Pointwise nodes of an integer graph that read one tensor."""


def distributed(graph: Graph) -> Graph:
    """The network with every pointwise node of one operand, a concatenation of tensors that nodes write, as one node for each of these
    and a concatenation of what they write, under the name that it had. Every tensor of the network keeps its values. A concatenation
    with the network's input in it stays as it is, for GMEM computes nothing; so does one of some channels or pixels of a tensor."""
    parts: dict[str, tuple[str, ...]] = {}
    nodes: list[Node] = []
    written: set[str] = set()
    shapes: dict[str, TensorShape] = dict(graph.shapes)
    bounds = None if graph.bounds is None else dict(graph.bounds)
    for node in graph.nodes:
        if isinstance(node, ConcatNode):
            whole = tuple(part for name in node.inputs for part in parts.get(name, (name,)))
            if written.issuperset(whole) and len(whole) > 1:
                parts[node.output] = whole
        elif isinstance(node, ONE_OPERAND) and node.inputs[0] in parts:
            names, first = [], 0
            for part in parts[node.inputs[0]]:
                channels, high, wide = shapes[part]
                name = _free_name(f"{node.output}/{part}", shapes)
                nodes.append(_on_channels(node, first, first + channels, part, name))
                shapes[name] = (channels, high, wide)
                if bounds is not None:
                    bounds[name] = bounds[node.output]
                names.append(name)
                first += channels
            parts[node.output] = tuple(names)
            written.update(names)
            nodes.append(ConcatNode(tuple(names), node.output))
            continue
        elif not isinstance(node, VIEWS):
            written.add(node.output)
        nodes.append(node)
    return dataclasses.replace(graph, nodes=tuple(nodes), shapes=shapes, bounds=bounds)


def _on_channels(node: Node, first: int, last: int, part: str, output: str) -> Node:
    """What a node does with channels [first, last) of its operand."""
    own, cut = slice(first, last), node
    match node:
        case AffineNode():
            cut = dataclasses.replace(node, scale=_cut(node.scale, own), offset=_cut(node.offset, own))
        case TableNode() if len(node.table.shape) == 2:
            cut = dataclasses.replace(node, table=_cut(node.table, own))
        case ShiftNode(right=right) if isinstance(right, np.ndarray):
            cut = dataclasses.replace(node, right=right[own])
        case _:
            pass  # alike for all channels
    return dataclasses.replace(cut, inputs=(part,), output=output)


def _cut(values: Weights, own: slice) -> Weights:
    """Those of some channels, the first axis."""
    if isinstance(values, UnknownArray):
        return UnknownArray((own.stop - own.start, *values.shape[1:]))
    return values[own]


def _free_name(name: str, taken: Collection[str]) -> str:
    """One that no tensor has."""
    while name in taken:
        name += "'"
    return name
