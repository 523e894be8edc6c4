"""A difference in accuracy as what it is: so many samples of so many."""

from __future__ import annotations

from collections.abc import Iterator

from kilotune.experiments.problems.problem import CountsSamples
from kilotune.experiments.problems.problem_entry import procedure_name
from kilotune.experiments.studies.tuning import TuneOutcome
from kilotune.search.space import Metrics

ACCURACY = "accuracy_percent"
PARTS = {"train": "training", "validation": "validation", "test": "test"}


def sample_differences(outcome: TuneOutcome) -> str | None:
    """In how many samples the best found is right more or less often than the procedure's answer; None where it is in none, or where
    accuracies are not measured."""
    told = list(_differences(outcome))
    return (
        f"Than the {procedure_name(outcome.problem)}, the best found is right on {', on '.join(told)}."
        if told
        else None
    )


def _differences(outcome: TuneOutcome) -> Iterator[str]:
    best, procedure = outcome.result.best, outcome.procedure
    if best is None or procedure is None or not isinstance(outcome.problem, CountsSamples):
        return
    pairs: dict[str, tuple[Metrics | None, Metrics | None]] = {
        "train": (dict(best.metrics), dict(procedure.metrics)),
        "validation": (outcome.validation.best, outcome.validation.procedure),
        "test": (outcome.test, outcome.procedure_test),
    }
    for part, samples in outcome.problem.sample_counts().items():
        of_best, of_procedure = pairs[part]
        if of_best is None or of_procedure is None or ACCURACY not in of_best or ACCURACY not in of_procedure:
            continue
        more = round((of_best[ACCURACY] - of_procedure[ACCURACY]) / 100.0 * samples)
        if more:
            yield f"{abs(more)} of {samples} {PARTS[part]} samples {'more' if more > 0 else 'fewer'}"
