"""Plans as graphs of sums: additions are nodes, shifts and scalings and signs are weights of edges (AUKE Section 2.3).

In this form a plan says nothing yet about where its shifts happen: see `relaxation` for where they should, and
`selection` for the way back to instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kilotune.codegen.scamp.plan import Plan


@dataclass(frozen=True, slots=True)
class Transform:
    """Shifted by (x, y), divided by `2**halvings` (doubled where that is negative), times the sign, which is 1 or -1."""

    x: int = 0
    y: int = 0
    halvings: int = 0
    sign: int = 1

    def then(self, other: Transform) -> Transform:
        """Both, one after the other; the order does not matter."""
        return Transform(self.x + other.x, self.y + other.y, self.halvings + other.halvings, self.sign * other.sign)

    def inverse(self) -> Transform:
        """What undoes it."""
        return Transform(-self.x, -self.y, -self.halvings, self.sign)

    @property
    def point(self) -> tuple[int, int, int]:
        """Without the sign."""
        return self.x, self.y, self.halvings

    @property
    def length(self) -> int:
        """Unit shifts and scalings (the weights of Equation 26, added up over the dimensions)."""
        return abs(self.x) + abs(self.y) + abs(self.halvings)


@dataclass(frozen=True, slots=True)
class Term:
    """A transformed node; node 0 is the input image."""

    source: int
    transform: Transform


@dataclass(frozen=True)
class SumGraph:
    """Node k is the sum of `nodes[k - 1]`, at least two terms of earlier nodes. A result that is None is zero."""

    depth: int
    nodes: tuple[tuple[Term, ...], ...]
    results: tuple[Term | None, ...]


def graph_of(plan: Plan) -> SumGraph:
    """The graph of a plan. Sums that are transforms of one another become one node; dead ones are left out."""
    nodes, values = nodes_of(plan)
    return _without_dead_nodes(SumGraph(plan.depth, nodes, tuple(values[number] for number in plan.results)))


def nodes_of(plan: Plan) -> tuple[tuple[tuple[Term, ...], ...], tuple[Term | None, ...]]:
    """The nodes of the graph, dead ones too, and every value of the plan as a transformed node (None: zero)."""
    nodes: list[tuple[Term, ...]] = []
    known: dict[tuple[Term, ...], int] = {}
    values: list[Term | None] = [Term(0, Transform())]
    for step in plan.steps:
        row = plan.instruction(step)
        x, y = row.offset(step.directions)
        terms = []
        for number, sign, moved in zip(step.operands, row.signs, row.shifted, strict=True):
            value = values[number]
            if value is not None:
                change = Transform(x if moved else 0, y if moved else 0, row.halvings, sign)
                terms.append(Term(value.source, value.transform.then(change)))
        values.append(_sum(terms, nodes, known))
    return tuple(nodes), tuple(values)


def _sum(terms: Iterable[Term], nodes: list[tuple[Term, ...]], known: dict[tuple[Term, ...], int]) -> Term | None:
    """The sum of terms as a term: of a known node where there is one up to a transform."""
    gathered = _merged(terms)
    if not gathered:
        return None
    if len(gathered) == 1:
        return gathered[0]
    first = gathered[0].transform
    common = Transform(first.x, first.y, min(term.transform.halvings for term in gathered), first.sign)
    key = tuple(Term(term.source, term.transform.then(common.inverse())) for term in gathered)
    if key not in known:
        nodes.append(key)
        known[key] = len(nodes)
    return Term(known[key], common)


def _merged(terms: Iterable[Term]) -> list[Term]:
    """Equal terms doubled, opposite ones cancelled; sorted."""
    pending = list(terms)
    kept: dict[tuple[int, int, int, int], Term] = {}
    while pending:
        term = pending.pop()
        place = (term.source, *term.transform.point)
        other = kept.pop(place, None)
        if other is None:
            kept[place] = term
        elif other.transform.sign == term.transform.sign:
            pending.append(Term(term.source, replace(term.transform, halvings=term.transform.halvings - 1)))
    return [kept[place] for place in sorted(kept)]


def _without_dead_nodes(graph: SumGraph) -> SumGraph:
    needed = {result.source for result in graph.results if result is not None}
    for number in range(len(graph.nodes), 0, -1):
        if number in needed:
            needed.update(term.source for term in graph.nodes[number - 1])
    numbers = [number for number in range(1, len(graph.nodes) + 1) if number in needed]
    renumbered = {0: 0} | {number: place for place, number in enumerate(numbers, start=1)}
    return SumGraph(
        graph.depth,
        tuple(tuple(Term(renumbered[t.source], t.transform) for t in graph.nodes[n - 1]) for n in numbers),
        tuple(None if r is None else Term(renumbered[r.source], r.transform) for r in graph.results),
    )
