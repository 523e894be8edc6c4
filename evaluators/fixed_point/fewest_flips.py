"""Which of many programs is likely to flip the fewest inputs, by made-up ones that none of them was chosen by.

Among thousands of candidates the first by the training samples is partly lucky there: a few flips less in some hundred samples put it
first. Made-up inputs that no candidate has met tell better, and there may be thousands of them, but not for every candidate of a search. So
the most promising ones meet a few; the better half of these meets as many again, and so on (sequential halving: Karnin, Koren and
Somekh, ICML 2013). Of each half as many executions are made, so that those between which it is hard to decide have met the most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.evaluators.fixed_point.fidelity import flips_after_count
from kilotune.evaluators.fixed_point.fresh_inputs import MOST_FEATURES, MOST_TOUCHED_PAIRED, Finalist
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.evaluators.fixed_point.similar_inputs import similar_inputs

MOST_RANKED = 128
"""Programs that are looked at. Of 133 searches for generated models (12 trained on 80, 200 and 600 samples or more, in the four settings
of `experiments/benchmarks/precision.py`) the first by the samples flips 1.164 % of 20 000 new ones, the chosen of 20 programs 1.143 %, of
64 1.127 %, of 128 1.119 %."""

FIRST_INPUTS, MOST_INPUTS = 625, 10_000
"""Inputs that all of them meet, and the last ones."""

MOST_TOUCHED_RANKED = 4 * MOST_TOUCHED_PAIRED
"""Values that the float program would write and read in place of all of them: several programs share what they have in common, so it takes
0.1 to 0.6 CPU-seconds, less than to compare two afterwards (measured on generated and bundled models)."""

RANKED_SEED = 3
"""Other inputs than those that two finalists are compared on afterwards, since the one that is chosen by these is lucky on these."""


class FewestFlips(NamedTuple):
    """The program at `place` of `programs` is the most precise one by its flips of so many `inputs`."""

    place: int
    programs: int
    inputs: int


def fewest_flips(finalists: Sequence[Finalist], expected: Sequence[float]) -> FewestFlips | None:
    """Which of the programs of a classifier, the most promising first, is likely to flip the fewest inputs. `expected`: their flips to be
    expected of as many inputs as there are training samples, which what is counted corrects (`fidelity.flips_after_count`). The inputs are
    like the samples of the first one; others may be of smaller models. None for programs that return no class, and where there is no time
    for two of them."""
    most = _affordable(finalists)
    if most < 2:
        return None
    features = finalists[0].samples.task.features
    last = min(_most_inputs(finalists[0]), FIRST_INPUTS << (most.bit_length() - 2))
    inputs = _mixed(features, last)
    left, flips = np.arange(most), np.zeros(most, dtype=np.int64)
    met, end = 0, FIRST_INPUTS
    while True:
        flips[left] += _flips([finalists[place] for place in left.tolist()], inputs[met:end])
        met = end
        likely = flips_after_count(met / len(features) * np.array(expected)[left], flips[left])
        best_first = left[np.argsort(likely, kind="stable")]
        if met == last:
            return FewestFlips(int(best_first[0]), most, met)
        left, end = best_first[: len(left) // 2], min(2 * met, last)


def _affordable(finalists: Sequence[Finalist]) -> int:
    """How many of them may be looked at: on the first inputs, and then on half as many for each time that they are halved."""
    if not finalists or finalists[0].samples.task.program.result_kind is not ir.ResultKind.CLASS:
        return 0
    if _most_inputs(finalists[0]) < FIRST_INPUTS:
        return 0
    most, touched = min(len(finalists), MOST_RANKED), finalists[0].samples.simulator.steps.elements_touched
    while most > 1 and most * FIRST_INPUTS * (1 + most.bit_length() / 2) * touched > MOST_TOUCHED_RANKED:
        most //= 2
    return most


def _most_inputs(finalist: Finalist) -> int:
    """How many the float program may be executed on."""
    samples = finalist.samples
    affordable = MOST_TOUCHED_PAIRED // max(1, samples.simulator.steps.elements_touched)
    return int(min(MOST_INPUTS, affordable, MOST_FEATURES // max(1, samples.task.features.shape[1])))


def _mixed(features: FloatArray, count: int) -> FloatArray:
    """So many inputs, of which the first ones are of every kind."""
    return similar_inputs(features, count, RANKED_SEED)[np.random.default_rng(RANKED_SEED).permutation(count)]


def _flips(finalists: Sequence[Finalist], inputs: FloatArray) -> IntArray:
    """How many of the inputs each changes the class of; those of one model have the float program's in common."""
    of_model = dict[int, FixedPointEvaluator]()
    counts = list[int]()
    for samples, program in finalists:
        if id(samples) not in of_model:
            of_model[id(samples)] = samples.on(replace(samples.task, features=inputs, targets=np.zeros(len(inputs))))
        evaluator = of_model[id(samples)]
        flipped: npt.NDArray[np.bool_] = evaluator.simulator.run(program)[0, :, 0] != evaluator.float_outputs[:, 0]
        counts.append(int(flipped.sum()))
    return np.array(counts, dtype=np.int64)
