"""Whether a model has been trained with certain samples, which nobody says of a file.

Where training ends, the samples' gradients of the loss nearly cancel out; those of other samples of the same kind do not, whose mean is
as far from zero as that of so many vectors drawn at random. So n |mean|^2 is less than the mean of |gradient - mean|^2 for samples that a
model has met, and about as much, or more, for others. The first was 0 to 0.4 of the second for 13 of 18 models on their training samples,
whether these were learnt by heart or hardly at all, and 0.5 to 1.4 for 5 that were not trained to the end. On 360 drawings of 40 to 300
samples that two models had not met it was 1.1 with a deviation of 0.2, less than 0.6 in one of them, and never less than 0.5. Gradients of
few parameters have few directions, and by chance their mean is next to nothing more often: so these have to be nearer to zero.
"""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.looped_steps import LoopedSteps, sample_blocks
from kilotune.codegen.reverse_accumulation import parameter_gradients
from kilotune.codegen.unit_pruning import FloatModel
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.spaces.shiftry.label_loss import chances, smoothed

MET = 0.5
"""Less than this ratio is not chance, of models whose gradients have many directions."""

CHANCE = 2.33
"""Deviations of a normal number that one in a hundred is below."""

COMPARED = 256
"""Samples whose gradients tell how many directions there are."""


def has_met(task: Task, steps: LoopedSteps, row: int) -> bool:
    """Whether the model of a task has surely been trained with its samples, by the cross entropy of the scores that operation number `row`
    decides by."""
    ratio, directions = cancelled(task, steps, row)
    return ratio < min(MET, _least_by_chance(directions))


def cancelled(task: Task, steps: LoopedSteps, row: int) -> tuple[float, float]:
    """That ratio, and in how many directions gradients spread about alike; (1, 1) where all gradients are alike."""
    assert task.targets is not None
    labels, model = np.asarray(task.targets).astype(np.int64), FloatModel(task.program, task.parameters)
    read = sum(source.elements.size for step in steps for source in step.sources)
    held = read + steps.elements_in_all + sum(values.size for values in task.parameters.values())
    total, squares, some = np.zeros(0), 0.0, np.zeros((0, 0))
    for block in sample_blocks(held, len(labels)):
        wanted = labels[block]

        def seed(scores: FloatArray, wanted: IntArray = wanted) -> FloatArray:
            every = np.broadcast_to(scores, (len(scores), len(wanted)))
            return np.asarray(chances(every) - smoothed(wanted, len(scores), 0.0))

        found = parameter_gradients(model, steps, task.features[block], row, seed)
        gradients = np.concatenate([found[name] for name in sorted(found)])
        total = gradients.sum(axis=1) + (total if total.size else 0.0)
        squares += float(np.square(gradients).sum())
        few = gradients[:, : COMPARED - some.shape[1]]
        some = np.concatenate([some, few], axis=1) if some.size else few
    of_mean = float(total @ total) / len(labels)  # n |mean|^2
    spread = (squares - of_mean) / len(labels)
    if not spread > 0.0:
        return 1.0, 1.0
    return of_mean / spread, _directions(some - total[:, None] / len(labels))


def _directions(gradients: FloatArray) -> float:
    """The square of what their variances along all axes are together, beside the sum of the squares of these [.., samples]: products of
    two samples' gradients have that sum as their mean square."""
    products = np.square(gradients.T @ gradients)
    count, own = len(products), float(np.square(gradients).sum())
    others = float(products.sum() - np.trace(products))
    return max(1.0, (own / count) ** 2 / (others / (count * (count - 1)))) if others > 0.0 else 1.0


def _least_by_chance(directions: float) -> float:
    """What a mean of so many squares of normal numbers is rarely below (Wilson and Hilferty, PNAS 1931)."""
    part = 2.0 / (9.0 * directions)
    return float(max(0.0, 1.0 - part - CHANCE * math.sqrt(part)) ** 3)
