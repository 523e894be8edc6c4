"""Routes between the nodes of an accelerator: shortest ones in several shapes, and short detours around them.

Only two tables are kept, the lowest- and the highest-numbered next node of all shortest paths; a route follows the one or
the other, and its shape says when it changes. On a mesh shapes 0 and 1 are the two with one bend.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.hardware import Hardware

SHAPES = 8
"""0: lowest, 1: highest, 2 and 3: in turn, 4 and 5: one for the first half and the other for the second, 6 and 7: a detour
by the lowest or the highest neighbour that is no nearer. From GMEM these two begin at the next ports: of those that are not nearest
to the goal the nearest, and the nearest but one."""

UNREACHABLE = np.iinfo(np.int16).max
"""No path, in distances of two bytes: there is no memory for tables of so many nodes, and a shortest path has fewer links than there are
nodes."""

NARROW_LINKS = 1 << 14
"""The number of links from which on twice the number of one takes four bytes, not two. Tables of half the size take half the time where
nodes are many: to be made, as memory that is touched first costs most there, and to be read, as less of a cache does for them."""

LinkArray = NDArray[np.signedinteger[Any]]
DistanceArray = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class RouteTables:
    """distance: links between nodes, [nodes, nodes]. step: link numbers by table (lowest, highest), [2, nodes, nodes]. source, target:
    the nodes of a link. What not all who ask for routes need is computed when it is first asked for."""

    distance: DistanceArray
    step: LinkArray
    source: NDArray[np.int32]
    target: NDArray[np.int32]

    @property
    def is_wide(self) -> bool:
        """Whether numbers of links take four bytes in these tables, not two."""
        return self.step.itemsize > 2

    @cached_property
    def step_by_goal(self) -> LinkArray:
        """`step` by table, goal and node: all that one route asks for lies close together."""
        return np.ascontiguousarray(self.step.transpose(0, 2, 1))

    @cached_property
    def detour(self) -> LinkArray:
        """By shape - 6, twice the first link of a detour, and 1 more where it follows the table of highest nodes then; -1 without one,
        [2, nodes, nodes]."""
        nodes = len(self.distance)
        outgoing = _outgoing(self.source, self.target, nodes)
        return _detours(outgoing, self.distance, self.step, self.target, nodes - 1)

    @cached_property
    def longest(self) -> int:
        """Links of the longest shortest path."""
        return int(self.distance.max(where=self.distance < UNREACHABLE, initial=0))

    def route(self, start: int, goal: int, shape: int) -> tuple[int, ...]:
        """Link numbers. ValueError when there is no path. A detour that does not exist is the route of shape 0 or 1."""
        if self.distance[start, goal] >= UNREACHABLE:
            raise ValueError(f"There is no path from node {start} to node {goal}.")
        links: list[int] = []
        node, length = start, int(self.distance[start, goal])
        table = None
        if shape >= 6:
            first, table_then = divmod(int(self.detour[shape - 6, start, goal]), 2)
            if first >= 0:
                links.append(first)
                node = int(self.target[first])
                length = int(self.distance[node, goal])
                table = table_then
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
    outgoing = _outgoing(source, target, nodes)
    distance = _distances([[int(target[number]) for number in links] for links in outgoing], gmem)
    return RouteTables(distance, _steps(outgoing, distance, target, gmem), source, target)


def _outgoing(source: NDArray[np.int32], target: NDArray[np.int32], nodes: int) -> list[list[int]]:
    """The links of each node, by where they lead."""
    found: list[list[int]] = [[] for _ in range(nodes)]
    for number in np.argsort(target, kind="stable").tolist():
        found[source[number]].append(number)
    return found


def neighbours(hardware: Hardware) -> tuple[tuple[int, ...], ...]:
    """The cores with a link to or from each node, of which GMEM is the last."""
    found: list[set[int]] = [set() for _ in range(hardware.cores + 1)]
    for link in hardware.links:
        for node, other in ((link.source, link.target), (link.target, link.source)):
            if other != hardware.gmem:
                found[node].add(other)
    return tuple(tuple(sorted(others)) for others in found)


def _distances(following: list[list[int]], gmem: int) -> DistanceArray:
    """Links between nodes, [nodes, nodes], UNREACHABLE without a path: breadth first from all nodes at once, backwards from the goals.
    following: where the links of a node lead."""
    nodes = len(following)
    after = np.full((max(map(len, following)), nodes), nodes)  # row `nodes` of the frontier is empty
    for node, targets in enumerate(following):
        after[: len(targets), node] = targets
    reached = np.packbits(np.eye(nodes, dtype=bool), axis=1)  # [nodes, goals / 8]
    only_gmem, links = reached[gmem].copy(), 0
    frontier = np.vstack((reached, np.zeros_like(reached[:1])))
    nearest, others = frontier[:-1].copy(), np.empty_like(reached)
    digits: list[NDArray[np.uint8]] = []  # of the distances, the lowest first, packed as `reached`
    while nearest.any():
        links += 1
        frontier[:-1] = nearest
        frontier[gmem] &= only_gmem
        nearest[:] = 0
        for ahead in after:
            nearest |= np.take(frontier, ahead, axis=0, out=others, mode="clip")  # "raise" would copy
        nearest &= np.invert(reached, out=others)
        reached |= nearest
        digits += [np.zeros_like(reached) for _ in range(links.bit_length() - len(digits))]
        for place, digit in enumerate(digits):
            if links >> place & 1:
                digit |= nearest
    distance = np.empty((nodes, nodes), dtype=np.int16)
    for node, row in enumerate(distance):  # which stays in the processor's cache
        row[:] = UNREACHABLE
        row[np.unpackbits(reached[node], count=nodes).astype(bool)] = 0
        for place, digit in enumerate(digits):
            row |= np.unpackbits(digit[node], count=nodes).astype(np.int16) << place
    return distance


def _steps(outgoing: list[list[int]], distance: DistanceArray, target: NDArray[np.int32], gmem: int) -> LinkArray:
    """The first links of the shortest paths, by table: to the lowest and to the highest neighbour. GMEM is only where they end."""
    nodes = len(distance)
    step = np.full((2, nodes, nodes), -1, dtype=np.int16 if len(target) < NARROW_LINKS else np.int32)
    for node, links in enumerate(outgoing):
        nearer = distance[target[links]] - distance[node] == -1
        for number, there in zip(links, nearer, strict=True):
            if target[number] == gmem:
                there[:gmem] = there[gmem + 1 :] = False
        _last_there(step[1, node], links, nearer)
        _last_there(step[0, node], links[::-1], nearer[::-1])
    return step


def _last_there(row: LinkArray, links: list[int], there: NDArray[np.bool_]) -> None:
    """Puts into the row, by goal, the last of the links that is `there` [links, goals]."""
    for number, where in zip(links, there, strict=True):
        np.copyto(row, number, where=where)


def _detours(
    outgoing: list[list[int]], distance: DistanceArray, step: LinkArray, target: NDArray[np.int32], gmem: int
) -> LinkArray:
    """See `RouteTables.detour`. By the lowest and the highest neighbour that is not on a shortest path and from which one does not lead
    back; from GMEM by other ports, however far they are: a port that is the nearest for many streams would else have to send them all."""
    nodes = len(distance)
    detour = np.full((2, nodes, nodes), -1, dtype=step.dtype)
    everywhere_reached = bool(distance.max() < UNREACHABLE)
    back = _links_back(outgoing, target)
    for node, ports in enumerate(outgoing):
        if node == gmem:
            others = _other_ports(ports, distance, target, gmem)
            detour[:, node] = np.where(others < 0, -1, 2 * others + [[0], [1]])
            continue
        links = [number for number in ports if target[number] != gmem]
        ahead = target[links]
        away = distance[ahead]
        fits = (away - distance[node]).view(np.uint16) <= 1  # as far, or one link farther
        fits[:, node] = False
        if not everywhere_reached:
            fits &= away < UNREACHABLE
        # Two steps on: with at most one link lost, the node itself could only come back at once.
        by_lowest, by_highest = (fits & (step[table, ahead] != back[table, links, None]) for table in (0, 1))
        for shape, order in ((0, slice(None, None, -1)), (1, slice(None))):
            for number, lowest, highest in zip(links[order], by_lowest[order], by_highest[order], strict=True):
                np.copyto(detour[shape, node], 2 * number + 1, where=highest)
                np.copyto(detour[shape, node], 2 * number, where=lowest)
    return detour


def _links_back(outgoing: list[list[int]], target: NDArray[np.int32]) -> NDArray[np.int32]:
    """By table and link, that from its target to its source which the table has; -2 where there is none."""
    lowest: dict[tuple[int, int], int] = {}
    highest: dict[tuple[int, int], int] = {}
    for node, links in enumerate(outgoing):
        for number in links:
            lowest.setdefault((node, int(target[number])), number)
            highest[node, int(target[number])] = number
    found = np.full((2, len(target)), -2, dtype=np.int32)
    for node, links in enumerate(outgoing):
        for table, back in enumerate((lowest, highest)):
            found[table, links] = [back.get((int(target[number]), node), -2) for number in links]
    return found


def _other_ports(ports: list[int], distance: DistanceArray, target: NDArray[np.int32], gmem: int) -> NDArray[np.int32]:
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
