"""A command whose budget is over before anything could be measured goes on for a first candidate, and says so."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.studies import command_time
from kilotune.experiments.studies.command_time import CommandTime
from kilotune.search.budget import Budget
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

LESS_THAN_READING_TAKES = "0.001s"


@pytest.mark.parametrize(
    ("space", "given"),
    [
        ("shiftry", "worked-example"),
        ("seedot", "worked-example"),
        ("memory", "minimalloc-a"),
        ("reverse-split", "box3"),
    ],
)
def test_there_is_a_candidate_however_small_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], space: str, given: str
) -> None:
    monkeypatch.setattr(command_time, "FIRST_ANSWER_S", 100.0)  # this machine may be busy, or compile a kernel
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    result = tmp_path / "result.json"
    asked = ["--space", space, "--input", given, "--budget", LESS_THAN_READING_TAKES, "--no-output"]
    with pytest.raises(SystemExit) as end:
        main([*asked, "--json", str(result)])
    said = capsys.readouterr()
    assert end.value.code == ExitStatus.FEASIBLE, said.err
    assert json.loads(result.read_text())["best"]["feasible"]
    assert "there was none within the budget" in said.out


def test_the_time_for_a_first_answer_is_counted_from_the_command_s_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_time, "FIRST_ANSWER_S", 5.0)
    now = [100.0]
    monkeypatch.setattr(command_time.time, "monotonic", lambda: now[0])
    time = CommandTime(Budget(seconds=10.0), begun_s=100.0)
    now[0] += 4.0
    assert time.for_first_answer(time.for_search(reserved_share=0.2)) == pytest.approx(2.0 + 5.0)
    now[0] += 8.0  # twelve in all: reading took longer than the budget
    left = time.for_search()
    assert left.seconds + time.for_first_answer(left) == pytest.approx(3.0)
    now[0] += 8.0
    assert time.for_first_answer(time.for_search()) == 0.0
    assert CommandTime(Budget(trials=3)).for_first_answer(Budget(seconds=math.inf, trials=3)) == 0.0


def test_what_a_resumed_study_has_replayed_takes_no_time_from_what_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(command_time.time, "monotonic", lambda: now[0])
    time, study = CommandTime(Budget(seconds=10.0), begun_s=100.0), Study(FlatProblem(2, 2, 1))
    now[0] += 40.0  # 30 of them a replay
    assert not time.concluded(study, replay_s=30.0)()
    assert time.concluded(study, replay_s=0.0)()
    now[0] += 0.5 + command_time.CONCLUDING_SHARE * 10.0
    assert time.concluded(study, replay_s=30.0)()
