"""How true a fixed-point program stays to the float one on inputs that nobody has measured, estimated from those that were.

Counts of disagreements tie among good candidates, and the best of many such counts is luck. The errors behind them do neither: every
sample says how far a candidate's margins (`margins`) are off, and how thin the float program's are. A class flips where
the error exceeds the float margin. With errors taken as normal, whose mean and deviation are those of all samples:

    sum over samples of P(Z > (margin + bias) / sigma)

An error that wraps around is one of the errors. Its size is the range of the score, so it widens sigma for all samples, as it should
where one input in a thousand may bring another one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from kilotune.codegen.arrays import FloatArray, Int32Array, IntArray
from kilotune.evaluators.fixed_point.margins import BLOCK_SAMPLES, Contest, MarginSums

STEPS = 2048
"""Entries of the table of the normal distribution for each deviation: no sample's share is off by more than 1e-4."""

LAST = 8 * STEPS
"""The entry from which on nothing is left: 6e-16 of a sample."""

WHOLE = 1 << 31
"""What a probability of 1 is in the table. Its sums are of integers: the same in any order, on any machine."""

SHAPE = 10.0
"""The normal errors' expectation is a third off at one deviation: chosen on generated models, `experiments/benchmarks/precision.py`."""

TINY = 1e-9
"""Units that no deviation other than zero is as small as."""

DECIMALS = 6
"""Digits of expected flips: what is less than a millionth of a sample is nothing, so of two such candidates the smaller one is better."""

ONE_SIDED_95 = 1.6449
"""Deviations that a normal variable exceeds once in twenty times."""


class MarginErrors(NamedTuple):
    """Mean and standard deviation of a candidate's errors of its margins, in units of the contest."""

    bias: float
    sigma: float


def margin_errors(contest: Contest, sums: MarginSums, scale: int) -> MarginErrors:
    """The errors of a candidate whose scores are integers at `scale`. Exact but for the last division and root."""
    samples = len(contest.units)
    up = max(contest.scale - scale, 0)  # shifts that bring both to the finer of the two units
    down = max(scale - contest.scale, 0)
    total, squares = contest.unit_sums
    error = (sums.margins << up) - (total << down)
    square = (sums.squares << 2 * up) - (sums.products << up + down + 1) + (squares << 2 * down)
    unit = 1 << down
    return MarginErrors(error / (samples * unit), math.sqrt((samples * square - error * error) / (samples * unit) ** 2))


def relative_margin_errors(contest: Contest, errors: Sequence[MarginErrors]) -> FloatArray:
    """The root mean square [candidates] of errors of the margins, as a share of that of the float margins. Squares of errors that
    do not depend on one another add up."""
    whole = math.sqrt(contest.unit_sums[1] / len(contest.units)) or 1.0
    return np.array([math.hypot(bias, sigma) / whole for bias, sigma in errors], dtype=np.float64)


class LeastSpread(NamedTuple):
    """Errors of the margins of the samples met so far, in units of the contest: their mean, and the deviation that those of all samples
    have at the least if the mean stays. `weight`: samples met for each that is not.

    With a mean of all that is t deviations more, the deviation is at least sqrt(1 + weight t^2) times as large.
    """

    mean: float
    sigma: float
    weight: float


SHIFTS = (*(k / 10 for k in range(10)), *(1.12**k for k in range(26)))
"""Where the mean error of all samples is looked for, in deviations beyond that of the samples met: between two of these, and beyond."""


@cache
def normal_tails() -> IntArray:
    """P(Z > z) of a standard normal Z for z = 0, and at the middle of every further step; [LAST + 1], in units of WHOLE."""
    middles = [0.0, *((k + 0.5) / STEPS for k in range(1, LAST))]
    return np.array([*(round(WHOLE * 0.5 * math.erfc(z / math.sqrt(2))) for z in middles), 0], dtype=np.int32)


