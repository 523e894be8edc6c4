"""generatePairs of Algorithm 1: all splits of a state, or those of maximum size, in the order of the heuristics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.splits import (
    MOST_DOUBLINGS,
    Split,
    Sums,
    Transformation,
    after_split,
    divided,
    largest_pair,
    largest_share,
    split_name,
    transformations,
)


@dataclass(frozen=True)
class NamedSplit:
    """A split, the text that it is called by, and the state that it leads to."""

    name: str
    split: Split
    after: Sums


def sum_choices(sums: Sums) -> Iterator[tuple[int, int]]:
    """Which sums A and B come from: n within one, n(n-1) between two (Table 2; either may be the one that is kept)."""
    for a_from in range(len(sums)):
        yield a_from, a_from
    for a_from, b_from in product(range(len(sums)), repeat=2):
        if a_from != b_from:
            yield a_from, b_from


def largest_splits(sums: Sums, most_sums: int, paper: bool = False) -> list[NamedSplit]:
    """Splits into pairs of maximum size that leave at most `most_sums` sums. No two lead to the same state by a
    transformation of the same length.

    The `paper` knows both directions of every move, for its cost is that before relaxation; and it does not know exact
    divisions, whose halves need not be parts of the sum.
    """
    found: dict[tuple[object, ...], NamedSplit] = {}
    for a_from, b_from in sum_choices(sums):
        for t in transformations(sums, a_from, b_from, both_ways=paper):
            pairs: list[tuple[str, Sum | None]] = [("first", largest_pair(sums, a_from, b_from, t))]
            if a_from == b_from:
                pairs.append(("last", largest_pair(sums, a_from, b_from, t, backwards=True)))
            for how, b in pairs:
                _keep(found, sums, most_sums, Split(a_from, b_from, t, b) if b else None, how)
    for number, total in enumerate(() if paper else sums):
        for t in _factor_steps(total):
            b = divided(total, t)
            _keep(found, sums, most_sums, Split(number, number, t, b) if b else None, "factor")
    return list(found.values())


def _keep(
    found: dict[tuple[object, ...], NamedSplit], sums: Sums, most_sums: int, split: Split | None, how: str
) -> None:
    if split is None:
        return
    after = after_split(sums, split)
    if len(after) <= most_sums and after != sums:
        key = (split.transformation.length, frozenset(after))
        found.setdefault(key, NamedSplit(split_name(split, how), split, after))


def _factor_steps(total: Sum) -> Iterator[Transformation]:
    """Candidates for t in the factor 1 + t. A sum of one sign has no factor whose pairs are not parts of it; in others pairs that
    cancel need no two cells at this distance."""
    if len({weight > 0 for _, weight in total}) < 2:
        return
    west, south, east, north = total.box
    across, up = range(west - east, east - west + 1), range(south - north, north - south + 1)
    for dx, dy, doublings, negated in product(across, up, range(MOST_DOUBLINGS + 1), (False, True)):
        if (dx, dy) > (0, 0) or (doublings and (dx, dy) != (0, 0)):
            yield Transformation(dx, dy, doublings, negated)


def all_splits(sums: Sums, most_sums: int) -> Iterator[NamedSplit]:
    """Every split of the paper's search space: all sub-multisets of the sums as B. Exponentially many."""
    for a_from, b_from in sum_choices(sums):
        for t in transformations(sums, a_from, b_from, both_ways=True):
            for b in _parts(sums, a_from, b_from, t):
                split = Split(a_from, b_from, t, b)
                if split.is_paired(sums):
                    after = after_split(sums, split)
                    if len(after) <= most_sums and after != sums:
                        yield NamedSplit(split_name(split, None), split, after)


def _parts(sums: Sums, a_from: int, b_from: int, t: Transformation) -> Iterator[Sum]:
    """The sub-multisets of a sum each of whose cells alone has a partner: all that can be B, and more."""
    a_weights = sums[a_from].weights()
    cells, ranges = [], []
    for (x, y), weight in sums[b_from]:
        to = (x + t.east, y + t.north)
        most = largest_share(weight, a_weights.get(to, 0), t, a_from == b_from and to == (x, y))
        if most:
            step = (1 << max(-t.doublings, 0)) * (1 if most > 0 else -1)
            cells.append((x, y))
            ranges.append(range(0, most + (1 if most > 0 else -1), step))
    for shares in product(*ranges):
        if any(shares):
            yield Sum(tuple((cell, share) for cell, share in zip(cells, shares, strict=True) if share))
