"""How many images another network may be expected to give another class, by how far its scores are off: for images that nobody has counted.

A search among many networks finds those that change no class of the few images that it counts on; on others they do. How far scores are off
is measured on all images and all classes, so that luck has less to choose from. What is off in proportion to the lead of a class makes
no other one win, and is left out; the rest is taken for normal and as large for all.
"""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen.arrays import Array

LEAST_SLOPE = 0.05
"""Scores that shrink to less than this part of themselves count as if they were of this part."""


def expected_changes(scores: Array, others: Array) -> float:
    """Images of another class to be expected among as many as these, from scores [images, classes] of the one network and of the other, in
    the same unit."""
    images = np.arange(len(scores))
    best = scores.argmax(axis=1)
    leads = scores[images, best][:, None] - scores
    off = (others[images, best][:, None] - others) - leads
    beaten = np.ones(scores.shape, bool)
    beaten[images, best] = False
    sizes = float(np.square(leads[beaten]).sum())
    slope = float((off[beaten] * leads[beaten]).sum()) / sizes if sizes else 0.0
    rest = float(np.sqrt(np.square(off[beaten] - slope * leads[beaten]).mean())) if beaten.any() else 0.0
    deviation = rest / max(1.0 + slope, LEAST_SLOPE)
    if not deviation:
        return 0.0
    tails = np.array([math.erfc(lead / deviation / math.sqrt(2)) / 2 for lead in leads.reshape(-1).tolist()])
    chances = np.where(beaten, tails.reshape(leads.shape), 0.0).sum(axis=1)
    return float(np.minimum(chances, 1.0).sum())
