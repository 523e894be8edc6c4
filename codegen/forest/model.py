"""Decision trees and ensembles of them, with real thresholds and leaves, and what they compute."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.class_names import ClassName


@dataclass(frozen=True, eq=False)
class Tree:
    """A sample goes from node `root` to `left` where its `feature` is at most the `threshold` (32-bit floats), else to `right`; a number
    below 0 is the leaf `-1 - number`. Each leaf is a row of `leaves` [leaves, scores], which is added to the scores."""

    feature: IntArray
    threshold: NDArray[np.float32]
    left: IntArray
    right: IntArray
    leaves: RealArray
    root: int

    @cached_property
    def depth(self) -> int:
        """The most comparisons that a sample meets."""
        level, depth = ([self.root] if self.root >= 0 else []), 0
        while level:
            level = [child for node in level for child in (int(self.left[node]), int(self.right[node])) if child >= 0]
            depth += 1
        return depth

    def leaf_of(self, features: RealArray) -> IntArray:
        """The leaf of every sample [samples]."""
        samples = features.astype(np.float32)
        at = np.full(len(samples), self.root, dtype=np.int64)
        for _ in range(self.depth):
            rows = np.flatnonzero(at >= 0)
            nodes = at[rows]
            goes_left = samples[rows, self.feature[nodes]] <= self.threshold[nodes]
            at[rows] = np.where(goes_left, self.left[nodes], self.right[nodes])
        return -1 - at


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose leaves are added to `base` [scores]. `class_count`: None for one that returns its scores as real numbers; one score
    tells two classes apart by its sign (the second is above zero), several by the first of the largest. `classes`: what the labels are
    called, where the file says it. `path`: the file it comes from."""

    path: str
    name: str
    feature_count: int
    trees: tuple[Tree, ...]
    base: RealArray
    class_count: int | None
    classes: tuple[ClassName, ...] = ()

    @property
    def score_count(self) -> int:
        """How many numbers a leaf adds to."""
        return len(self.base)

    @property
    def content(self) -> tuple[object, ...]:
        """What results depend on, for a fingerprint."""
        trees = [(t.feature, t.threshold, t.left, t.right, t.leaves, t.root) for t in self.trees]
        return self.feature_count, self.class_count, self.base, trees

    def scores(self, features: RealArray) -> NDArray[np.float32]:
        """Sums of leaves in 32-bit floats [samples, scores], in the order of the trees."""
        total = np.zeros((len(features), self.score_count), dtype=np.float32)
        for tree in self.trees:
            total += tree.leaves.astype(np.float32)[tree.leaf_of(features)]
        return total + self.base.astype(np.float32)

    def labels(self, features: RealArray) -> IntArray:
        """The class of every sample [samples]."""
        return labels_of(self.scores(features))


def labels_of(scores: NDArray[np.float32] | IntArray | RealArray) -> IntArray:
    """The classes that scores [samples, scores] stand for."""
    if scores.shape[1] == 1:
        return np.asarray(scores[:, 0] > 0, dtype=np.int64)
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)
