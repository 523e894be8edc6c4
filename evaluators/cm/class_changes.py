"""How many images another network gives another class, and how many it may be expected to, by how far its scores are off.

A search among many networks finds those that change no class of the few images that it counts on; on others they do. How far scores are off
is measured on all images and all classes, so that luck has less to choose from. What is off in proportion to the lead of a class makes
no other one win, and is left out; the rest is taken for normal and as large for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.graph import Graph
from kilotune.evaluators.cm.fidelity import chosen_classes

LEAST_SLOPE = 0.05
"""Scores that shrink to less than this part of themselves count as if they were of this part."""

UNCOUNTED = 0.5
"""Expected changes that are no loss: half an image is none."""


@dataclass(frozen=True)
class ClassChanges:
    """How many of so many images have another class, and how many of as many others may be expected to."""

    images: int
    changed: int
    expected: float

    @property
    def lost_points(self) -> float:
        """Images of another class and one standard error of their count, of a hundred; or those that may be expected, to half an image,
        where these are more."""
        return 100 * max(self.changed + math.sqrt(self.changed), self.expected - UNCOUNTED) / self.images


def class_changes(graph: Graph, scores: Array, others: Array) -> ClassChanges:
    """From what two networks that were made of the classifier `graph` compute of the same images, [images, elements], in the same unit.
    Where it ends in classes instead of scores nothing is known but their number."""
    changed = int((chosen_classes(graph, scores) != chosen_classes(graph, others)).sum())
    expected = expected_changes(scores, others) if scores.shape[1] > 1 else float(changed)
    return ClassChanges(len(scores), changed, expected)


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
