"""How many labels a candidate may have other than expected before a hurdle (`kilotune.search.racing`) is out of its reach.

The compiled kernel counts them and runs nobody further who is out (`label_counts.h`), which costs next to nothing: small programs are raced
so. Such limits say less than `race.LabelRace`, which also bounds expected flips by the errors of the margins, and takes longer than a
small program runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, Int32Array
from kilotune.search.front import Rank, Ranking
from kilotune.search.racing import Hurdle
from kilotune.search.space import Constraint, Direction

SLACK = 1e-9
"""The share of a violation that is left for the order in which violations are added up."""

FLIPS, ACCURACY = "expected_flips", "accuracy_percent"


@dataclass(frozen=True)
class LabelLimits:
    """`expected` [2, samples]: the labels of the float program, and the true ones. `most` [candidates, 2]: how many labels may be others
    than these before the candidate is out; fewer than none where it is without a sample."""

    expected: npt.NDArray[np.signedinteger]
    most: Int32Array


class LimitsOfHurdles:
    """Finds `LabelLimits.most`. `flips` and `accuracy` [samples + 1]: the least expected flips by how many labels are others than the float
    program's, and the greatest accuracy by how many are wrong; the first never falls, the other never rises."""

    def __init__(self, flips: FloatArray, accuracy: FloatArray) -> None:
        self._columns = {FLIPS: flips, ACCURACY: accuracy}
        self._violations: tuple[Ranking, list[FloatArray]] | None = None  # by the ranking of the last hurdle
        self._front: tuple[tuple[Rank, ...], FloatArray] | None = None  # of the last hurdle

    def most(self, hurdle: Hurdle, count: int, exact: Mapping[str, np.ndarray]) -> Int32Array:
        """What `count` candidates have, of which these metrics [candidates] are known; others are taken to be as good as any."""
        ranking = hurdle.ranking
        rank = hurdle.rank or (0.0, *(-math.inf for _ in ranking.objectives))
        found = np.empty((count, 2), dtype=np.int32)
        allowed: FloatArray | float = rank[0]
        costs = [one for one in ranking.constraints if one.metric in exact]
        violation = sum((_violation(one, exact[one.metric]) for one in costs), np.zeros(count))
        if costs:
            with np.errstate(invalid="ignore"):  # infinite less infinite limits nothing
                allowed = rank[0] - violation + np.where(violation > 0.0, SLACK * (1.0 + rank[0]), 0.0)
        for column, table in enumerate(self._violations_of(ranking)):
            found[:, column] = table.searchsorted(allowed, side="right") - 1
        if rank[0] == 0.0 and hurdle.front:
            needed = self._flips_of_dominated(hurdle, rank[1:], exact)
            found[:, 0] = np.minimum(found[:, 0], self._columns[FLIPS].searchsorted(needed) - 1)
        if costs:
            found[violation > (rank[0] and rank[0] + SLACK * (1.0 + rank[0]))] = -1
        return found

    def _violations_of(self, ranking: Ranking) -> list[FloatArray]:
        """By how much limits are violated by so many other labels, of each of the columns."""
        if self._violations is None or self._violations[0] is not ranking:
            tables = [
                sum(
                    (_violation(one, values) for one in ranking.constraints if one.metric == name),
                    np.zeros(len(values)),
                )
                for name, values in self._columns.items()
            ]
            self._violations = ranking, tables
        return self._violations[1]

    def _losses_of(self, front: tuple[Rank, ...]) -> FloatArray:
        """They, as an array [trials, objectives]."""
        if self._front is None or self._front[0] is not front:
            self._front = front, np.array(front, dtype=np.float64)
        return self._front[1]

    def _flips_of_dominated(self, hurdle: Hurdle, rank: Rank, exact: Mapping[str, np.ndarray]) -> FloatArray | float:
        """From how many expected flips on candidates [candidates] of such costs are dominated by the front, and rank behind `rank`."""
        front = self._losses_of(hurdle.front)
        by_front = np.full((1, len(front)), -math.inf)
        by_rank: FloatArray | float = -math.inf
        dominates: npt.NDArray[np.bool_] | bool = True
        for k, objective in reversed(list(enumerate(hurdle.ranking.objectives))):
            if objective.metric == FLIPS and objective.direction is Direction.MINIMIZE:
                by_front = front[:, k]
                by_rank = np.where(np.isneginf(by_rank), rank[k], math.nextafter(rank[k], math.inf))
                continue
            values = exact.get(objective.metric)
            if values is None:
                return math.inf  # whatever it is, it may be the best
            losses = values if objective.direction is Direction.MINIMIZE else -values
            dominates = dominates & (front[:, k] <= losses[:, None])
            by_rank = np.where(losses > rank[k], -math.inf, np.where(losses < rank[k], math.inf, by_rank))
        dominated: FloatArray = np.where(dominates, by_front, math.inf).min(axis=-1)
        return np.asarray(np.maximum(dominated, by_rank))


def _violation(constraint: Constraint, values: np.ndarray) -> FloatArray:
    """As a share of the limit, as `Ranking.violation` has it."""
    over = constraint.limit - values if constraint.at_least else values - constraint.limit
    return np.asarray(np.maximum(over, 0.0) / (abs(constraint.limit) or 1.0))
