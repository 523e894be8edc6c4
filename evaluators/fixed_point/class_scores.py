"""What the accuracy of a classifier is counted in: every sample alike, or every class alike."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import BoolArray, FloatArray, IntArray

Labels = npt.NDArray[np.int16] | FloatArray
"""Labels [samples], in 16 bits where they all are such numbers: these are compared five times as fast."""


@dataclass(frozen=True)
class KnownLabels:
    """What labels of candidates are compared with: the float program's and the true ones, and where the former are right, [samples]."""

    of_float: Labels
    targets: Labels
    float_is_right: BoolArray

    @classmethod
    def of(cls, of_float: FloatArray, targets: FloatArray) -> KnownLabels:
        return cls(_in_few_bits(of_float), _in_few_bits(targets), of_float == targets)


def _in_few_bits(labels: FloatArray) -> Labels:
    with np.errstate(invalid="ignore"):
        narrow = labels.astype(np.int16)
    return narrow if np.array_equal(narrow, labels) else labels


def count_by_row(found: BoolArray) -> IntArray:
    """How many are true in each row [N]: in 16 bits, where they are enough, summed five times as fast as booleans are."""
    kind = np.uint16 if found.shape[1] < 1 << 16 else np.int64
    return np.asarray(np.add.reduce(found.view(np.uint8), axis=1, dtype=kind), dtype=np.int64)


class ClassScore(enum.Enum):
    """A score from 0 to 100 per cent of labels against the true ones.

    ACCURACY: the share of the samples that are right. BALANCED: the mean over the classes of the share of their samples that are right
    (balanced accuracy). F1: the mean over the classes, those that only labels name among them, of the harmonic mean of precision and
    recall (macro F1).
    """

    ACCURACY = "accuracy"
    BALANCED = "balanced"
    F1 = "f1"

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return {ClassScore.BALANCED: "balanced_accuracy_percent", ClassScore.F1: "f1_percent"}.get(
            self, "accuracy_percent"
        )

    @property
    def words(self) -> str:
        """What it is called in a sentence."""
        return {ClassScore.BALANCED: "balanced accuracy", ClassScore.F1: "F1"}.get(self, "accuracy")

    def percent(self, labels: npt.NDArray[np.signedinteger], targets: Labels) -> FloatArray:
        """Scores [candidates] of labels [candidates, samples] where `targets` [samples] are right."""
        right = labels == targets
        if self is ClassScore.ACCURACY:
            return np.asarray(100.0 * (count_by_row(right) / labels.shape[1]))
        sums = np.zeros(len(labels))
        classes = np.zeros(len(labels))
        for one in np.union1d(targets, labels) if self is ClassScore.F1 else np.unique(targets):
            there = targets == one
            hits = right[:, there].sum(axis=1)
            if self is ClassScore.BALANCED:
                sums, classes = sums + hits / there.sum(), classes + 1
                continue
            named = (labels == one).sum(axis=1) + there.sum()
            sums, classes = sums + 2 * hits / np.maximum(named, 1), classes + (named > 0)
        return np.asarray(100.0 * sums / classes)

    def percent_at_best(self, labels: npt.NDArray[np.signedinteger], targets: FloatArray) -> FloatArray:
        """As `percent`, of labels that are known of the first samples only, [candidates, first ones]: with all others right, above which
        no candidate comes."""
        others = np.broadcast_to(targets[labels.shape[1] :], (len(labels), len(targets) - labels.shape[1]))
        return self.percent(np.concatenate([labels, others.astype(labels.dtype)], axis=1), targets)
