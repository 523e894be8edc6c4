"""Classifiers whose labels are counted while they run, and that are stopped once a hurdle (`search.racing`) is out of their reach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.class_scores import ClassScore, KnownLabels, Labels
from kilotune.evaluators.fixed_point.label_limits import LabelLimits, LimitsOfHurdles
from kilotune.evaluators.fixed_point.race import QUALITY, Stopped, least_expected_flips
from kilotune.evaluators.fixed_point.running_batch import RunningBatch
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.search.racing import Hurdle
from kilotune.search.space import Metrics

NO_LABEL = -(1 << 15)
"""What no program returns."""


class CountedRace:
    """What labels of a classifier are compared with, and how these are counted."""

    def __init__(self, known: KnownLabels, score: ClassScore) -> None:
        self._score, self._targets = score, np.asarray(known.targets, dtype=np.float64)
        self._expected = np.stack([_in_16_bits(known.of_float), _in_16_bits(known.targets)])
        self._float_is_wrong = len(known.targets) - int(np.count_nonzero(known.float_is_right))
        counts = np.arange(len(known.targets) + 1)
        self._flips = least_expected_flips([0] * len(counts), counts)
        self._accuracy = 100.0 * ((len(known.targets) - counts) / len(known.targets))
        self._limits = LimitsOfHurdles(self._flips, self._accuracy)

    def run(
        self, simulator: Simulator, batch: FixedBatch, exact: Mapping[str, np.ndarray], hurdle: Hurdle
    ) -> tuple[RunningBatch, Stopped]:
        """Run all candidates until they are out or have met every sample; those that are out. `exact`: what is known of each
        beforehand."""
        most = self._limits.most(hurdle, len(batch), exact)
        running = simulator.run_limited(batch, LabelLimits(self._expected, most))
        met = running.met.tolist()
        out = [place for place, samples in enumerate(met) if samples < len(self._targets)]
        if not out:
            return running, {}
        costs = {name: values.tolist() for name, values in exact.items()}
        others = (most - running.others_left).tolist()
        return running, {
            place: (
                met[place],
                self._at_best(running, place, *others[place]) | {name: known[place] for name, known in costs.items()},
            )
            for place in out
        }

    def _at_best(self, running: RunningBatch, place: int, others: int, wrong: int) -> Metrics:
        """What the quality of a candidate could have been at best that has met so many labels other than expected."""
        where_right = max(others - self._float_is_wrong, 0)
        values = float(self._accuracy[wrong]), others, where_right, float(self._flips[others])
        metrics = dict(zip(QUALITY, values, strict=True))
        if self._score is not ClassScore.ACCURACY:
            met = running.outputs[place : place + 1, : running.met[place], 0]
            metrics[self._score.metric] = float(self._score.percent_at_best(met, self._targets)[0])
        return metrics


def _in_16_bits(labels: Labels) -> npt.NDArray[np.int16]:
    """Labels, those that are no integers of 16 bits as one that is never right."""
    with np.errstate(invalid="ignore"):
        narrow = labels.astype(np.int16)
    return np.where(narrow == labels, narrow, np.int16(NO_LABEL))
