"""Graphs without cycles drawn in layers (after Sugiyama): a layer by longest path, few crossings by barycentres, places by
least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 8
NODE_GAP, AFTER_NODE, BEFORE_NODE, BEND_GAP = 1.6, 0.7, 0.35, 0.25
"""Least distances in a layer: from node to node (whose label is on its right), from a node to an edge that passes, from
such an edge to a node, and between two of them."""

Item = int | tuple[int, int]
"""A node by its number, or the bend of an edge in a layer."""


@dataclass(frozen=True)
class LayeredDrawing:
    """x and layer of every node; by edge the points (x, layer) that it passes, its ends included."""

    x: tuple[float, ...]
    layer: tuple[int, ...]
    paths: tuple[tuple[tuple[float, float], ...], ...]

    @property
    def layers(self) -> int:
        return max(self.layer, default=-1) + 1


def layered(nodes: int, edges: Sequence[tuple[int, int]], last: Sequence[int] = ()) -> LayeredDrawing:
    """Edges lead from a lower to a higher number. `last`: nodes that go to the bottom where no edge leaves them."""
    layer = _layers(nodes, edges, last)
    rows: list[list[Item]] = [[] for _ in range(max(layer, default=0) + 1)]
    for node in range(nodes):
        rows[layer[node]].append(node)
    chains: list[list[Item]] = []
    for number, (source, target) in enumerate(edges):
        bends: list[Item] = [(number, level) for level in range(layer[source] + 1, layer[target])]
        for bend, level in zip(bends, range(layer[source] + 1, layer[target]), strict=True):
            rows[level].append(bend)
        chains.append([source, *bends, target])
    above, below = _neighbours(chains)
    rows = _uncrossed(rows, above, below)
    x = _places(rows, above, below)
    paths = []
    for (source, _), chain in zip(edges, chains, strict=True):
        paths.append(tuple((x[item], float(layer[source] + step)) for step, item in enumerate(chain)))
    return LayeredDrawing(tuple(x[node] for node in range(nodes)), tuple(layer), tuple(paths))


def _layers(nodes: int, edges: Sequence[tuple[int, int]], last: Sequence[int]) -> list[int]:
    layer = [0] * nodes
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layer[target] = max(layer[target], layer[source] + 1)
    bottom = max(layer, default=0)
    left = {source for source, _ in edges}
    for node in last:
        if node not in left:
            layer[node] = bottom
    return layer


def _neighbours(chains: Sequence[Sequence[Item]]) -> tuple[dict[Item, list[Item]], dict[Item, list[Item]]]:
    above: dict[Item, list[Item]] = {}
    below: dict[Item, list[Item]] = {}
    for chain in chains:
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return above, below


def _uncrossed(
    rows: list[list[Item]], above: dict[Item, list[Item]], below: dict[Item, list[Item]]
) -> list[list[Item]]:
    """The order with the fewest crossings of those that sweeps down and up come by."""
    best, fewest = [list(row) for row in rows], _crossed(rows, below)
    for sweep in range(2 * SWEEPS):
        down = sweep % 2 == 0
        for level in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            rank = {item: place for place, item in enumerate(rows[level - 1 if down else level + 1])}
            neighbours = above if down else below
            own = {item: float(place) for place, item in enumerate(rows[level])}
            for item in rows[level]:
                if neighbours.get(item):
                    own[item] = sum(rank[other] for other in neighbours[item]) / len(neighbours[item])
            rows[level].sort(key=own.__getitem__)
        crossed = _crossed(rows, below)
        if crossed < fewest:
            best, fewest = [list(row) for row in rows], crossed
    return best


def _crossed(rows: Sequence[Sequence[Item]], below: dict[Item, list[Item]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        rank = {item: place for place, item in enumerate(lower)}
        ends = [sorted(rank[other] for other in below.get(item, ())) for item in upper]
        flat = [end for group in ends for end in group]
        count += sum(a > b for at, b in enumerate(flat) for a in flat[:at])
    return count


def _places(
    rows: Sequence[Sequence[Item]], above: dict[Item, list[Item]], below: dict[Item, list[Item]]
) -> dict[Item, float]:
    x = {item: place - (len(row) - 1) / 2 for row in rows for place, item in enumerate(row)}
    for sweep in range(2 * SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for item in row:
                others = [*above.get(item, ()), *below.get(item, ())]
                wanted.append(sum(x[other] for other in others) / len(others) if others else x[item])
            x.update(zip(row, _spread(row, wanted), strict=True))
    return x


def _spread(row: Sequence[Item], wanted: Sequence[float]) -> list[float]:
    """Places in this order, the gaps apart, with the least sum of squares to those wanted (pooled adjacent violators)."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + _gap(left, right))
    pools: list[tuple[float, int]] = []  # mean, members
    for place, offset in zip(wanted, offsets, strict=False):
        mean, members = place - offset, 1
        while pools and pools[-1][0] > mean:
            before, count = pools.pop()
            mean, members = (before * count + mean * members) / (count + members), count + members
        pools.append((mean, members))
    means = [mean for mean, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]


def _gap(left: Item, right: Item) -> float:
    if isinstance(left, int):
        return NODE_GAP if isinstance(right, int) else AFTER_NODE
    return BEFORE_NODE if isinstance(right, int) else BEND_GAP
