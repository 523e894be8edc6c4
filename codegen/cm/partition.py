"""Partitions (Section 3.1): at most one operator with a window in each, and no cycles between them.

Nodes are taken in topological order. A convolution starts a partition; so does a pooling, a border or an ArgMax, whose
iterations are not those of a convolution before it: they run on the digital unit of a core without a matrix. A
pointwise node joins the latest partition among those that write its operands, so edges lead from lower to higher
numbers only. Concatenations and channel permutations are views: they cost nothing, and their readers read several
arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.onnx.graph import VIEWS, ClipNode, ConcatNode, Graph, Node, PermuteNode, ShiftNode, window_of

INPUT = -1
"""Stands for the network's input where a partition number is expected."""


@dataclass(frozen=True, eq=False)
class Segment:
    """Channels of a real tensor that hold consecutive channels, from `first`, of a view."""

    tensor: str
    channels: NDArray[np.int64]
    first: int


@dataclass(frozen=True, eq=False)
class Partition:
    """name: the tensor of its head, or of its first pointwise node. head: the node with a window; None without one.

    nodes: pointwise nodes in order. exports: tensors that others, or the network's output, read.
    """

    number: int
    name: str
    head: Node | None
    nodes: tuple[Node, ...]
    exports: tuple[str, ...]
    channels: int
    height: int
    width: int


@dataclass(frozen=True, eq=False)
class PartitionGraph:
    """partition_of: the partition that writes a real tensor; INPUT for the network's input.

    segments: of every tensor, in terms of real ones; a real tensor is its own segment.
    """

    graph: Graph
    partitions: tuple[Partition, ...]
    partition_of: Mapping[str, int]
    segments: Mapping[str, tuple[Segment, ...]]


@dataclass
class _Draft:
    head: Node | None
    nodes: list[Node]

    @property
    def all_nodes(self) -> list[Node]:
        return ([] if self.head is None else [self.head]) + self.nodes


def partition(graph: Graph) -> PartitionGraph:
    """The partitions of a network, in topological order."""
    graph = _with_a_node(graph)
    segments: dict[str, tuple[Segment, ...]] = {graph.input: (_whole(graph, graph.input),)}
    owner: dict[str, int] = {graph.input: INPUT}
    drafts: list[_Draft] = []
    for node in graph.nodes:
        if isinstance(node, VIEWS):
            segments[node.output] = _view(graph, node, segments)
            continue
        number = INPUT if window_of(node) is not None else _home(graph, node, segments, owner)
        if number == INPUT:
            head = node if window_of(node) is not None else None
            drafts.append(_Draft(head, [] if head is not None else [node]))
            number = len(drafts) - 1
        else:
            drafts[number].nodes.append(node)
        owner[node.output] = number
        segments[node.output] = (_whole(graph, node.output),)
    exported = _exported(graph, segments, owner)
    partitions = []
    for number, draft in enumerate(drafts):
        tensors = [node.output for node in draft.all_nodes]
        channels, high, wide = graph.shapes[tensors[0]]
        name = _name(draft.all_nodes)
        exports = tuple(t for t in tensors if t in exported)
        partitions.append(Partition(number, name, draft.head, tuple(draft.nodes), exports, channels, high, wide))
    return PartitionGraph(graph, tuple(partitions), owner, segments)


def _name(nodes: Sequence[Node]) -> str:
    """What the first node is for in the file: a sum that is then shifted has no name there."""
    first, second = nodes[0], nodes[1] if len(nodes) > 1 else None
    return second.output if isinstance(second, ShiftNode) and second.inputs == (first.output,) else first.output


def _with_a_node(graph: Graph) -> Graph:
    """A network whose output holds channels of its own input gets a node that copies them: a core has to send them."""
    viewed = [graph.output]
    for node in reversed(graph.nodes):
        if isinstance(node, VIEWS) and node.output in viewed:
            viewed += node.inputs
    if graph.input not in viewed:
        return graph
    copy = ClipNode((graph.output,), graph.output + "/copy", float("-inf"), float("inf"))
    shapes: dict[str, Any] = {**graph.shapes, copy.output: graph.shapes[graph.output]}
    return dataclasses.replace(graph, nodes=(*graph.nodes, copy), shapes=shapes, output=copy.output)


def _whole(graph: Graph, tensor: str) -> Segment:
    return Segment(tensor, np.arange(graph.shapes[tensor][0]), 0)


def _home(graph: Graph, node: Node, segments: Mapping[str, tuple[Segment, ...]], owner: Mapping[str, int]) -> int:
    """The latest partition among the operands'; a new one where that would read its own channels in another order."""
    sources = [s for name in node.inputs for s in segments[name]]
    latest = max(owner[s.tensor] for s in sources)
    local = [s for s in sources if owner[s.tensor] == latest]
    straight = all(s.first == 0 and np.array_equal(s.channels, np.arange(len(s.channels))) for s in local)
    complete = all(len(s.channels) == graph.shapes[node.output][0] for s in local)
    return latest if straight and complete else INPUT


def _view(graph: Graph, node: Node, segments: Mapping[str, tuple[Segment, ...]]) -> tuple[Segment, ...]:
    """Channels of a view as maximal runs of one real tensor each."""
    names: list[str] = []
    channels: list[int] = []
    for name in node.inputs:
        for segment in segments[name]:
            names += [segment.tensor] * len(segment.channels)
            channels += segment.channels.tolist()
    if isinstance(node, PermuteNode):
        names, channels = [names[i] for i in node.order], [channels[i] for i in node.order]
    assert isinstance(node, PermuteNode | ConcatNode)
    found: list[Segment] = []
    start = 0
    for i in range(1, len(names) + 1):
        if i == len(names) or names[i] != names[start]:
            found.append(Segment(names[start], np.asarray(channels[start:i]), start))
            start = i
    return tuple(found)


def _exported(graph: Graph, segments: Mapping[str, tuple[Segment, ...]], owner: Mapping[str, int]) -> set[str]:
    found = {segment.tensor for segment in segments[graph.output]}
    for node in graph.nodes:
        if isinstance(node, VIEWS):
            continue
        here = owner[node.output]
        found |= {s.tensor for name in node.inputs for s in segments[name] if owner[s.tensor] != here}
    return found
