"""Commands that begin in the same second."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kilotune.experiments.studies import joining
from kilotune.experiments.studies.storage import open_store
from tests.commands import tune


def test_a_new_study_has_a_name_of_its_own_though_another_one_has_just_taken_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked before either has begun; the second one went on with the first one's study."""
    names = iter(["first", "first", "second"])
    monkeypatch.setattr(joining, "free_study_name", lambda store, space: next(names))
    storage = str(tmp_path / "studies.db")
    asked = ["--space", "memory", "--strategy", "random", "--budget", "3trials", "--no-output", "--storage", storage]
    for _ in range(2):
        done = tune(tmp_path, os.environ, *asked)
        assert done.returncode == 0, done.stderr
    studies = open_store(storage).studies()
    assert {study.name: study.trials for study in studies} == {"first": 3, "second": 3}
