"""generatePairs of Algorithm 1: all splits of a state, or those of maximum size, in the order of the heuristics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.splits import (
    Split,
    Sums,
    after_split,
    divided,
    largest_pair,
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


def largest_splits(sums: Sums, most_sums: int, factors: bool = True) -> list[NamedSplit]:
    """Splits into pairs of maximum size that leave at most `most_sums` sums; with `factors` also exact divisions, whose
    halves need not be parts of the sum. No two lead to the same state by the same transformation."""
    found: dict[tuple[object, ...], NamedSplit] = {}
    for a_from, b_from in sum_choices(sums):
        for t in transformations(sums, a_from, b_from):
            pairs: list[tuple[str, Sum | None]] = [("first", largest_pair(sums, a_from, b_from, t))]
            if a_from == b_from:
                pairs.append(("last", largest_pair(sums, a_from, b_from, t, backwards=True)))
                if factors:
                    pairs.append(("factor", divided(sums[a_from], t)))
            for how, b in pairs:
                if not b:
                    continue
                split = Split(a_from, b_from, t, b)
                after = after_split(sums, split)
                if len(after) <= most_sums and after != sums:
                    found.setdefault((t.length, frozenset(after)), NamedSplit(split_name(split, how), split, after))
    return list(found.values())


def all_splits(sums: Sums, most_sums: int) -> Iterator[NamedSplit]:
    """Every split of the paper's search space: all sub-multisets of the pairs of maximum size. Exponentially many."""
    for a_from, b_from in sum_choices(sums):
        for t in transformations(sums, a_from, b_from):
            for b in _pairable(sums, a_from, b_from, t):
                split = Split(a_from, b_from, t, b)
                if split.is_paired(sums):
                    after = after_split(sums, split)
                    if len(after) <= most_sums and after != sums:
                        yield NamedSplit(split_name(split, None), split, after)


def _pairable(sums: Sums, a_from: int, b_from: int, t: object) -> Iterator[Sum]:
    source = sums[b_from]
    ranges = [range(0, weight + (1 if weight > 0 else -1), 1 if weight > 0 else -1) for _, weight in source]
    for shares in product(*ranges):
        if any(shares):
            yield Sum(tuple((cell, share) for (cell, _), share in zip(source, shares, strict=True) if share))
