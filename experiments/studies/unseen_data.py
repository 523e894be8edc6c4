"""A candidate on data that no search sees, within a command's time, and what is said where there was none for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kilotune.codegen.counts import counted
from kilotune.experiments.problems.problem import (
    CountsSamples,
    LoadsTestData,
    NamesTestFigures,
    Problem,
    metrics_on_test_data,
)
from kilotune.experiments.studies.command_time import made_in_time
from kilotune.search.space import Metrics, Trial
from kilotune.search.study import Study


@dataclass(frozen=True)
class UnseenMeasurement:
    """`metrics`: None where there are no such data, and where `ended` is False, since no time was left for them."""

    metrics: Metrics | None = None
    ended: bool = True


def on_unseen_data(
    problem: Problem, study: Study, trial: Trial | None, is_over: Callable[[], bool]
) -> UnseenMeasurement:
    """The trial's candidate on the test data, unless `is_over` says first that the time is."""
    if trial is None:
        return UnseenMeasurement()
    if study.stopped and isinstance(problem, LoadsTestData) and not problem.is_loaded():
        return UnseenMeasurement(ended=False)  # whoever pressed Ctrl-C is waiting
    found = made_in_time(is_over, lambda: (metrics_on_test_data(problem, trial.assignment),))
    return UnseenMeasurement(ended=False) if found is None else UnseenMeasurement(found[0])


def unmeasured_sentence(problem: Problem, study: Study, trial: Trial | None, found: UnseenMeasurement) -> str | None:
    """What of the trial was not measured there for want of time, without its full stop, since silence would look as if there were nothing
    to measure; None where nothing is missing."""
    if trial is None or trial.measurement.failure is not None or found.ended:
        return None
    figures = _figures(problem)
    if figures is None:
        return None
    why = "the search was interrupted" if study.stopped else "the budget left no time for that"
    return f"{figures} were not measured: {why} (`tune report {study.name}` does it, and so does a longer budget)"


def _figures(problem: Problem) -> str | None:
    """What would have been measured; None where there are no data for it."""
    if isinstance(problem, NamesTestFigures):
        return problem.test_figures()
    samples = problem.sample_counts().get("test", 0) if isinstance(problem, CountsSamples) else 0
    return f"The figures on {counted(samples, 'test sample')}" if samples else None
