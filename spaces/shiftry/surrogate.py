"""What the trials so far say about the precision of candidates that have not been run: an additive model, refitted.

The logarithm of the loss is taken as a sum of one contribution an option, fitted by ridge regression toward a prior
that prefers wide formats and the lowest demoted scale. Overflow makes losses jump by orders of magnitude, hence the
logarithm; a sum is what a linear solver can optimise exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.search.space import Decision, Option, Trial

PRIOR_DEMOTED = 0.02
PRIOR_HIGHER_SCALE = 0.5
RIDGE = 1.0
MOST_TRIALS = 4000


@dataclass(frozen=True)
class Surrogate:
    """Predicted log(1 + loss) of a candidate: `offset` plus the costs of its options."""

    offset: float
    costs: tuple[dict[Option, float], ...]  # by decision


def fit_surrogate(decisions: Sequence[Decision], trials: Sequence[Trial], metric: str, unit: float) -> Surrogate:
    """Fit to `metric` of the trials, in multiples of `unit` (the smallest difference that matters).

    Keeps the better half of the newest trials when there are many: far-off candidates say little about good ones.
    """
    columns = {(i, option): None for i, d in enumerate(decisions) for option in d.options}
    numbers = {key: column for column, key in enumerate(columns)}
    prior = np.array([_prior(decisions[i], option) for i, option in columns])
    measured = [t for t in trials if metric in t.measurement.metrics]
    if len(measured) > MOST_TRIALS:
        measured = sorted(measured, key=lambda t: t.measurement.metrics[metric])[:MOST_TRIALS]
    weights, offset = prior, 0.0
    if measured:
        rows = np.array(
            [[numbers[i, t.assignment[d.name]] for i, d in enumerate(decisions)] for t in measured], dtype=np.int64
        )
        losses = np.log1p(np.array([t.measurement.metrics[metric] for t in measured]) / unit)
        offset, weights = _ridge(rows, losses, prior)
    return Surrogate(
        offset,
        tuple({o: float(weights[numbers[i, o]]) for o in d.options} for i, d in enumerate(decisions)),
    )


def _prior(decision: Decision, option: Option) -> float:
    """Options stand best guess first, 16-bit ones before 8-bit ones; only their order is used here."""
    narrow = [o for o in decision.options if str(o).startswith("int8")]
    if option in narrow:
        return PRIOR_DEMOTED + PRIOR_HIGHER_SCALE * narrow.index(option)
    return 0.1 * decision.options.index(option)


def _ridge(
    rows: npt.NDArray[np.int64], losses: npt.NDArray[np.float64], prior: npt.NDArray[np.float64]
) -> tuple[float, npt.NDArray[np.float64]]:
    """(offset, weights) minimising the squared error plus RIDGE times the squared distance from the prior."""
    design = np.zeros((rows.shape[0], prior.size))
    np.put_along_axis(design, rows, 1.0, axis=1)
    residual = losses - design @ prior
    offset = float(residual.mean())
    gram = design.T @ design + RIDGE * np.eye(prior.size)
    return offset, prior + np.linalg.solve(gram, design.T @ (residual - offset))
