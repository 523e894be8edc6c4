"""A command whose budget is over before anything could be measured goes on for a first candidate, and says so."""

from __future__ import annotations

import itertools
import json
import math
import threading
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.studies import command_time
from kilotune.experiments.studies.command_time import CommandTime
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.abandoning import TICK_S
from kilotune.search.budget import Budget
from kilotune.search.study import Study
from tests.experiments.budgets.hard_inputs import write_buffers
from tests.search.problems import FlatProblem

LESS_THAN_READING_TAKES = "0.001s"
SPACE = FlatProblem(2, 2, 1)


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
    assert time.for_first_answer(time.for_search(reserved_share=0.2), SPACE) == pytest.approx(2.0 + 5.0)
    now[0] += 8.0  # twelve in all: reading took longer than the budget
    left = time.for_search()
    assert left.seconds + time.for_first_answer(left, SPACE) == pytest.approx(3.0)
    now[0] += 8.0
    assert time.for_first_answer(time.for_search(), SPACE) == 0.0
    assert CommandTime(Budget(trials=3)).for_first_answer(Budget(seconds=math.inf, trials=3), SPACE) == 0.0


@pytest.mark.parametrize("banks", [(), ("fast=1MiB", "slow")])
@pytest.mark.parametrize("strategy", ["exhaustive", "random"])
def test_buffers_are_placed_however_busy_the_machine(tmp_path: Path, strategy: str, banks: tuple[str, ...]) -> None:
    """By a clock that is days ahead at every look, as where others take the processor. As many buffers as take longer than the timer."""
    path, looks = write_buffers(tmp_path / "buffers.csv", 20_000 if not banks else 3000), itertools.count()
    space = build_problem(request_from("memory", input=str(path), options={"banks": banks})).space
    study = Study(space, strategy, clock=lambda: 1e5 * next(looks), procedure_first=True)
    longer_s = CommandTime(Budget(seconds=0.05)).for_first_answer(Budget(seconds=0.01), space)
    result = study.run(InProcessExecutor(space), Budget(seconds=0.01), first_answer_s=longer_s)
    assert result.feasible
    assert result.evaluations == 1


@pytest.mark.parametrize(
    ("wall_s", "processor_s", "is_read"), [(14.9, 9.0, True), (15.1, 4.9, True), (15.1, 5.1, False), (71.0, 0.1, False)]
)
def test_a_busy_machine_has_longer_to_read(
    monkeypatch: pytest.MonkeyPatch, wall_s: float, processor_s: float, is_read: bool
) -> None:
    """Within a budget of ten seconds."""
    problem = build_problem(request_from("memory", input="minimalloc-a"))
    time = CommandTime(Budget(seconds=10.0))
    now_s, now_processor_s = time.begun_s + wall_s, time.begun_processor_s + processor_s

    def make() -> Problem:
        with monkeypatch.context() as later:
            later.setattr(command_time.time, "monotonic", lambda: now_s)
            later.setattr(command_time.time, "process_time", lambda: now_processor_s)
            threading.Event().wait(2.5 * TICK_S)
        return problem

    if is_read:
        assert time.read("a", make) is problem
    else:
        with pytest.raises(ValueError, match="reading a takes more than 5 s longer"):
            time.read("a", make)


def test_what_a_resumed_study_has_replayed_takes_no_time_from_what_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(command_time.time, "monotonic", lambda: now[0])
    time, study = CommandTime(Budget(seconds=10.0), begun_s=100.0), Study(FlatProblem(2, 2, 1))
    now[0] += 40.0  # 30 of them a replay
    assert not time.concluded(study, replay_s=30.0)()
    assert time.concluded(study, replay_s=0.0)()
    now[0] += 0.5 + command_time.CONCLUDING_SHARE * 10.0
    assert time.concluded(study, replay_s=30.0)()
