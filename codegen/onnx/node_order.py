"""The order in which the nodes of an ONNX graph run.

The format wants them sorted, and ONNX Runtime runs them in any order: tools that insert nodes, such as the one that makes a network
float16, leave them at the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any


def in_running_order(nodes: Sequence[Any]) -> list[tuple[int, Any]]:
    """NodeProtos as `running_order` sorts them, each with its number in the file: that is where a reader of a message looks for it."""
    found = list(nodes)
    return [(number, found[number]) for number in running_order(found)]


def running_order(nodes: Sequence[Any]) -> list[int]:
    """Numbers of NodeProtos such that each one follows on all that write what it reads: of those that may run, always the one that stands
    first in the file (Kahn's algorithm), so sorted nodes stay as they are. Nodes of a circle come last, in the file's order."""
    writers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    waits = [{writers[name] for name in _read(node) if name in writers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for number, before in enumerate(waits):
        for writer in before:
            readers[writer].append(number)
    left = [len(before) for before in waits]
    ready, order = [number for number, count in enumerate(left) if not count], []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for reader in readers[number]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    taken = set(order)
    return order + [number for number in range(len(nodes)) if number not in taken]


def _read(node: Any) -> Iterator[str]:
    """What a node reads, and what its graphs inside read, of which some may be their own."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for inner in graph.node:
                yield from _read(inner)
