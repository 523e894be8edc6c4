"""Commands that begin in the same second."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

import kilotune
from kilotune.experiments.studies import joining
from kilotune.experiments.studies.storage import open_store
from tests.commands import tune


def test_a_new_study_has_a_name_of_its_own_though_another_one_has_just_taken_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked before either has begun; the second one went on with the first one's study."""
    names = iter(["first", "first", "second"])
    monkeypatch.setattr(joining, "dated_name", lambda space: next(names))
    storage = str(tmp_path / "studies.db")
    asked = ["--space", "memory", "--strategy", "random", "--budget", "3trials", "--no-output", "--storage", storage]
    for _ in range(2):
        done = tune(tmp_path, os.environ, *asked)
        assert done.returncode == 0, done.stderr
    studies = open_store(storage).studies()
    assert {study.name: study.trials for study in studies} == {"first": 3, "second": 3}


def test_two_commands_with_stores_of_their_own_write_into_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same second: the clock stands still."""

    class Stopped(datetime.datetime):
        @classmethod
        def now(cls, _tz: datetime.tzinfo | None = None) -> Stopped:
            return cls(2026, 1, 1)

    monkeypatch.setattr(joining.datetime, "datetime", Stopped)
    for k in range(2):
        asked = [
            "--space",
            "memory",
            "--strategy",
            "random",
            "--budget",
            "3trials",
            "--storage",
            str(tmp_path / f"{k}.db"),
        ]
        assert tune(tmp_path, os.environ, *asked).returncode == 0
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_a_search_in_python_without_a_name_finds_one_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["first", "first", "second"])
    monkeypatch.setattr(joining, "dated_name", lambda space: next(names))
    found = [
        kilotune.tune(space="memory", strategy="random", budget="3trials", storage=tmp_path / "studies.db")
        for _ in range(2)
    ]
    assert [study.name for study in found] == ["first", "second"]
