"""Exact retiming: the least sum of edge weights over all placings of a graph of sums (AUKE Section 3.2, Equation 26).

Medians move one node at a time and stop where only several nodes together gain. The sum of |weights| is an L-natural
convex function of the nodes' places, so where no set of nodes can move by one to its gain there is no better place at all
(Murota, Discrete Convex Analysis, 2003). The best set is a minimum cut: edges of weight zero hold nodes together,
all others pull at them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from kilotune.codegen.scamp.graph import Transform, graph_of, nodes_of
from kilotune.codegen.scamp.plan import Plan, without_dead_steps
from kilotune.codegen.scamp.selection import Placing

DIMENSIONS = ("x", "y", "halvings")

_FIXED = 0
"""Node 0, the image, and every result stay where they are."""


@dataclass(frozen=True)
class _Edge:
    """Its weight is `weight + place[head] - place[tail]`."""

    tail: int
    head: int
    weight: int


def own_placing(plan: Plan) -> Placing:
    """Every node of `graph_of(plan)` where the plan itself computes it first."""
    return _placing(plan, lambda dimension, count: [0] * count)


def exact_placing(plan: Plan) -> Placing:
    """The placing of `graph_of(plan)` with the least sum of unit shifts and scalings between the plan's values.

    Every value is a node here, so what a plan shares (a shifted value that is used twice) counts once.
    """
    plan = without_dead_steps(plan)
    return _placing(plan, lambda dimension, count: _least(count, _edges(plan, dimension)))


def _placing(plan: Plan, places_of: Callable[[str, int], list[int]]) -> Placing:
    plan = without_dead_steps(plan)
    nodes, values = nodes_of(plan)
    plain = Placing.plain(graph_of(plan))
    stored = list(plain.stored)
    if len(stored) != len(nodes) + 1:  # an addition that cancels out: not worth a renumbering
        return plain
    places = {dimension: places_of(dimension, len(values)) for dimension in DIMENSIONS}
    placed = {0}
    for number, value in enumerate(values):
        if value is not None and value.source not in placed:
            placed.add(value.source)
            here = Transform(**{dimension: places[dimension][number] for dimension in DIMENSIONS})
            stored[value.source] = replace(value.transform.then(here), sign=1)
    return replace(plain, stored=tuple(stored))


def _edges(plan: Plan, dimension: str) -> list[_Edge]:
    edges = [_Edge(result, _FIXED, 0) for result in plan.results]
    for number, step in enumerate(plan.steps, start=1):
        row = plan.instruction(step)
        x, y = row.offset(step.directions)
        for operand, moved in zip(step.operands, row.shifted, strict=True):
            change = {"x": x if moved else 0, "y": y if moved else 0, "halvings": row.halvings}
            edges.append(_Edge(operand, number, change[dimension]))
        if len(step.operands) == 2 and len(set(step.operands)) == 1:  # a doubling is no addition of two values
            edges[-2:] = [_Edge(step.operands[0], number, -1 if dimension == "halvings" else 0)]
    return edges


def _least(count: int, edges: list[_Edge]) -> list[int]:
    places, failures, direction = [0] * count, 0, 1
    while failures < 2:
        moving = _best_set(places, edges, direction)
        for number in moving:
            places[number] += direction
        if not moving:
            direction = -direction
        failures = 0 if moving else failures + 1
    return places


def _best_set(places: list[int], edges: list[_Edge], direction: int) -> list[int]:
    """The nodes that a move by one in the direction gains most for; none when nothing is gained."""
    pull = [0] * len(places)
    tight: list[list[list[int]]] = [[] for _ in places]  # by node: [neighbour, capacity, place of the way back]
    for edge in edges:
        if edge.tail == edge.head:
            continue
        length = edge.weight + places[edge.head] - places[edge.tail]
        if length:
            cost = 1 if (length > 0) == (direction > 0) else -1
            pull[edge.head] += cost
            pull[edge.tail] -= cost
        else:
            tight[edge.tail].append([edge.head, 1, len(tight[edge.head])])
            tight[edge.head].append([edge.tail, 1, len(tight[edge.tail]) - 1])
    gains = [max(-p, 0) for p in pull]
    losses = [max(p, 0) for p in pull]
    gains[_FIXED] = 0
    wanted, found = sum(gains), 0
    while (reached := _augmented(gains, losses, tight)) is None:
        found += 1
    return [number for number in reached if number != _FIXED] if found < wanted else []


def _augmented(gains: list[int], losses: list[int], tight: list[list[list[int]]]) -> list[int] | None:
    """One more unit of flow from a gain to a loss or the fixed node; without one, the nodes that are reached."""
    came: dict[int, list[int] | None] = {number: None for number, gain in enumerate(gains) if gain}
    queue = deque(came)
    while queue:
        number = queue.popleft()
        if losses[number] or number == _FIXED:
            losses[number] -= number != _FIXED
            while (edge := came[number]) is not None:
                edge[1] -= 1
                back = tight[edge[0]][edge[2]]
                back[1] += 1
                number = back[0]
            gains[number] -= 1
            return None
        for edge in tight[number]:
            if edge[1] and edge[0] not in came:
                came[edge[0]] = edge
                queue.append(edge[0])
    return list(came)
