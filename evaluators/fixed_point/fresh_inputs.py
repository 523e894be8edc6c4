"""Flips on inputs like the samples that nothing was chosen by: neither a candidate among thousands nor the codes of its weights.

Among thousands of candidates the best on the samples is partly lucky there, and what was fitted to them is right on them more often than
elsewhere. So a few finalists are executed on inputs that are made up for that alone; the float program says what their classes are.
Two of them are told apart by who changes the class of fewer of many such inputs, which only counts as a difference beyond chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.evaluators.fixed_point.similar_inputs import (
    MOST_TOUCHED,
    inputs_for_margins,
    labelled_inputs,
    similar_inputs,
)

SEED = 1
"""Other inputs than those that margins are taken of and codes are fitted to."""


PAIRED_SEED = 2
"""Other ones again, since finalists with fitted codes are ranked by those of SEED."""

MOST_PAIRED, LEAST_PAIRED = 100_000, 200
"""Inputs that two programs are compared on, if the float program does not touch too much there. On generated models 5000 tell
a third fewer of the better ones apart than 20 000, and 2000 two thirds fewer; with 20 000 which inputs they are decides about some.
Fewer inputs keep more of the procedure's answers, and not to compare at all keeps none: so large programs, too, are compared."""

MOST_TOUCHED_PAIRED = 2 * MOST_TOUCHED
"""Values that the float program may write and read on them: 0.2 to 2 CPU-seconds with both programs (measured on bundled models)."""

LABELLED_NOISE = 0.6
"""Standard deviations of a feature that inputs with the label of a sample are away from it: more than codes are trained with. Of 75 pairs
of rounded and trained codes of perceptrons the better one on test samples is so chosen in 67, by training accuracy in 36."""

MOST_FEATURES = 1 << 24
"""Numbers that these inputs have together: 128 MB."""


class PairedFlips(NamedTuple):
    """Two programs on so many `inputs`, which are like so many `samples`: of how many the first alone changes the class, or gives another
    one than the label, the second alone, and both."""

    inputs: int
    samples: int
    only_first: int
    only_second: int
    both: int


class Finalist(NamedTuple):
    """A program, a batch of one, and an evaluator of its model on the samples."""

    samples: FixedPointEvaluator
    program: FixedBatch


def paired_flips(first: Finalist, second: Finalist) -> PairedFlips | None:
    """Two programs of a classifier on the same made-up inputs like the samples, which are those of the first; the other one may be of a
    smaller model. None for a program that returns no class, and where it touches so much that there is no time for LEAST_PAIRED of
    them."""
    task, count = first.samples.task, affordable_inputs(first.samples)
    if count < LEAST_PAIRED:
        return None
    inputs = similar_inputs(task.features, count, PAIRED_SEED)
    left, right = (_flipped(one, inputs) for one in (first, second))
    return paired(len(task.features), left, right)


def paired_errors(first: Finalist, second: Finalist) -> PairedFlips | None:
    """As `paired_flips`, but counted is who gives an input another class than the label of the sample that it is made of, which is that of
    the first program's samples with noise. None, too, where these have no labels."""
    task, count = first.samples.task, affordable_inputs(first.samples)
    if count < LEAST_PAIRED or task.targets is None:
        return None
    inputs, labels = labelled_inputs(task.features, task.targets, count, LABELLED_NOISE, PAIRED_SEED)
    left, right = (_evaluator_on(one, inputs).simulator.run(one.program)[0, :, 0] != labels for one in (first, second))
    return paired(len(task.features), left, right)


def sample_errors(first: Finalist, second: Finalist) -> PairedFlips:
    """As `paired_errors`, of the samples themselves, which are those of the first program and have labels."""
    labels = first.samples.task.targets
    assert labels is not None
    left, right = (one.samples.simulator.run(one.program)[0, :, 0] != labels for one in (first, second))
    return paired(len(labels), left, right)


def affordable_inputs(samples: FixedPointEvaluator) -> int:
    """On how many made-up inputs programs of a classifier can be compared; none of other programs."""
    task = samples.task
    if task.program.result_kind is not ir.ResultKind.CLASS:
        return 0
    affordable = MOST_TOUCHED_PAIRED // max(1, samples.simulator.steps.elements_touched)
    return int(min(MOST_PAIRED, affordable, MOST_FEATURES // max(1, task.features.shape[1])))


def paired(samples: int, left: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_]) -> PairedFlips:
    """Which of the inputs [inputs] either of two programs is wrong on, counted."""
    only_left, only_right, both = (int(wrong.sum()) for wrong in (left & ~right, right & ~left, left & right))
    return PairedFlips(len(left), samples, only_left, only_right, both)


def _evaluator_on(finalist: Finalist, inputs: FloatArray) -> FixedPointEvaluator:
    return finalist.samples.on(replace(finalist.samples.task, features=inputs, targets=np.zeros(len(inputs))))


def _flipped(finalist: Finalist, inputs: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether a program gives another class than the float program, by input [inputs]."""
    evaluator = _evaluator_on(finalist, inputs)
    return np.asarray(evaluator.simulator.run(finalist.program)[0, :, 0] != evaluator.float_outputs[:, 0])


@dataclass(frozen=True)
class FreshInputs:
    """Such inputs for the program and the samples of an evaluator of a classifier."""

    samples: FixedPointEvaluator

    def expected_flips(self, batch: FixedBatch) -> list[float]:
        """How many, for each candidate, of as many inputs as there are samples have another class than by the float program, by the errors
        and the flips that are met on these inputs (`kilotune.evaluators.fixed_point.fidelity.expected_flips`)."""
        share = len(self.samples.task.features) / len(self._evaluator.task.features)
        return [share * metrics["expected_flips"] for metrics in self._evaluator.measure(batch)]

    @cached_property
    def _evaluator(self) -> FixedPointEvaluator:
        task = self.samples.task
        inputs = inputs_for_margins(task.features, self.samples.simulator.steps.elements_touched, SEED)
        return self.samples.on(replace(task, features=inputs, targets=np.zeros(len(inputs))))
