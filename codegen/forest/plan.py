"""How a forest becomes a program: what its leaves say, which comparisons of each tree are code, and what is stored."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kilotune.codegen.forest.integers import Branch, IntegerForest, Threshold
from kilotune.codegen.forest.records import SHORT_FEATURES, RecordFormat, records, size_of, stored_branches, widest_skip

LOOPED = 3
"""From so many trees that are stored whole a loop calls for them."""


CODE, STORED = 0.0, math.inf
"""How many samples a comparison must at least meet to be code: all of them are, and none is."""


class Says(enum.Enum):
    """What a leaf holds: the label, where there is one tree; the number that it adds to its tree's score; or which row of votes."""

    LABEL = "label"
    NUMBER = "number"
    VOTES = "votes"


@dataclass(frozen=True, eq=False)
class ForestPlan:
    """`least` [trees]: comparisons that at least so many samples meet are code; the rest is stored. `trees`: as in the forest, their leaves
    what they say."""

    forest: IntegerForest
    least: tuple[float, ...]
    says: Says
    trees: tuple[Branch, ...]
    columns: tuple[int, ...]
    votes: Votes | None

    @cached_property
    def stored(self) -> tuple[tuple[Threshold, ...], ...]:
        """The branches of each tree that are records."""
        return tuple(tuple(stored_branches(tree, least)) for tree, least in zip(self.trees, self.least, strict=True))

    @property
    def samples(self) -> int:
        """How many samples were counted at the comparisons."""
        return self.forest.samples

    @property
    def narrow_form(self) -> RecordFormat:
        """The bytes of a record where no right branch is far behind."""
        head = 1 if self.forest.source.feature_count <= SHORT_FEATURES else 2
        return RecordFormat(head, self.forest.features.bits // 8, self.leaf_bytes, 1)

    @cached_property
    def form(self) -> RecordFormat:
        """The bytes of a record."""
        narrow = self.narrow_form
        branches = [branch for tree in self.stored for branch in tree]
        return narrow if widest_skip(branches, narrow) < 256 else replace(narrow, skip=2)

    @cached_property
    def leaf_bytes(self) -> int:
        """Bytes of what a leaf says."""
        if self.says is Says.LABEL:
            return 1
        if self.votes is not None:
            return 1 if self.votes.count <= 256 else 2
        return self.weight_bytes

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight in flash."""
        return self.forest.leaves.stored_bits // 8

    @cached_property
    def node_bytes(self) -> bytes:
        """All records, those of a tree behind those of the one before."""
        return b"".join(records(branch, self.form) for tree in self.stored for branch in tree)

    def offsets(self) -> list[list[int]]:
        """Where the stored branches of each tree begin."""
        found, at = list[list[int]](), 0
        for tree in self.stored:
            found.append([])
            for branch in tree:
                found[-1].append(at)
                at += size_of(branch, self.form)
        return found


@dataclass(frozen=True)
class Votes:
    """Rows of what leaves add. Leaf numbers below `classes` are a whole vote, `whole` for that class; the others rows [(class, weight)]."""

    classes: int
    whole: int
    rows: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def count(self) -> int:
        """How many numbers a leaf may have."""
        return self.classes + len(self.rows)

    def starts(self, weight_bytes: int) -> list[int]:
        """At which byte of `packed` each row begins."""
        return [int(at) * (1 + weight_bytes) for at in np.cumsum([0, *(len(row) for row in self.rows)])[:-1]]

    def packed(self, weight_bytes: int) -> bytes:
        """Entries as twice the class, odd where it is the last of a row, and its weight in two's complement, little-endian."""
        entries = [
            (score, weight, place == len(row) - 1) for row in self.rows for place, (score, weight) in enumerate(row)
        ]
        mask = (1 << 8 * weight_bytes) - 1
        return b"".join(
            bytes([2 * score + last]) + (weight & mask).to_bytes(weight_bytes, "little")
            for score, weight, last in entries
        )


def plan_forest(forest: IntegerForest, least: Sequence[float]) -> ForestPlan:
    """The forest with comparisons of each tree as code that at least so many samples meet: `CODE` for all, `STORED` for none."""
    count, rows = forest.rows.shape[1], forest.rows
    if forest.source.class_count is not None and len(forest.trees) == 1:
        labels = forest.outputs_of_rows()
        return _planned(forest, least, Says.LABEL, labels, (0,), None)
    columns = tuple(_column(tree, forest) for tree in forest.trees)
    if all(column is not None for column in columns):
        known = tuple(column or 0 for column in columns)
        trees = [_renumbered(tree, rows[:, column].tolist()) for tree, column in zip(forest.trees, known, strict=True)]
        return ForestPlan(forest, tuple(least), Says.NUMBER, tuple(trees), known, None)
    votes, numbers = _votes(rows, count)
    return _planned(forest, least, Says.VOTES, numbers, (0,) * len(forest.trees), votes)


def _planned(
    forest: IntegerForest,
    least: Sequence[float],
    says: Says,
    numbers: list[int],
    columns: tuple[int, ...],
    votes: Votes | None,
) -> ForestPlan:
    trees = tuple(_renumbered(tree, numbers) for tree in forest.trees)
    return ForestPlan(forest, tuple(least), says, trees, columns, votes)


def _renumbered(branch: Branch, numbers: list[int]) -> Branch:
    """The tree with other leaves; comparisons between equal ones are gone."""
    if isinstance(branch, int):
        return numbers[branch]
    left, right = _renumbered(branch.left, numbers), _renumbered(branch.right, numbers)
    return left if left == right else replace(branch, left=left, right=right)


def _leaves(branch: Branch) -> set[int]:
    return {branch} if isinstance(branch, int) else _leaves(branch.left) | _leaves(branch.right)


def _column(tree: Branch, forest: IntegerForest) -> int | None:
    """The only score that a tree adds to; None where there are several."""
    used = np.flatnonzero((forest.rows[sorted(_leaves(tree))] != 0).any(axis=0))
    return None if len(used) > 1 else int(used[0]) if len(used) else 0


def _votes(rows: np.ndarray, classes: int) -> tuple[Votes, list[int]]:
    """The rows, and the number of each."""
    alone = rows[(rows != 0).sum(axis=1) == 1].max(axis=1, initial=0)
    values, counts = np.unique(alone[alone > 0], return_counts=True)
    whole = int(values[counts.argmax()]) if len(values) else 0
    kept, numbers = list[tuple[tuple[int, int], ...]](), list[int]()
    for row in rows.tolist():
        entries = tuple((score, weight) for score, weight in enumerate(row) if weight)
        if len(entries) == 1 and entries[0][1] == whole:
            numbers.append(entries[0][0])
        else:
            numbers.append(classes + len(kept))
            kept.append(entries or ((0, 0),))
    return Votes(classes, whole, tuple(kept)), numbers
