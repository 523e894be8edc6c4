"""Forests in integers: thresholds that keep every comparison, leaves that keep every class, and nothing that is implied by what was
compared before."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.forest.model import Forest, Tree, labels_of

LARGEST_DENOMINATOR = 1 << 12
"""Leaves are taken to be shares with denominators up to this."""

ROUNDING = 2.0**-22
"""How far a 32-bit float may be from the share that it stands for, as a part of it."""

FINEST_GRID = 15
"""The most fractional bits of features on a grid."""


class Given(enum.Enum):
    """How features are given. GRID: as multiples of a power of two, which they are; RANK: as how many thresholds of that feature are below
    them, which holds for all 32-bit floats."""

    GRID = "grid"
    RANK = "rank"


@dataclass(frozen=True)
class FeatureFormat:
    """Integers of `bits`; `scale`: of a grid, fractional bits."""

    given: Given
    bits: int
    scale: int = 0

    @property
    def name(self) -> str:
        """As decisions call it."""
        return f"{self.given.value}{self.bits}"

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest integer."""
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


@dataclass(frozen=True)
class LeafFormat:
    """`stored_bits` of a weight in flash, `score_bits` of their sums. `factor`: an integer is a weight times that, rounded to the nearest;
    `exact`: none of them is rounded. `signed`: whether there are weights below zero."""

    stored_bits: int
    score_bits: int
    factor: float
    exact: bool
    signed: bool


@dataclass(frozen=True)
class Threshold:
    """A comparison: `left` where the feature's integer is at most the threshold. A whole number is a leaf: which row. `samples`: how many
    of those that were counted (`counted`) meet it, of which `left_samples` go left; no part of what the comparison is."""

    feature: int
    threshold: int
    left: Threshold | int
    right: Threshold | int
    samples: int = field(default=0, compare=False)
    left_samples: int = field(default=0, compare=False)


Branch = Threshold | int


@dataclass(frozen=True, eq=False)
class IntegerForest:
    """`trees`: their roots, whose leaves are rows of `rows` [distinct, scores]; `thresholds`: of a feature in ranks, the 32-bit floats in
    order. `base` [scores]."""

    source: Forest
    features: FeatureFormat
    leaves: LeafFormat
    trees: tuple[Branch, ...]
    rows: IntArray
    base: IntArray
    thresholds: Mapping[int, NDArray[np.float32]]
    samples: int = 0

    def quantise(self, features: RealArray) -> IntArray:
        """Features as the program takes them [samples, features]; on a grid rounded toward zero, beyond its range the end of it."""
        low, high = self.features.range
        if self.features.given is Given.GRID:
            scaled = np.trunc(np.ldexp(features, self.features.scale))
            return np.asarray(np.clip(scaled, low, high).astype(np.int64))
        samples = features.astype(np.float32)
        ranks = np.full(samples.shape, low, dtype=np.int64)
        for feature, thresholds in self.thresholds.items():
            ranks[:, feature] = low + np.searchsorted(thresholds, samples[:, feature], side="left")
        return ranks

    def scores(self, integers: IntArray) -> IntArray:
        """What the program adds up [samples, scores] for features as it takes them."""
        total = np.broadcast_to(self.base, (len(integers), len(self.base))).copy()
        for tree in self.trees:
            rows = np.zeros(len(integers), dtype=np.int64)
            fill_leaves(tree, integers, np.arange(len(integers)), rows)
            total += self.rows[rows]
        return total

    def outputs(self, integers: IntArray) -> IntArray:
        """Its results [samples, results]: the class, or the scores."""
        scores = self.scores(integers)
        return scores if self.source.class_count is None else labels_of(scores)[:, None]

    def outputs_of_rows(self) -> list[int]:
        """The class that each row stands for, alone with the base."""
        return [int(label) for label in labels_of(self.rows + self.base)]

    @property
    def error(self) -> float:
        """The most by which rounded weights move the difference of two scores, in units of the integers."""
        if self.leaves.exact:
            return 0.0
        return 1.0 * (len(self.trees) + 1)


