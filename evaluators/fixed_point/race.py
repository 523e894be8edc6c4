"""Classifiers that are measured block by block and stopped once a hurdle (`kilotune.search.racing`) is out of their reach.

What a candidate can be at best follows from the samples that it has met. Its accuracy: all others would be right. Its disagreements with
the float program: none would be added. Its expected flips: the sums of its errors say how far off its margins are at the least, whatever
the errors of the other samples are (`least_spread`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.evaluators.fixed_point.fidelity import LeastSpread, expected_flips
from kilotune.evaluators.fixed_point.margins import Contest, MarginSums
from kilotune.evaluators.fixed_point.running_batch import RunningBatch
from kilotune.search.racing import Hurdle
from kilotune.search.space import Measurement, Metrics

LOOKS = (8, 4, 2)
"""Candidates are looked at after the eighth, the fourth and the half of the samples. A look costs as much as some blocks of a small
program."""

ROUNDING_ROOM = 1e-5
"""Flips that a bound leaves for the rounding of what it bounds."""


Stopped = dict[int, tuple[int, Metrics]]
"""Candidates that are out: the samples that each has met, and the metrics that it could have had at best."""

LeastTails = Callable[[Sequence[LeastSpread]], list[int]]
"""As `fidelity.tail_sums`, of what no errors of the other samples bring below."""


@dataclass(frozen=True)
class LabelRace:
    """What labels of a classifier are compared with: the float program's and the true ones, [samples], and how these are counted."""

    float_labels: FloatArray
    targets: FloatArray
    score: ClassScore
    contest: Contest | None
    least_tails: LeastTails

    def run(self, running: RunningBatch, scales: Sequence[int], exact: Sequence[Metrics], hurdle: Hurdle) -> Stopped:
        """Run all candidates until they are out or have met every sample; those that are out. `scales`: of the scores; `exact`: what is
        known of each beforehand."""
        samples = len(self.float_labels)
        out: Stopped = {}
        going = list(range(len(exact)))
        for end in (0, *stages(running.blocks)):
            if end:
                running.go_on(going, end)
            met = min(end * running.lanes, samples)
            if met == samples or not going:
                break
            at_best = self._at_best(running, going, met, scales)
            for candidate, metrics in zip(list(going), at_best, strict=True):
                metrics = {**metrics, **exact[candidate]}
                if hurdle.is_out(metrics):
                    out[candidate] = (met, metrics)
            going = [candidate for candidate in going if candidate not in out]
        return out

    def _at_best(
        self, running: RunningBatch, candidates: Sequence[int], met: int, scales: Sequence[int]
    ) -> Iterator[Metrics]:
        samples = len(self.float_labels)
        labels = running.outputs[candidates, :met, 0]
        wrong = labels != self.float_labels[:met]
        disagreements = wrong.sum(axis=1)
        right = labels == self.targets[:met]
        where_right = wrong & (self.float_labels[:met] == self.targets[:met])
        flips = self._least_flips(running, candidates, met, scales, disagreements)
        accuracy = 100.0 * ((samples - met + right.sum(axis=1)) / samples)
        columns = dict(zip(QUALITY, (accuracy, disagreements, where_right.sum(axis=1), flips), strict=True))
        if self.score is not ClassScore.ACCURACY:
            columns[self.score.metric] = self.score.percent_at_best(labels, self.targets)
        for values in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield dict(zip(columns, values, strict=True))

    def _least_flips(
        self,
        running: RunningBatch,
        candidates: Sequence[int],
        met: int,
        scales: Sequence[int],
        disagreements: IntArray,
    ) -> FloatArray:
        if self.contest is None or not met:
            return disagreements.astype(np.float64)
        sums = running.margin_sums(candidates)
        units = self.contest.sums_of_first(met)
        spreads = [
            least_spread(self.contest, units, one, scales[candidate], met)
            for candidate, one in zip(candidates, sums, strict=True)
        ]
        return least_expected_flips(self.least_tails(spreads), disagreements)


def by_candidate(columns: Mapping[str, np.ndarray]) -> list[Metrics]:
    """The metrics of each candidate, from arrays of them."""
    lists = {name: values.tolist() for name, values in columns.items()}
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def censored(met: int, at_best: Metrics, samples: int) -> Measurement:
    """The measurement of a candidate that is out."""
    return Measurement(
        at_best, f"Stopped after {met} of {samples} samples, when it could no longer be better than others.", True
    )


QUALITY = ("accuracy_percent", "disagreements", "disagreements_where_right", "expected_flips")


def stages(blocks: int) -> list[int]:
    """After how many blocks candidates are looked at; the last one is `blocks`."""
    return sorted({-(-blocks // share) for share in (*LOOKS, 1)})


def least_spread(contest: Contest, units: tuple[int, int], sums: MarginSums, scale: int, met: int) -> LeastSpread:
    """What the sums over the first `met` samples (fewer than all) say of the errors of all; `scale`: of the scores; `units`: the
    contest's sums of these samples.

    With k samples met, squares S of their errors about their mean, and the other n - k at a mean error such that the mean of all is t
    more: the squares about it are at least S + t^2 k n / (n - k).
    """
    samples = len(contest.units)
    up, down = max(contest.scale - scale, 0), max(scale - contest.scale, 0)
    total, squares = units
    error = (sums.margins << up) - (total << down)
    square = (sums.squares << 2 * up) - (sums.products << up + down + 1) + (squares << 2 * down)
    unit = 1 << down
    about_mean = (met * square - error * error) / (met * unit * unit)
    return LeastSpread(error / (met * unit), math.sqrt(about_mean / samples), met / (samples - met))


def least_expected_flips(least_tails: Sequence[int], disagreements: IntArray) -> FloatArray:
    """What `fidelity.expected_flips` is at the least, [candidates]: of tails that are not less than `least_tails` and not fewer
    disagreements. It grows with both, but where the first disagreement is less than two of its deviations."""
    counted = np.where(disagreements > 0, disagreements, 0)
    return np.maximum(expected_flips(least_tails, counted) - ROUNDING_ROOM, 0.0)
