"""What searches work out is kept the moment it is made, and made again where it is not the same or cannot be read."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from kilotune.evaluators.executors import kept_work
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.evaluators.executors.kept_work import KeptWork
from tests.search.problems import FlatProblem

SPACE = FlatProblem(10, 4, 1, pairs=6)


class Made:
    """Counts how often something is made."""

    def __init__(self, value: object) -> None:
        self.value, self.times = value, 0

    def __call__(self) -> object:
        self.times += 1
        return self.value


def test_it_is_made_once_for_all_that_ask_for_the_same(tmp_path: Path) -> None:
    path, made = tmp_path / "evaluations.db", Made({"ticks": math.inf, "cores": (3, 4), "lost": 0.1})
    first = KeptWork(EvaluationCache(path), SPACE).recalled(["placed", 7, np.arange(3)], made)
    again = KeptWork(EvaluationCache(path), SPACE).recalled(
        ["placed", 7, np.arange(3)], made
    )  # nobody closed the first one
    assert made.times == 1
    assert first["cores"] == (3, 4)
    assert again == {"ticks": math.inf, "cores": [3, 4], "lost": 0.1}
    for other in (["placed", 8, np.arange(3)], ["placed", 7, np.arange(4)], ["annealed", 7, np.arange(3)]):
        KeptWork(EvaluationCache(path), SPACE).recalled(other, made)
    assert made.times == 4


@pytest.mark.parametrize("damaged", [b"{", b"[" * 100_000])
def test_other_code_and_what_cannot_be_read_are_no_answers(
    damaged: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, made = tmp_path / "evaluations.db", Made(5)
    KeptWork(EvaluationCache(path), SPACE).recalled(["x"], made)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE artefacts SET content = ?", [damaged])
    assert KeptWork(EvaluationCache(path), SPACE).recalled(["x"], made) == 5
    assert KeptWork(EvaluationCache(path), SPACE).recalled(["x"], made) == 5
    assert made.times == 2, "mended"
    monkeypatch.setattr(kept_work, "code_version", lambda space: "tomorrow's")
    KeptWork(EvaluationCache(path), SPACE).recalled(["x"], made)
    assert made.times == 3


def test_what_is_broken_off_is_not_kept(tmp_path: Path) -> None:
    def broken_off() -> object:
        raise KeyboardInterrupt

    kept, made = KeptWork(EvaluationCache(tmp_path / "evaluations.db"), SPACE), Made([1])
    with pytest.raises(KeyboardInterrupt):
        kept.recalled(["x"], broken_off)
    assert kept.recalled(["x"], made) == [1]
    assert made.times == 1


def test_a_note_is_of_its_subject_and_code_and_the_last_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "evaluations.db"
    kept = KeptWork(EvaluationCache(path), SPACE)
    assert kept.noted(["x"]) is None
    kept.note(["x"], {"runs": 1})
    kept.note(["x"], {"runs": 2})
    again = KeptWork(EvaluationCache(path), SPACE)
    assert again.noted(["x"]) == {"runs": 2}
    assert again.noted(["y"]) is None
    assert again.recalled(["x"], Made([5])) == [5], "work is no note"
    monkeypatch.setattr(kept_work, "code_version", lambda space: "tomorrow's")
    assert KeptWork(EvaluationCache(path), SPACE).noted(["x"]) is None