def fill_leaves(branch: Branch, integers: IntArray, samples: IntArray, rows: IntArray) -> None:
    """The row of every sample below that branch."""
    if isinstance(branch, int):
        rows[samples] = branch
        return
    if len(samples):
        goes_left = integers[samples, branch.feature] <= branch.threshold
        fill_leaves(branch.left, integers, samples[goes_left], rows)
        fill_leaves(branch.right, integers, samples[~goes_left], rows)


def counted(forest: IntegerForest, integers: IntArray) -> IntegerForest:
    """The forest with how many of these samples (as the program takes them) meet each comparison."""
    everything = np.arange(len(integers))
    return replace(
        forest, trees=tuple(_counted(tree, integers, everything) for tree in forest.trees), samples=len(integers)
    )


def _counted(branch: Branch, integers: IntArray, samples: IntArray) -> Branch:
    if isinstance(branch, int):
        return branch
    goes_left = integers[samples, branch.feature] <= branch.threshold
    left, right = (
        _counted(way, integers, samples[goes]) for way, goes in ((branch.left, goes_left), (branch.right, ~goes_left))
    )
    return Threshold(branch.feature, branch.threshold, left, right, len(samples), int(goes_left.sum()))


def feature_formats(forest: Forest, features: RealArray) -> tuple[FeatureFormat, ...]:
    """What keeps every comparison: a grid that all these samples are on, in the fewest bits, and ranks, which always do."""
    found = list[FeatureFormat]()
    scale = _grid(features)
    most = float(np.abs(features).max()) if features.size else 0.0
    if scale is not None:
        found += [
            FeatureFormat(Given.GRID, bits, scale) for bits in (8, 16) if math.ldexp(most, scale) < 1 << (bits - 1)
        ][:1]
    distinct = max((len(values) for values in _thresholds(forest).values()), default=0)
    return (*found, FeatureFormat(Given.RANK, 8 if distinct < 256 else 16))


def _grid(features: RealArray) -> int | None:
    """The fewest fractional bits that hold all features; None beyond 16 bits in all."""
    for scale in range(FINEST_GRID + 1):
        scaled = np.ldexp(features, scale)
        if not (np.abs(scaled) < 1 << 15).all():
            return None
        if (scaled == np.trunc(scaled)).all():
            return scale
    return None


def _thresholds(forest: Forest) -> dict[int, NDArray[np.float32]]:
    """By feature, those of all trees in order."""
    pairs = np.concatenate([np.c_[tree.feature, tree.threshold] for tree in forest.trees])
    return {int(f): np.unique(pairs[pairs[:, 0] == f, 1].astype(np.float32)) for f in np.unique(pairs[:, 0])}


def leaf_formats(forest: Forest) -> Mapping[str, LeafFormat]:
    """Ways of storing what leaves add, by name; those of one factor once, the smaller first."""
    weights = np.unique(np.concatenate([tree.leaves.reshape(-1) for tree in forest.trees]))
    signed, most = bool((weights < 0).any()), float(np.abs(weights).max(initial=0.0))
    total = float(np.max(np.abs(forest.base) + sum(np.abs(tree.leaves).max(axis=0) for tree in forest.trees)))
    shares = None if forest.class_count is None else _common_denominator(np.concatenate([weights, forest.base]))
    found: dict[str, LeafFormat] = {}
    for name, stored, wide in (("int8", 8, 16), ("int16", 16, 16), ("int16 in 32", 16, 32)):
        room = (1 << (stored - 1 if signed else stored)) - 1
        largest = min(
            room / most if most else math.inf,
            ((1 << (wide - 1)) - 1 - len(forest.trees)) / total if total else math.inf,
        )
        if not math.isfinite(largest):
            largest = 1.0
        exact = shares is not None and shares <= largest
        factor = float(shares) if exact and shares is not None else largest
        if forest.class_count is None:
            factor = math.ldexp(1.0, math.frexp(largest)[1] - 1)
        known = [one.factor for one in found.values()]
        if factor not in known:
            found[name] = LeafFormat(stored, wide, factor, exact, signed)
    return MappingProxyType(found)


