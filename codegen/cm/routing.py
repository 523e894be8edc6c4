"""Routes between the nodes of an accelerator: shortest ones in several shapes, and short detours around them.

Only two tables are kept, the lowest- and the highest-numbered next node of all shortest paths; a route follows the one or
the other, and its shape says when it changes. On a mesh shapes 0 and 1 are the two with one bend.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.hardware import Hardware

SHAPES = 8
"""0: lowest, 1: highest, 2 and 3: in turn, 4 and 5: one for the first half and the other for the second, 6 and 7: a detour
by the lowest or the highest neighbour that is no nearer. From GMEM these two begin at the next ports: of those that are not nearest
to the goal the nearest, and the nearest but one."""

UNREACHABLE = 1 << 20

LinkArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class RouteTables:
    """distance: links between nodes, [nodes, nodes]. step: link numbers by table (lowest, highest), [2, nodes, nodes].
    detour: the first link of a detour by shape - 6, -1 without one; detour_table: which table it follows then."""

    distance: LinkArray
    step: LinkArray
    detour: LinkArray
    detour_table: LinkArray
    source: LinkArray
    target: LinkArray

    @cached_property
    def step_by_goal(self) -> LinkArray:
        """`step` by table, goal and node: all that one route asks for lies close together."""
        return np.ascontiguousarray(self.step.transpose(0, 2, 1))

    def route(self, start: int, goal: int, shape: int) -> tuple[int, ...]:
        """Link numbers. ValueError when there is no path. A detour that does not exist is the route of shape 0 or 1."""
        if self.distance[start, goal] >= UNREACHABLE:
            raise ValueError(f"There is no path from node {start} to node {goal}.")
        links: list[int] = []
        node, length = start, int(self.distance[start, goal])
        table = None
        if shape >= 6:
            first = int(self.detour[shape - 6, start, goal])
            if first >= 0:
                links.append(first)
                node = int(self.target[first])
                length = int(self.distance[node, goal])
                table = int(self.detour_table[shape - 6, start, goal])
            else:
                shape -= 6
        for k in range(length + 2):
            if node == goal:
                break
            links.append(int(self.step[table if table is not None else table_of(shape, k, length), node, goal]))
            node = int(self.target[links[-1]])
        return tuple(links)

    def alternatives(self, start: int, goal: int) -> tuple[tuple[int, ...], ...]:
        """The different routes, by shape."""
        return tuple(dict.fromkeys(self.route(start, goal, shape) for shape in range(SHAPES)))


def table_of(shape: int, step: int, length: int) -> int:
    """Which table a route of `length` links follows at a step: 0 lowest, 1 highest."""
    if shape < 2:
        return shape
    if shape < 4:
        return (step + shape) % 2
    return int((step >= length // 2) == (shape == 4))


@cache
def route_tables(hardware: Hardware) -> RouteTables:
    """Shortest paths between all nodes and the next links on them. GMEM ends routes, and is never on the way."""
    nodes, gmem = hardware.cores + 1, hardware.gmem
    source = np.array([link.source for link in hardware.links], dtype=np.int32)
    target = np.array([link.target for link in hardware.links], dtype=np.int32)
    outgoing: list[list[int]] = [[] for _ in range(nodes)]
    for number in sorted(range(len(source)), key=lambda n: int(target[n])):
        outgoing[source[number]].append(number)
    distance = _distances([[int(target[number]) for number in links] for links in outgoing], gmem)
    step = np.full((2, nodes, nodes), -1, dtype=np.int32)
    for node in range(nodes):
        for table, order in ((0, reversed(outgoing[node])), (1, outgoing[node])):
            for number in order:  # the last one that fits stays
                after = int(target[number])
                nearer = distance[after] + 1 == distance[node]
                nearer &= (np.arange(nodes) == after) | (after != gmem)
                step[table, node, nearer] = number
    return RouteTables(distance, step, *_detours(outgoing, distance, step, target, gmem), source, target)


def neighbours(hardware: Hardware) -> tuple[tuple[int, ...], ...]:
    """The cores with a link to or from each node, of which GMEM is the last."""
    found: list[set[int]] = [set() for _ in range(hardware.cores + 1)]
    for link in hardware.links:
        for node, other in ((link.source, link.target), (link.target, link.source)):
            if other != hardware.gmem:
                found[node].add(other)
    return tuple(tuple(sorted(others)) for others in found)


def _distances(following: list[list[int]], gmem: int) -> LinkArray:
    """Links between nodes, [nodes, nodes]: breadth first from all nodes at once, backwards from the goals. following: where the
    links of a node lead."""
    nodes = len(following)
    distance = np.full((nodes, nodes), UNREACHABLE, dtype=np.int32)
    np.fill_diagonal(distance, 0)
    after = np.full((max(map(len, following)), nodes), nodes)  # row `nodes` of the frontier is empty
    for node, targets in enumerate(following):
        after[: len(targets), node] = targets
    reached = np.packbits(np.eye(nodes, dtype=bool), axis=1)  # [nodes, goals / 8]
    only_gmem, nearest, links = reached[gmem].copy(), reached.copy(), 0
    while nearest.any():
        links += 1
        nearest[gmem] &= only_gmem
        frontier = np.vstack((nearest, np.zeros_like(nearest[:1])))
        nearest = np.zeros_like(reached)
        for ahead in after:
            nearest |= frontier[ahead]
        nearest &= ~reached
        reached |= nearest
        distance[np.unpackbits(nearest, axis=1, count=nodes).astype(bool)] = links
    return distance


def _detours(
    outgoing: list[list[int]], distance: LinkArray, step: LinkArray, target: LinkArray, gmem: int
) -> tuple[LinkArray, LinkArray]:
    """By the lowest and the highest neighbour that is not on a shortest path and from which one does not lead back; from GMEM by
    other ports, however far they are: a port that is the nearest for many streams would else have to send them all."""
    nodes = len(distance)
    first = np.full((2, nodes, nodes), -1, dtype=np.int32)
    follow = np.zeros((2, nodes, nodes), dtype=np.int32)
    everywhere = np.arange(nodes)
    for node in range(nodes):
        if node == gmem:
            first[:, node], follow[1, node] = _other_ports(outgoing[node], distance, target, gmem), 1
            continue
        others = everywhere != node
        for shape, order in ((0, reversed(outgoing[node])), (1, outgoing[node])):
            for number in order:
                after = int(target[number])
                if after == gmem:
                    continue
                longer = (distance[after] >= distance[node]) & (distance[after] <= distance[node] + 1) & others
                for table in (1, 0):
                    # Two steps on: with at most one link lost, the node itself could only come back at once.
                    back = target[step[table, after]] == node
                    fits = longer & ~back & (distance[after] < UNREACHABLE)
                    first[shape, node, fits] = number
                    follow[shape, node, fits] = table
    return first, follow


def _other_ports(ports: list[int], distance: LinkArray, target: LinkArray, gmem: int) -> LinkArray:
    """GMEM's links by goal, [2, nodes]: of those that begin no shortest path the one nearest to the goal, and the nearest but one; -1 where
    there is none, and to GMEM itself."""
    found = np.full((2, len(distance)), -1, dtype=np.int32)
    links = np.array(sorted(ports), dtype=np.int32)
    away = distance[target[links]]  # [ports, nodes]
    away[away < distance[gmem]] = UNREACHABLE
    away[:, gmem] = UNREACHABLE
    order = np.argsort(away, axis=0, kind="stable")[:2]
    reached = np.take_along_axis(away, order, axis=0) < UNREACHABLE
    found[: len(order)] = np.where(reached, links[order], -1)
    return found
