"""What each format of each variable adds to the error of a program's result, refitted to what has been measured.

Rounding errors of different variables hardly depend on one another, so the squares of what they do to the result add up. That
sum is what a knapsack can minimise; expected flips grow with it. Where variables do interact (an overflow, a sum of operands of
different scales) the sum is wrong: near a candidate what its own single changes do takes over, elsewhere a ridge regression on good ones.
"""

from __future__ import annotations

import copy

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.spaces.shiftry.known_candidates import Columns, KnownCandidates

RIDGE = 0.03
"""How much a contribution's distance from what single changes say weighs, as a share of a measurement's weight."""


class ErrorModel:
    """Squared errors of candidates as sums over their options."""

    def __init__(self, known: KnownCandidates, base: Columns) -> None:
        """From the single changes of `base`, all of which have been measured. One that failed counts as the largest error."""
        self._known = known
        self._base = known.square(base) or 0.0
        found = known.singles_squares(base, np.full(sum(known.counts), np.inf))
        found[base + known.firsts] = 0.0
        self._prior = np.where(np.isfinite(found), found, found.max(initial=1.0, where=np.isfinite(found)))
        self.contributions = self._prior

    def predict(self, point: Columns) -> float:
        """The squared error of a candidate [variables]; the sum may come out below 0."""
        return float(self._base + self.contributions[point + self._known.firsts].sum())

    def changes(self, point: Columns) -> FloatArray:
        """What each option [options] does to a candidate, all variables' one after another, as far as the model knows."""
        here = (point + self._known.firsts).repeat(self._known.counts)
        return np.asarray(self.contributions - self.contributions[here])

    def best_others(self) -> Columns:
        """The candidate of each variable's best option but its first one; the first where there is no other."""
        ends = self._known.firsts + self._known.counts
        ranges = zip(self._known.firsts.tolist(), ends.tolist(), strict=True)
        return np.array([int(np.argmin(self._prior[a + 1 : b])) + 1 if b > a + 1 else 0 for a, b in ranges])

    def noisy(self, rng: np.random.Generator, deviation: float) -> ErrorModel:
        """With a random factor on each contribution, the logarithm of which has this deviation."""
        other = copy.copy(self)
        other.contributions = self.contributions * np.exp(deviation * rng.normal(size=self.contributions.size))
        return other

    def refit(self, candidates: Columns, squares: FloatArray) -> None:
        """To measured candidates [N, variables] and their squared errors [N]. What counts is the relative error of a prediction."""
        places, present = candidates + self._known.firsts, np.zeros(self._prior.size, dtype=bool)
        present[places] = True  # of the others nothing is learnt
        prior = self._prior[present]
        design = np.zeros((len(places), prior.size))
        np.put_along_axis(design, (np.cumsum(present) - 1)[places], 1.0, axis=1)
        weights = 1.0 / np.maximum(squares, 1e-18)
        residual = weights * (squares - self._base - design @ prior)
        scale = np.abs(prior) + self._base + 1e-18  # a contribution is uncertain in proportion to its size
        weighted = design * weights[:, None] * scale
        self.contributions = self._prior.copy()
        self.contributions[present] += scale * _ridge_solution(weighted, residual)


def _ridge_solution(design: FloatArray, wanted: FloatArray) -> FloatArray:
    """The numbers [columns] by which a design [rows, columns] comes nearest to what is wanted [rows], held near 0 by RIDGE."""
    size = design.shape[1]
    try:
        return np.asarray(np.linalg.solve(design.T @ design + RIDGE * np.eye(size), design.T @ wanted))
    except np.linalg.LinAlgError:  # beside what is exact, squares of all else are lost; without squares they are not
        rows = np.concatenate([design, np.sqrt(RIDGE) * np.eye(size)])
        return np.asarray(np.linalg.lstsq(rows, np.concatenate([wanted, np.zeros(size)]), rcond=None)[0])