def _common_denominator(weights: RealArray) -> int | None:
    """The least whole number that makes whole numbers of all; None where they are no shares of small numbers."""
    common = 1
    for weight in weights.tolist():
        share = Fraction(weight).limit_denominator(LARGEST_DENOMINATOR)
        if abs(float(share) - weight) > ROUNDING * abs(weight):
            return None
        common = math.lcm(common, share.denominator)
        if common > 1 << 31:
            return None
    return common


def integer_forest(forest: Forest, features: FeatureFormat, leaves: LeafFormat) -> IntegerForest:
    """The forest in these formats."""
    thresholds = _thresholds(forest) if features.given is Given.RANK else {}
    numbers: dict[tuple[int, ...], int] = {}
    trees = []
    for tree in forest.trees:
        integers = _integer_thresholds(tree, features, thresholds)
        weights = np.rint(tree.leaves * leaves.factor).astype(np.int64)
        rows = [numbers.setdefault(tuple(row), len(numbers)) for row in weights.tolist()]
        trees.append(_branch(tree, integers, rows, tree.root, {}, features.range))
    base = np.rint(forest.base * leaves.factor).astype(np.int64)
    rows_made = np.array(list(numbers), dtype=np.int64).reshape(len(numbers), forest.score_count)
    return IntegerForest(forest, features, leaves, tuple(trees), rows_made, base, MappingProxyType(thresholds))


def _integer_thresholds(
    tree: Tree, features: FeatureFormat, thresholds: Mapping[int, NDArray[np.float32]]
) -> list[int]:
    """x <= t as integers: on the grid the next multiple below t; in ranks how many thresholds are below t."""
    low, high = features.range
    if features.given is Given.GRID:
        scaled = np.floor(np.ldexp(tree.threshold.astype(np.float64), features.scale))
        return [int(value) for value in np.clip(scaled, low - 1, high)]
    pairs = zip(tree.feature.tolist(), tree.threshold, strict=True)
    return [low + int(np.searchsorted(thresholds[feature], value)) for feature, value in pairs]


def _branch(
    tree: Tree,
    thresholds: list[int],
    rows: list[int],
    node: int,
    known: dict[int, tuple[int, int]],
    whole: tuple[int, int],
) -> Branch:
    """What is left to compare where features are known to be within `known`, else within `whole`."""
    if node < 0:
        return rows[-1 - node]
    feature, threshold = int(tree.feature[node]), thresholds[node]
    low, high = known.get(feature, whole)
    if threshold >= high:
        return _branch(tree, thresholds, rows, int(tree.left[node]), known, whole)
    if threshold < low:
        return _branch(tree, thresholds, rows, int(tree.right[node]), known, whole)
    left = _branch(tree, thresholds, rows, int(tree.left[node]), {**known, feature: (low, threshold)}, whole)
    right = _branch(tree, thresholds, rows, int(tree.right[node]), {**known, feature: (threshold + 1, high)}, whole)
    return left if left == right else Threshold(feature, threshold, left, right)


def undecided(forest: IntegerForest, features: RealArray) -> int:
    """How many samples there are whose class rounding of leaves alone does not prove: the margin of the exact sums is within what it may
    move."""
    exact = np.broadcast_to(forest.source.base, (len(features), forest.source.score_count)).copy()
    for tree in forest.source.trees:
        exact += tree.leaves[tree.leaf_of(features)]
    if exact.shape[1] == 1:
        margins = np.abs(exact[:, 0])
    else:
        ranked = np.sort(exact, axis=1)
        margins = ranked[:, -1] - ranked[:, -2]
    return int((margins * forest.leaves.factor <= forest.error).sum()) if forest.error else 0
