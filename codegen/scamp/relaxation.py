"""Graph relaxation: where the shifts and scalings of a plan should happen (AUKE Section 3.2, after retiming).

Any node of the graph of sums may be computed shifted or scaled, when its uses undo that. First every node moves to the median of its
edges, dimension by dimension (Equation 29), until none moves. The median counts each edge by itself; instructions share
shifts and do some for free. So from there the plan improves step by step under its true cost: single nodes, neighbours
together, and the shifts that additions do by themselves. A move that the registers cannot hold is not made.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from kilotune.codegen.scamp.graph import SumGraph, Transform, graph_of
from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan, evaluate
from kilotune.codegen.scamp.registers import fits
from kilotune.codegen.scamp.retiming import exact_placing, own_placing
from kilotune.codegen.scamp.selection import (
    FUSED_SHIFTS,
    Placing,
    RememberedTrees,
    ShiftPointTree,
    fused,
    needs,
    select,
)
from kilotune.codegen.scamp.sums import InexactHalfError

Cost = tuple[int, int]

MOST_NODES_MOVED = 50
"""Larger graphs are placed exactly, edge by edge, but not improved under the true cost: that takes minutes."""

MOST_STEPS_PLACED = 250
"""Longer plans are left as they are."""

SELECTED_NODES: Mapping[str, int] = MappingProxyType({"auke": 10_000, "scamp5": 5_000})
"""Nodes that instructions are selected for, over all placings that are tried: a fifth of a second. For the macros a node has ten times the
placings, and a search gains more by walking on from an early stop."""

MEDIAN_NODES = 100_000
"""Nodes that are looked at for medians."""

UNIT_MOVES = (
    Transform(x=1),
    Transform(x=-1),
    Transform(y=1),
    Transform(y=-1),
    Transform(halvings=1),
    Transform(halvings=-1),
    Transform(sign=-1),
)


def relax(
    plan: Plan,
    registers: int = len(REGISTERS),
    *,
    target: str | None = None,
    objective: str = "instructions",
    medians_only: bool = False,
    tree_of: ShiftPointTree | None = None,
) -> Plan:
    """A plan of the same results that is not longer, and fits the registers if the given one does.

    With another `target` the plan is translated as well; then it may be longer. `objective` is "instructions" or
    "transfers" (bus transfers); the other one breaks ties. `medians_only` leaves out what the paper does not do. `tree_of`: of whoever
    relaxes many plans, `RememberedTrees`.
    """
    if len(plan.steps) > MOST_STEPS_PLACED and target in (None, plan.target):
        return plan
    graph = graph_of(plan)
    relaxed = _Relaxation(graph, target or plan.target, registers, objective, tree_of or RememberedTrees()).run(
        own_placing(plan), None if medians_only else exact_placing(plan)
    )
    if target not in (None, plan.target):
        return relaxed
    given = [plan, fused(plan)] if plan.target == "scamp5" else [plan]
    return min((*given, relaxed), key=lambda found: (not fits(found, registers), cost(found, objective)))


def cost(plan: Plan, objective: str = "instructions") -> Cost:
    """The objective and what breaks its ties: smaller is better. Raises `KeyError` as `Plan.instruction`."""
    both = (len(plan.steps), plan.bus_transfers)
    return both if objective == "instructions" else (both[1], both[0])


def medians(graph: SumGraph, placing: Placing) -> Placing:
    """Every node at the median of its edges in each dimension, node after node until none moves (Equation 29)."""
    dimensions = ("x", "y", "halvings")
    rounds = min(4 * len(placing.stored), max(1, MEDIAN_NODES // len(placing.stored) ** 2))
    for _ in range(rounds):
        moved = False
        for number in range(1, len(placing.stored)):
            terms, results = needs(graph, placing)
            incoming = terms[number - 1]
            outgoing = [
                transform
                for node, needed in zip(graph.nodes, terms, strict=True)
                for term, transform in zip(node, needed, strict=True)
                if term.source == number
            ]
            outgoing += [t for r, t in zip(graph.results, results, strict=True) if r and t and r.source == number]
            change = {}
            for dimension in dimensions:
                weights = [-getattr(t, dimension) for t in incoming] + [getattr(t, dimension) for t in outgoing]
                # Of two middle weights both are best: the one nearer to no move at all.
                low, high = statistics.median_low(weights), statistics.median_high(weights)
                change[dimension] = max(low, 0) if low > 0 else min(high, 0)
            if any(change.values()):
                placing = _moved(placing, (number,), Transform(**change))
                moved = True
        if not moved:
            break
    return placing


class _Relaxation:
    def __init__(self, graph: SumGraph, target: str, registers: int, objective: str, tree_of: ShiftPointTree) -> None:
        self._graph, self._target, self._registers, self._objective = graph, target, registers, objective
        self._tree = tree_of

    def run(self, own: Placing, together: Placing | None) -> Plan:
        plain = Placing.plain(self._graph)
        best_placing, best = plain, self._plan(plain)
        start = medians(self._graph, own)
        started = self._plan(start)
        if self._better(started, best):
            best_placing, best = start, started
        if together is None:
            return best
        placed = self._plan(together)
        if self._better(placed, best):
            best_placing, best = together, placed
        improved = len(self._graph.nodes) <= MOST_NODES_MOVED
        left = SELECTED_NODES[self._target]
        while improved:
            improved = False
            for placing in self._neighbours(best_placing):
                left -= len(placing.stored)
                if left < 0:
                    return best
                plan = self._plan(placing)
                if self._better(plan, best):
                    best_placing, best, improved = placing, plan, True
                    break
        return best

    def _plan(self, placing: Placing) -> Plan:
        return select(self._graph, placing, self._target, self._tree)

    def _better(self, plan: Plan, best: Plan) -> bool:
        if cost(plan, self._objective) >= cost(best, self._objective):
            return False
        try:
            evaluate(plan)  # a halving that moved before an odd weight would need a greater depth
        except InexactHalfError:
            return False
        return fits(plan, self._registers) or not fits(best, self._registers)

    def _neighbours(self, placing: Placing) -> Iterator[Placing]:
        fuses = self._target == "scamp5"
        for number in range(1, len(placing.stored)):
            for move in UNIT_MOVES:
                yield _moved(placing, (number,), move)
                if fuses:
                    yield from _moved_with_shift(placing, number, move)
            for shift in FUSED_SHIFTS if fuses else ():
                if shift != placing.fused[number]:
                    yield _refused(placing, number, shift)
        for number, node in enumerate(self._graph.nodes, start=1):
            for source in sorted({term.source for term in node} - {0}):
                for move in UNIT_MOVES:
                    yield _moved(placing, (source, number), move)


def _moved(placing: Placing, numbers: tuple[int, ...], move: Transform) -> Placing:
    stored = tuple(t.then(move) if n in numbers else t for n, t in enumerate(placing.stored))
    return replace(placing, stored=stored)


def _moved_with_shift(placing: Placing, number: int, move: Transform) -> Iterator[Placing]:
    """The value moved, and the shift that is fused into its instruction with it, where that has such a shift."""
    if move.x or move.y:
        shift = (placing.fused[number][0] + move.x, placing.fused[number][1] + move.y)
        if shift in FUSED_SHIFTS:
            yield _refused(_moved(placing, (number,), move), number, shift)


def _refused(placing: Placing, number: int, shift: tuple[int, int]) -> Placing:
    return replace(placing, fused=tuple(shift if n == number else f for n, f in enumerate(placing.fused)))
