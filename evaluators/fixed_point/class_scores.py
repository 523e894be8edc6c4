"""What the accuracy of a classifier is counted in: every sample alike, or every class alike."""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray


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

    def percent(self, labels: npt.NDArray[np.signedinteger], targets: FloatArray) -> FloatArray:
        """Scores [candidates] of labels [candidates, samples] where `targets` [samples] are right."""
        right = labels == targets
        if self is ClassScore.ACCURACY:
            return np.asarray(100.0 * right.mean(axis=1))
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
