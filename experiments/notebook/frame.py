"""Trials as a pandas data frame."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kilotune.search.front import Ranking
from kilotune.search.space import FlatSpace, Option, Space, Trial

if TYPE_CHECKING:
    import pandas as pd

OWN_COLUMNS = ("number", "elapsed_s", "feasible", "failure")


def trials_frame(space: Space, trials: Sequence[Trial]) -> pd.DataFrame:
    """One row a trial, by number. Columns: `number`, `elapsed_s` (on the study's clock), `feasible`, `failure` (None, or why
    there are no metrics; also of a trial that was stopped early), every decision, every metric. A name that two of these have
    becomes `decision_NAME` and `metric_NAME`. Decisions are integers, floats, booleans or strings where all their options are;
    one that was not asked is missing (then integers and booleans are pandas' nullable ones). Metrics are floats, NaN where
    there is none.

    ValueError without pandas.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ValueError("A data frame needs pandas: pip install 'kilotune[notebook]'.") from None
    ranking = Ranking.of(space)
    decisions = _decision_names(space, trials)
    metrics = list(dict.fromkeys(name for trial in trials for name in trial.metrics))
    times = Counter([*OWN_COLUMNS, *decisions, *metrics])
    columns: dict[str, Any] = {
        "number": pd.Series([trial.number for trial in trials], dtype="int64"),
        "elapsed_s": pd.Series([trial.elapsed_s for trial in trials], dtype="float64"),
        "feasible": pd.Series([ranking.rank(trial.measurement)[0] == 0.0 for trial in trials], dtype="bool"),
        "failure": pd.Series([trial.measurement.failure for trial in trials], dtype="object"),
    }
    for name in decisions:
        answers = [trial.assignment.get(name) for trial in trials]
        column = name if times[name] == 1 else f"decision_{name}"
        columns[column] = pd.Series(answers, dtype=_dtype(answers))
    for name in metrics:
        values = [float(trial.metrics.get(name, math.nan)) for trial in trials]
        columns[name if times[name] == 1 else f"metric_{name}"] = pd.Series(values, dtype="float64")
    return pd.DataFrame(columns)


def _decision_names(space: Space, trials: Sequence[Trial]) -> list[str]:
    if isinstance(space, FlatSpace):
        return [decision.name for decision in space.decisions]
    return list(dict.fromkeys(name for trial in trials for name in trial.assignment))


def _dtype(answers: Sequence[Option | None]) -> str | None:
    """None: pandas' own type of strings."""
    kinds = {type(answer) for answer in answers}
    missing = type(None) in kinds
    kinds.discard(type(None))
    if kinds == {int}:
        return "Int64" if missing else "int64"
    if kinds == {bool}:
        return "boolean" if missing else "bool"
    if kinds <= {int, float} and kinds:
        return "float64"
    return None if kinds == {str} else "object"
