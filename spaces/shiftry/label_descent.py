"""Single codes of a trained candidate moved until it is as right on the training samples as the float model.

A training ends where a mean over samples with noise is least, so that of a thousand samples one or two may be wrong which the float model
has right. A few codes make up for these, and the program itself says which: each code is moved to the one beside it, and of the moves after
which more samples are right the one is made after which most samples and made-up inputs are, which are other samples with noise than the
program is compared on afterwards. A move by which these lose more than the samples gain is none. It takes less time than a training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.fresh_inputs import LABELLED_NOISE, affordable_inputs
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.evaluators.fixed_point.similar_inputs import labelled_inputs
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.fitted_codes import (
    MEASURED_TOGETHER,
    CodeMove,
    codes_beside,
    moved,
    moves_to,
    weights_that_move,
    with_encodings,
)
from kilotune.spaces.shiftry.formats import DEMOTED_BITS

MADE_UP, SEED = 10_000, 3
"""Inputs that are made up, at the most, and what they are drawn with: neither those that programs are compared on nor others."""

LOOKED_AT = 32
"""Moves that are asked of made-up inputs before one is made: those after which most samples are right."""

NO_GAIN = 1e-9
"""Points of two scores that digits beyond the last one of floating-point numbers may come to."""


def descended(
    formats: ShiftryCandidates, batch: FixedBatch, encodings: Mapping[int, ParameterEncoding], most_runs: int
) -> dict[int, ParameterEncoding]:
    """The encodings of a single candidate after such moves of codes of at most 8 bits, for which programs run on no more than `most_runs`
    samples and inputs."""
    found, aim = dict(encodings), formats.evaluator.float_metrics[formats.task.score.metric]
    samples = formats.evaluator.afresh()  # what it keeps of every code that was tried goes with it
    (right,) = _scores(samples, batch, [found])
    if right >= aim:
        return found
    made_up, weights = _made_up(samples), list(weights_that_move(formats, _movable(found)))
    of_both = right + _scores(made_up, batch, [found])[0]
    runs_a_move = 2 * len(weights) * len(samples.task.features) + LOOKED_AT * len(made_up.task.features)
    for _ in range(most_runs // runs_a_move):
        moves = moves_to(found, weights, codes_beside(formats, batch, found, weights))
        scores = _scores_after(samples, batch, found, moves)
        looked_at = [i for i in np.argsort(-scores, kind="stable")[:LOOKED_AT].tolist() if scores[i] > right]
        sums = scores[looked_at] + _scores_after(made_up, batch, found, [moves[i] for i in looked_at])
        if not looked_at or sums.max() <= of_both + NO_GAIN:
            break
        chosen = looked_at[int(np.argmax(sums))]
        found, right, of_both = moved(found, [moves[chosen]]), scores[chosen], sums.max()
        if right >= aim:
            break
    return found


def _movable(encodings: Mapping[int, ParameterEncoding]) -> dict[int, ParameterEncoding]:
    return {column: encoding for column, encoding in encodings.items() if encoding.width <= DEMOTED_BITS}


def _made_up(samples: FixedPointEvaluator) -> FixedPointEvaluator:
    """The program on samples with noise, which have the samples' labels."""
    task = samples.task
    assert task.targets is not None
    count = min(MADE_UP, affordable_inputs(samples))
    inputs, labels = labelled_inputs(task.features, task.targets, count, LABELLED_NOISE, SEED)
    return samples.on(replace(task, features=inputs, targets=labels))


def _scores_after(
    evaluator: FixedPointEvaluator,
    batch: FixedBatch,
    encodings: Mapping[int, ParameterEncoding],
    moves: Sequence[CodeMove],
) -> FloatArray:
    """The task's score [moves] of a single candidate after each of some moves alone."""
    parts = [moves[start : start + MEASURED_TOGETHER] for start in range(0, len(moves), MEASURED_TOGETHER)]
    found = [_scores(evaluator, batch, [moved(encodings, [move]) for move in part]) for part in parts]
    return np.concatenate([np.zeros(0), *found])


def _scores(
    evaluator: FixedPointEvaluator, batch: FixedBatch, sets: Sequence[Mapping[int, ParameterEncoding]]
) -> FloatArray:
    """The task's score [sets] of a single candidate with each of several sets of encodings."""
    task = evaluator.task
    assert task.targets is not None
    classes = evaluator.simulator.run(with_encodings(batch, sets))[:, :, 0]
    return task.score.percent(classes, task.targets)