def tail_sums(margins: Int32Array, errors: Sequence[MarginErrors]) -> list[int]:
    """For each candidate the sum of P(Z > (margin + bias) / sigma) over `margins` [samples], ascending, in units of WHOLE."""
    table, sums = normal_tails().astype(np.int64), []
    for bias, sigma in errors:
        total = 0
        for start in range(0, margins.size, BLOCK_SAMPLES):
            deviations = (margins[start : start + BLOCK_SAMPLES] + bias) * inverse(sigma)
            tails = table[np.minimum(np.abs(deviations), LAST).astype(np.intp)]
            total += int(np.where(deviations < 0, WHOLE - tails, tails).sum())
        sums.append(total)
    return sums


def least_tail_sums(margins: Int32Array, spreads: Sequence[LeastSpread]) -> list[int]:
    """For each candidate what `tail_sums` over `margins` [samples], ascending, is not below, whatever the errors of the samples are that
    have not been met.

    The mean error is not known, so the least of bounds over intervals of it counts: for a margin and an error of the upper end
    the deviation of the lower end. A sample whose mean is negative counts half; a step of the table is left for rounding.
    """
    table = normal_tails().astype(np.int64)
    return [min(_least_in_interval(margins, table, spread, k) for k in range(len(SHIFTS))) for spread in spreads]


def _least_in_interval(margins: Int32Array, table: IntArray, spread: LeastSpread, k: int) -> int:
    low = SHIFTS[k]
    per_unit = inverse(spread.sigma * math.sqrt(1.0 + spread.weight * low * low))
    if k + 1 < len(SHIFTS):
        mean, beyond = spread.mean + spread.sigma * SHIFTS[k + 1], 1.0
    else:  # no deviation grows slower than its mean times the root of the weight
        mean, beyond = spread.mean, 1.0 + STEPS / math.sqrt(spread.weight)
    steps = np.maximum(margins + mean, 0.0) * per_unit + beyond
    return int(table[np.minimum(steps, LAST).astype(np.intp)].sum())


def inverse(sigma: float) -> float:
    """Steps of the table a unit. Without any deviation it is so many that a margin counts 0, 1, or 1/2 where nothing is left."""
    return STEPS / sigma if sigma > TINY else STEPS / TINY


def expected_flips(tails: Sequence[int], disagreements: IntArray) -> FloatArray:
    """Flips [candidates] to be expected on as many other samples of the same kind, by two estimates: what normal errors would flip
    (`tails`: of `tail_sums`), and what did flip (`disagreements`)."""
    expected = np.array(tails, dtype=np.float64) / WHOLE
    return np.asarray(flips_after_count(expected, disagreements).round(DECIMALS), dtype=np.float64)


def flips_after_count(expected: FloatArray, counted: IntArray) -> FloatArray:
    """Flips [candidates] to be expected of as many further inputs, of which so many were `expected` before so many were `counted`.

    With the first, E, as the mean of a gamma prior of shape SHAPE and the second, D, as a Poisson count the posterior's mean is
    E (SHAPE + D) / (SHAPE + E): a few flips are told by the errors, which do not tie, many by their count. Where
    errors are anything but normal (one input in a hundred wraps around) E may be next to nothing, so the result
    is not less than the count allows, D less twice its own deviation.
    """
    posterior = expected * (SHAPE + counted) / (SHAPE + expected)
    least = counted - 2.0 * np.sqrt(counted.astype(np.float64))
    return np.asarray(np.maximum(posterior, least), dtype=np.float64)


def expected_error(errors: FloatArray) -> FloatArray:
    """How large the error [candidates] of a numerical program is to be expected: the upper end of the 95 % confidence interval of
    the root mean square of `errors` [candidates, samples, elements].

    The mean of the squares over n samples is taken as normal, with the squares' own deviation. A few samples far off raise it
    twice, in the mean and in the interval, and yet no single one decides.
    """
    squares = np.square(errors).mean(axis=2)
    interval = ONE_SIDED_95 * squares.std(axis=1) / math.sqrt(squares.shape[1])
    return np.asarray(np.sqrt(squares.mean(axis=1) + interval))
