"""The data frame against the trials, value by value."""

from __future__ import annotations

import math
import sys

import pandas as pd
import pytest

from kilotune.experiments.notebook.frame import trials_frame
from kilotune.experiments.notebook.tuning import tune
from tests.experiments.notebook.spaces import Branch, Hopeless, Mixed


def test_columns_types_and_values_of_a_flat_space() -> None:
    study = tune(Mixed(), strategy="random", budget="48trials", seed=1)
    frame = study.to_dataframe()
    types = {name: str(kind) for name, kind in frame.dtypes.items()}
    text = types.pop("kind")
    assert text in ("str", "object")  # pandas 3, pandas 2
    assert types == {
        "metric_count": "float64",
        "decision_count": "int64",
        "decision_number": "object",
        "number": "int64",
        "elapsed_s": "float64",
        "feasible": "bool",
        "failure": "object",
        "share": "float64",
        "flag": "bool",
        "cost": "float64",
        "weight": "float64",
        "spare": "float64",
    }
    assert list(frame.columns[:9]) == [
        *("number", "elapsed_s", "feasible", "failure"),
        *("decision_count", "share", "kind", "flag", "decision_number"),
    ]
    assert len(frame) == len(study.trials) == 48
    for row, trial in zip(frame.to_dict("records"), study.trials, strict=True):
        assert row["number"] == trial.number
        assert row["elapsed_s"] == trial.elapsed_s
        assert row["failure"] == trial.measurement.failure
        assert row["decision_count"] == trial.assignment["count"]
        assert row["decision_number"] == trial.assignment["number"]
        for decision in ("share", "kind", "flag"):
            assert row[decision] == trial.assignment[decision]
        failed = trial.measurement.failure is not None
        assert row["feasible"] == (not failed and trial.metrics["weight"] <= 6)
        for metric in ("cost", "weight", "spare"):
            if metric in trial.metrics:
                assert row[metric] == trial.metrics[metric]
            else:
                assert math.isnan(row[metric])
    # (1, a), (1, b), (2, a) with 8 candidates each, (3, a) with the 4 that do not fail
    assert frame["feasible"].sum() == 28
    assert frame["failure"].notna().sum() == 8
    assert frame["spare"].notna().sum() == 24


def test_questions_that_were_not_asked_are_missing() -> None:
    frame = tune(Branch(), strategy="random", budget="4trials").to_dataframe().sort_values("value")
    types = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert (types["size"], types["on"]) == ("Int64", "boolean")
    assert frame["size"].isna().tolist() == [True, True, False, False]
    assert frame["size"].tolist()[2:] == [4, 8]
    assert frame["on"].tolist()[:2] == [False, True]
    assert frame["on"].isna().tolist() == [False, False, True, True]
    assert frame["value"].tolist() == [1.0, 2.0, 4.0, 8.0]


def test_failures_alone_and_no_trials_at_all() -> None:
    failed = tune(Hopeless(), strategy="random", budget="10trials").to_dataframe()
    assert failed["failure"].tolist() == ["no"] * 4
    assert not failed["feasible"].any()
    empty = trials_frame(Mixed(), [])
    assert isinstance(empty, pd.DataFrame)
    assert len(empty) == 0
    names = ["number", "elapsed_s", "feasible", "failure", "count", "share", "kind", "flag", "decision_number"]
    assert list(empty.columns) == names


def test_without_pandas_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    study = tune(Branch(), strategy="random", budget="2trials")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match=r"pip install 'kilotune\[notebook\]'"):
        study.to_dataframe()
