"""The loss of a classifier's scores by labels: cross entropy with smoothed labels (Szegedy et al., CVPR 2016)."""

from __future__ import annotations

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray

SMOOTHING = 0.05
"""What labels give away to all classes alike."""


def smoothed(labels: IntArray, scores: int, smoothing: float = SMOOTHING) -> FloatArray:
    """What classes' chances should be [scores, samples]; of a single score, whose sign is the class, the second one's [1, samples]."""
    if scores == 1:
        return np.asarray(labels * (1.0 - smoothing) + smoothing / 2, dtype=np.float64)[None]
    wanted = np.full((scores, len(labels)), smoothing / scores)
    wanted[labels, np.arange(len(labels))] += 1.0 - smoothing
    return wanted


def chances(scores: FloatArray) -> FloatArray:
    """What scores [scores, samples] make of them: by softmax, of a single one by the logistic function."""
    if len(scores) == 1:
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(scores, -500.0, 500.0))))
    powers = np.exp(scores - scores.max(axis=0))
    return np.asarray(powers / powers.sum(axis=0))


def cross_entropy(scores: FloatArray, wanted: FloatArray) -> float:
    """The mean loss of samples."""
    found = np.clip(chances(scores), 1e-30, 1.0)
    of_others = (1.0 - wanted) * np.log(np.clip(1.0 - found, 1e-30, 1.0)) if len(scores) == 1 else 0.0
    return -float((wanted * np.log(found) + of_others).sum(axis=0).mean())
