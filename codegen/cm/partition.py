"""Partitions (Section 3.1): at most one operator with a window in each, and no cycles between them.

Nodes are taken in topological order. A convolution starts a partition; so does a pooling, a border or an ArgMax, whose
iterations are not those of a convolution before it: they run on the digital unit of a core without a matrix. A
pointwise node joins the latest partition among those that write its operands, so edges lead from lower to higher
numbers only. Concatenations, channel permutations, every other row or column and channels of zeros are views: they
cost nothing, and their readers read several arrays, or parts of them. So are pixels repeated over an image. Pointwise nodes
of a concatenation are first taken apart (`distributing`), so that its writers compute them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.distributing import distributed
from kilotune.codegen.onnx.graph import (
    VIEWS,
    ChannelPadNode,
    ClipNode,
    ExpandNode,
    Graph,
    Node,
    PermuteNode,
    ShiftNode,
    SubsampleNode,
    View,
    window_of,
)

INPUT = -1
"""Stands for the network's input where a partition number is expected."""


@dataclass(frozen=True, eq=False)
class Segment:
    """Channels of a real tensor that hold consecutive channels, from `first`, of a view; of its pixels every `stride[0]`th row and
    `stride[1]`th column, from `offset` on (0: the first one again and again). Channels of a view that no segment holds are 0."""

    tensor: str
    channels: NDArray[np.int64]
    first: int
    stride: tuple[int, int] = (1, 1)
    offset: tuple[int, int] = (0, 0)


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
    graph = _with_a_node(_with_spread_parts(distributed(graph)))
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
    """A network of which an output holds channels of its own input, or parts of others, gets a node that copies them: a core has
    to send them."""
    for tensor in graph.output_tensors:
        if _wants_a_copy(graph, tensor):
            copy = ClipNode((tensor,), tensor + "/copy", float("-inf"), float("inf"))
            shapes: dict[str, Any] = {**graph.shapes, copy.output: graph.shapes[tensor]}
            bounds = None if graph.bounds is None else {**graph.bounds, copy.output: graph.bounds[tensor]}
            outputs = tuple(
                dataclasses.replace(o, tensor=copy.output) if o.tensor == tensor else o for o in graph.outputs
            )
            nodes = (*graph.nodes, copy)
            graph = dataclasses.replace(graph, nodes=nodes, shapes=shapes, outputs=outputs, bounds=bounds)
    return graph


def _with_spread_parts(graph: Graph) -> Graph:
    """A transposed convolution or an enlargement of some rows and columns reads a copy of them: no window spreads what it leaves out."""
    nodes: list[Node] = []
    for node in graph.nodes:
        window, tensor = window_of(node), node.inputs[0]
        if window is not None and window.spread != (1, 1) and _has_parts(graph, tensor):
            copy = ClipNode((tensor,), f"{node.output}/parts", float("-inf"), float("inf"))
            shapes: dict[str, Any] = {**graph.shapes, copy.output: graph.shapes[tensor]}
            bounds = None if graph.bounds is None else {**graph.bounds, copy.output: graph.bounds[tensor]}
            graph = dataclasses.replace(graph, shapes=shapes, bounds=bounds)
            nodes.append(copy)
            node = dataclasses.replace(node, inputs=(copy.output,))
        nodes.append(node)
    return dataclasses.replace(graph, nodes=tuple(nodes))


def _has_parts(graph: Graph, tensor: str) -> bool:
    """Whether a tensor is a view of some rows and columns, or of pixels again and again."""
    viewed = {tensor}
    for node in reversed(graph.nodes):
        if isinstance(node, VIEWS) and node.output in viewed:
            viewed.update(node.inputs)
            if isinstance(node, SubsampleNode | ExpandNode):
                return True
    return False


def _wants_a_copy(graph: Graph, tensor: str) -> bool:
    viewed, parts = [tensor], False
    for node in reversed(graph.nodes):
        if isinstance(node, VIEWS) and node.output in viewed:
            viewed += node.inputs
            parts = parts or isinstance(node, SubsampleNode | ChannelPadNode)
    return graph.input in viewed or parts


def _whole(graph: Graph, tensor: str) -> Segment:
    return Segment(tensor, np.arange(graph.shapes[tensor][0]), 0)


def _home(graph: Graph, node: Node, segments: Mapping[str, tuple[Segment, ...]], owner: Mapping[str, int]) -> int:
    """The latest partition among the operands'; a new one where that would read its own channels in another order, or some of them."""
    sources = [s for name in node.inputs for s in segments[name]]
    latest = max(owner[s.tensor] for s in sources)
    local = [s for s in sources if owner[s.tensor] == latest]
    straight = all(
        s.first == 0 and s.stride == (1, 1) and np.array_equal(s.channels, np.arange(len(s.channels))) for s in local
    )
    complete = all(len(s.channels) == graph.shapes[node.output][0] == graph.shapes[s.tensor][0] for s in local)
    return latest if straight and complete else INPUT


ChannelPlace = tuple[str, tuple[int, int], tuple[int, int], int]
"""Where a channel of a view is: a real tensor, the stride of its pixels and the first one, and the channel there."""


def _view(graph: Graph, node: View, segments: Mapping[str, tuple[Segment, ...]]) -> tuple[Segment, ...]:
    """Channels of a view as maximal runs of one real tensor each."""
    places: list[ChannelPlace | None] = []
    for name in node.inputs:
        places += _places(graph.shapes[name][0], segments[name])
    match node:
        case PermuteNode():
            places = [places[i] for i in node.order]
        case SubsampleNode():
            places = [p and _subsampled(p, node) for p in places]
        case ExpandNode():
            places = [p and (p[0], (0, 0), p[2], p[3]) for p in places]
        case ChannelPadNode():
            places = [None] * node.before + places + [None] * node.after
        case _:
            pass  # a concatenation is its inputs one after the other
    found: list[Segment] = []
    start = 0
    for i in range(1, len(places) + 1):
        run = places[start]
        after = places[i] if i < len(places) else None
        if i == len(places) or (run and run[:3]) != (after and after[:3]):
            if run is not None:
                channels = [place[3] for place in places[start:i] if place is not None]
                found.append(Segment(run[0], np.asarray(channels), start, run[1], run[2]))
            start = i
    return tuple(found)


def _subsampled(place: ChannelPlace, node: SubsampleNode) -> ChannelPlace:
    """Pixel n of the view is pixel n * stride + offset of what it views, along each axis."""
    tensor, (down, right), (top, left), channel = place
    (rows, columns), (first_row, first_column) = node.stride, node.offset
    return tensor, (down * rows, right * columns), (top + down * first_row, left + right * first_column), channel


def _places(channels: int, segments: Sequence[Segment]) -> list[ChannelPlace | None]:
    """Where every channel of a tensor is; None for one of zeros."""
    found: list[ChannelPlace | None] = [None] * channels
    for segment in segments:
        for number, channel in enumerate(segment.channels.tolist(), start=segment.first):
            found[number] = (segment.tensor, segment.stride, segment.offset, channel)
    return found


def _exported(graph: Graph, segments: Mapping[str, tuple[Segment, ...]], owner: Mapping[str, int]) -> set[str]:
    found = {segment.tensor for tensor in graph.output_tensors for segment in segments[tensor]}
    for node in graph.nodes:
        if isinstance(node, VIEWS):
            continue
        here = owner[node.output]
        found |= {s.tensor for name in node.inputs for s in segments[name] if owner[s.tensor] != here}
    return found
