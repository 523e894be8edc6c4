"""`tune list studies`: what a user sees of every study without opening it."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from kilotune.experiments.commands import listing
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.notebook.tuning import tune
from kilotune.search.store import Store


@pytest.fixture
def listed(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Rows by name: a proved study, one with a gap, one that nothing can satisfy, and one whose input is gone."""
    moved = tmp_path / "model"
    shutil.copytree(model_path("protonn-cancer"), moved)
    storage = tmp_path / "studies.db"
    tune("memory", strategy="exhaustive", storage=storage, study="proved", budget="20s")
    tune("reverse-split", input="gauss3", strategy="random", storage=storage, study="gap", budget="5trials")
    tune("shiftry", input="protonn-cancer", limits={"flash": 1}, storage=storage, study="tight", budget="20trials")
    tune("shiftry", input=moved, storage=storage, study="gone", budget="5trials")
    shutil.rmtree(moved)
    return {row["name"]: row for row in listing.rows("studies", lambda: Store(str(storage)))}


def test_studies_with_their_best_gap_and_proof(listed: dict[str, dict[str, Any]]) -> None:
    assert list(listed) == ["proved", "gap", "tight", "gone"]
    proved, gap, tight, gone = listed.values()
    assert (proved["metric"], proved["best"], proved["gap_percent"], proved["proof"]) == (
        "peak_bytes",
        288,
        0,
        "proved",
    )
    assert gap["metric"] == "instructions"
    assert gap["best"] >= 10
    assert gap["gap_percent"] == round(100 * (gap["best"] - 7) / gap["best"], 2), "7: what needs no search"
    assert gap["proof"] is None
    assert tight["proof"] in ("breaks a limit", "no candidate keeps the limits")
    assert (gone["best"], gone["gap_percent"], gone["proof"]) == (None, None, None)
    text = listing.table(list(listed.values()))
    assert text.splitlines()[1].split()[-4:] == ["peak_bytes", "288", "0", "proved"]


def test_a_study_whose_input_was_moved_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, storage = tmp_path / "model", tmp_path / "studies.db"
    shutil.copytree(model_path("worked-example"), place)
    for name in ("first", "second"):
        tune("shiftry", input=place, storage=storage, study=name, budget="2trials")
    place.rename(tmp_path / "elsewhere")
    assert [row["best"] for row in listing.rows("studies", lambda: Store(str(storage)))] == [None, None]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"{name}: its best is not known. {place}: study {name}: expected its input there, found nothing; if it was "
        f"moved, `tune resume {name} --input PLACE` goes on"
        for name in ("first", "second")
    ]


@pytest.mark.parametrize(
    ("damage", "shown", "said"),
    [
        (
            "UPDATE studies SET seed = 'x' WHERE name = 'damaged'",
            [("whole", 288)],
            ("is damaged: study 'damaged', column seed: expected a whole number",),
        ),
        (
            "UPDATE trials SET metrics = '[1]' WHERE study_id = 2",  # the best is read, others need not be
            [("whole", 288), ("damaged", None)],
            ("damaged: its best is not known", "column metrics"),
        ),
    ],
    ids=["its own row", "a trial"],
)
def test_a_study_with_a_damaged_cell_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str, shown: list[tuple[str, Any]], said: tuple[str, ...]
) -> None:
    storage = tmp_path / "studies.db"
    for name in ("whole", "damaged"):
        tune("memory", strategy="exhaustive", storage=storage, study=name, budget="20s")
    with contextlib.closing(sqlite3.connect(storage)) as connection, connection:
        connection.execute(damage)
    rows = listing.rows("studies", lambda: Store(str(storage)))
    assert [(row["name"], row["best"]) for row in rows] == shown
    warned = capsys.readouterr().err
    for words in said:
        assert words in warned
    assert tune("memory", strategy="exhaustive", storage=storage, budget="20s").result.best is not None
