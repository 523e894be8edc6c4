"""A loss that was permitted on training data and is larger on data that no search saw."""

from __future__ import annotations

from kilotune.experiments.presentation.wording import number
from kilotune.experiments.studies.tuning import TuneOutcome

LOSS = "precision_loss"


def unseen_loss(outcome: TuneOutcome) -> str | None:
    """A sentence where the best program of numbers loses more on test data than was permitted; None elsewhere.

    It may lose much more: a value beyond those of the training data can be beyond its integers, too, and wraps around.
    """
    best = outcome.result.best
    for limit in outcome.problem.space.constraints:
        if limit.metric != LOSS or best is None or LOSS not in (outcome.test or {}):
            continue
        if limit.violation(outcome.test or {}) and not limit.violation(best.measurement.metrics):
            found = number((outcome.test or {})[LOSS])
            return (
                f"On test data the precision loss is {found}, where {number(limit.limit)} was permitted: values beyond those of the"
                " training data may be beyond its integers (more training samples, or --validation, tell more)."
            )
    return None
