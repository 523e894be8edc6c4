"""Programs to start from that share what kernels have in common: pairs of digits that stand alike in several places.

Multiple constant multiplication knows it as common subexpression elimination (Hartley 1996, on canonical signed digits): of all
pairs of terms the one that is found most often, at any shift, scale and sign, becomes a value of its own, and so on until none is
found twice. Here a term is a pixel at a power of two, and a pair may also be two pixels, or two values that were found before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from kilotune.codegen.scamp.graph import SumGraph, Term, Transform
from kilotune.codegen.scamp.kernel import signed_digits
from kilotune.codegen.scamp.plan import Plan, computed
from kilotune.codegen.scamp.selection import Placing, select
from kilotune.codegen.scamp.sums import InexactHalfError, Sum

MOST_TERMS = 240
"""Digits of all kernels together; every pair of a kernel is counted in every round."""

TermPair = tuple[int, int, int, int, int, int]
"""The sources of two terms, and what leads from the first one's transform to the second one's: cells, halvings, sign."""


def shared_plans(sums: Sequence[Sum], depth: int, target: str) -> Iterator[Plan]:
    """A program of the sums (units of `2**-depth`; none zero, none the image) that computes what they share once; nothing for kernels
    of very many digits, and where a half would not be exact. It may take many registers."""
    kernels = [_terms(total, depth) for total in sums]
    if sum(map(len, kernels)) > MOST_TERMS:
        return
    nodes: list[tuple[Term, ...]] = []
    while (pair := _commonest(kernels)) is not None:
        nodes.append(_node(pair))
        kernels = [_replaced(terms, pair, len(nodes)) for terms in kernels]
    results: list[Term | None] = []
    for terms in kernels:
        if len(terms) == 1:
            results.append(terms[0])
        else:
            nodes.append(tuple(terms))
            results.append(Term(len(nodes), Transform()))
    graph = SumGraph(depth, tuple(nodes), tuple(results))
    plan = select(graph, Placing.plain(graph), target)
    try:
        if computed(plan) == tuple(sums):
            yield plan
    except InexactHalfError:
        return


def _terms(total: Sum, depth: int) -> list[Term]:
    """The signed digits of a sum, each a transformed image."""
    return [
        Term(0, Transform(cell[0], cell[1], halvings, sign))
        for cell, weight in total
        for halvings, sign in signed_digits(Fraction(weight, 1 << depth), depth)
    ]


def _place(term: Term) -> tuple[int, int, int, int]:
    return (term.source, *term.transform.point)


def _pair(first: Term, second: Term) -> TermPair:
    """What two terms are to one another; `first` has the smaller place."""
    change = second.transform.then(first.transform.inverse())
    return first.source, second.source, change.x, change.y, change.halvings, change.sign


def _commonest(kernels: Sequence[Sequence[Term]]) -> TermPair | None:
    """The pair that most additions are saved with; of equally good ones the closest. None where none is found twice."""
    found: Counter[TermPair] = Counter()
    for terms in kernels:
        ordered = sorted(terms, key=_place)
        found.update(_pair(a, b) for index, a in enumerate(ordered) for b in ordered[index + 1 :])
    candidates = sorted(found, key=lambda pair: (-found[pair], sum(map(abs, pair[2:5])), pair))
    for pair in candidates[:8]:
        if found[pair] < 2:
            return None
        if sum(len(terms) - len(_replaced(terms, pair, 0)) for terms in kernels) > 1:
            return pair
    return None


def _node(pair: TermPair) -> tuple[Term, ...]:
    first, second, x, y, halvings, sign = pair
    return Term(first, Transform()), Term(second, Transform(x, y, halvings, sign))


def _replaced(terms: Sequence[Term], pair: TermPair, node: int) -> list[Term]:
    """The terms with every such pair, none overlapping, as one term of the node."""
    ordered, left = sorted(terms, key=_place), list[Term]()
    gone: set[int] = set()
    for index, first in enumerate(ordered):
        if index in gone:
            continue
        partner = next(
            (k for k in range(index + 1, len(ordered)) if k not in gone and _pair(first, ordered[k]) == pair), None
        )
        if partner is None:
            left.append(first)
        else:
            gone.add(partner)
            left.append(Term(node, first.transform))
    return left
