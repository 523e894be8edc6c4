"""A front as a person reads it in a terminal: its points from one end to the other, and how much it covers."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from kilotune.experiments.presentation.wording import counted, number
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.problem import metrics_on_test_data
from kilotune.experiments.studies.tuning import TuneOutcome
from kilotune.search.front import Rank
from kilotune.search.hypervolume import hypervolume
from kilotune.search.space import Objective, Trial, reference_point

FRONT = "front"
"""The objective of spaces whose front is asked for by its name: of hardware, of programs for SCAMP-5."""

MOST_ROWS = 12
"""Points that are shown; the JSON has all of them."""

MEASURED = ("accuracy_percent", "balanced_accuracy_percent", "f1_percent", "disagreements", "precision_loss")
"""Metrics that are shown beside the objectives, where there are any: beside the flips that are expected those that are counted, which of
few samples far from all boundaries may be more."""

UNSEEN = ("accuracy_percent", "balanced_accuracy_percent", "f1_percent", "disagreements", "mean_absolute_error")
"""Those of test data."""


def front_table(outcome: TuneOutcome) -> Table | None:
    """The points under the numbers that `tune export --point` takes; None where no front was asked for, or there is none."""
    problem, front = outcome.problem, outcome.result.front
    objectives, reference = problem.space.objectives, reference_point(problem.space)
    if not front or (reference is None and problem.request.options.get("objective") != FRONT):
        return None
    count = min(MOST_ROWS, len(front))
    shown = [round(i * (len(front) - 1) / max(1, count - 1)) for i in range(count)]
    # Data that no search sees are looked at where the best candidate's have a column here: photographs take seconds a point.
    there = [name for name in UNSEEN if name in (outcome.test or {})]
    unseen = [metrics_on_test_data(problem, front[i].assignment) or {} for i in shown] if there else [{}] * count
    known = [o.metric for o in objectives]
    known += [name for name in MEASURED if name in front[0].metrics]
    table = Table(title=_title(front, objectives, reference), title_justify="left", show_edge=False, pad_edge=False)
    for label in ("point", *map(metric_label, known), *(metric_label(f"test_{name}") for name in there)):
        table.add_column(label, justify="right")
    for i, test in zip(shown, unseen, strict=True):
        values = [*(front[i].metrics[name] for name in known), *(test[name] for name in there)]
        table.add_row(str(i + 1), *map(number, values))
    return table


def _title(front: Sequence[Trial], objectives: Sequence[Objective], reference: Rank | None) -> str:
    """How many points, and how much they cover where the space says of what."""
    points = f"front: {counted(len(front), 'point')}"
    if reference is None:
        return points
    volume = hypervolume([tuple(o.loss(t.metrics) for o in objectives) for t in front], reference)
    limits = ", ".join(
        f"{metric_label(o.metric)} {number(loss)}" for o, loss in zip(objectives, reference, strict=True)
    )
    if volume == 0.0:  # of several objectives points may well be better in all but one
        return f"{points}, hypervolume 0, as none is better in each objective than {limits}"
    return f"{points}, hypervolume {100 * volume:.2f} % of what is better than {limits}"
