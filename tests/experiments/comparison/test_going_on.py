"""Comparisons that were stopped, killed, extended, or are at work elsewhere go on with what there is."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.comparison.plan import Case, ComparisonPlan
from kilotune.experiments.comparison.records import load, missing_runs
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.comparison_store import save_comparison
from kilotune.search.store import Store, StoreError
from kilotune.search.study import Study
from kilotune.search.work_sharing import SharedStudy
from tests.commands import tune
from tests.experiments.comparison.comparing import compare, trials

pytestmark = pytest.mark.slow

TUNE = [sys.executable, "-m", "kilotune.experiments"]
SHIFTRY = ("--space", "shiftry", "--input", "protonn-digits")
STOPPED = (*SHIFTRY, "--strategies", "local,random", "--repeats", "2", "--budget", "250trials", "--name", "c")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """The trials of the comparison that other tests stop."""
    folder = tmp_path_factory.mktemp("undisturbed")
    place = {"cwd": folder, "env": {**os.environ, "KILOTUNE_STORAGE": str(folder / "studies.db")}}
    assert tune(folder, place["env"], "compare", *STOPPED, "--jobs", "2", "--quiet").returncode == ExitStatus.FEASIBLE
    return trials(place)


def wait_for_trials(place: dict[str, Any], count: int) -> None:
    path, deadline = Path(place["env"]["KILOTUNE_STORAGE"]), time.monotonic() + 240
    while time.monotonic() < deadline:
        if path.exists():
            store = Store(str(path))
            there = sum(study.trials for study in store.studies())
            store.close()
            if there >= count:
                return
        time.sleep(0.05)
    raise AssertionError("no trials came")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_comparison_goes_on_and_ends_with_the_same_trials(
    place: dict[str, Any], undisturbed: dict[str, list[tuple[int, str]]], how: signal.Signals
) -> None:
    # one worker for four runs: when the first trials are there, most are still to be made
    command = [*TUNE, "compare", *STOPPED, "--jobs", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, **place)
    wait_for_trials(place, 1)
    process.send_signal(how)
    said = process.communicate(timeout=240)[1]  # ends when no process holds the pipe any more, workers included
    stopped = trials(place)
    assert 0 < sum(map(len, stopped.values())) < 1000
    if how is signal.SIGINT:
        assert process.returncode == ExitStatus.INTERRUPTED
        assert "`tune compare --name c` goes on" in said
    assert compare(place, "--name", "c", "--quiet").returncode == ExitStatus.FEASIBLE
    assert trials(place) == undisturbed
    assert {len(rows) for rows in undisturbed.values()} == {250}
    for name, rows in stopped.items():
        assert undisturbed[name][: len(rows)] == rows


def test_a_killed_worker_loses_its_run_alone(
    place: dict[str, Any], undisturbed: dict[str, list[tuple[int, str]]]
) -> None:
    command = [*TUNE, "compare", *STOPPED, "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **place)
    wait_for_trials(place, 1)
    workers = [pid for pid in children(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(workers[0], signal.SIGKILL)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == ExitStatus.BAD_INPUT
    assert "its process died (signal SIGKILL" in said
    assert "`tune compare --name c` goes on" in said
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    stopped = trials(place)
    assert compare(place, "--name", "c", "--quiet").returncode == ExitStatus.FEASIBLE
    assert trials(place) == undisturbed
    for name, rows in stopped.items():
        assert undisturbed[name][: len(rows)] == rows


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_more_seeds_keep_the_runs_that_are_there(place: dict[str, Any]) -> None:
    asked = (*SHIFTRY, "--strategies", "random", "--budget", "60trials", "--name", "c", "--quiet")
    assert compare(place, *asked, "--repeats", "2").returncode == 0
    first = trials(place)
    assert compare(place, "--name", "c", "--repeats", "3", "--strategies", "greedy", "--quiet").returncode == 0
    after = trials(place)
    assert {name: after[name] for name in first} == first
    assert sorted(name.split(".", 2)[2] for name in after) == [
        f"{s}.{n}" for s in ("greedy", "random") for n in range(3)
    ]
    listed = [
        json.loads(tune(place["cwd"], place["env"], "list", what, "--json").stdout)
        for what in ("studies", "comparisons")
    ]
    assert listed == [[], [{**listed[1][0], "name": "c", "repeats": 3, "runs": 6, "finished": 6}]]
    alone = tune(place["cwd"], place["env"], "resume", "c.shiftry-protonn-digits.random.0")
    assert alone.returncode == ExitStatus.BAD_INPUT
    assert "`tune compare --name c` goes on with it" in alone.stderr
    fewer = compare(place, *asked, "--repeats", "1")
    assert fewer.returncode == ExitStatus.BAD_INPUT
    assert "`tune compare --name c` goes on with it" in fewer.stderr
    assert compare(place, "--name", "c", "--quiet").returncode == 0
    assert trials(place) == after


def test_a_run_that_another_process_makes_is_left_to_it(place: dict[str, Any]) -> None:
    """Two that divide a run's trials would spend two budgets on it."""
    asked = (
        "--space",
        "shiftry",
        "--input",
        "worked-example",
        "--loss",
        "0.2",
        "--strategies",
        "random",
        "--repeats",
        "1",
    )
    assert compare(place, *asked, "--budget", "10trials", "--name", "c", "--quiet").returncode == ExitStatus.INFEASIBLE
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    (run,) = store.studies()
    other = SharedStudy(store, run.name)  # beats, as a process that works on the study does
    try:
        second = compare(place, "--name", "c", "--budget", "20trials", "--quiet")
    finally:
        other.leave()
    assert second.returncode == ExitStatus.BAD_INPUT
    assert "shiftry-worked-example, random, seed 0: another process is making this run" in second.stderr
    assert [len(rows) for rows in trials(place).values()] == [10]
    assert (
        compare(place, "--name", "c", "--quiet").returncode == ExitStatus.INFEASIBLE
    )  # of few trials none keeps the limit
    assert [len(rows) for rows in trials(place).values()] == [20]


def test_what_counts_as_begun_and_as_complete(tmp_path: Path) -> None:
    """A run that spent its seconds on nothing, and was interrupted in its last moment, is not missing for ever."""
    request = request_from("shiftry", input="worked-example", options={"permitted_loss": 0.2})
    case = Case("one", "shiftry", request.input, ("random",), request.options)
    plan, store = ComparisonPlan((case,), 1, "5s"), Store(str(tmp_path / "studies.db"))
    space = build_problem(case.request("random")).space
    save_comparison(store, "c", plan.as_json())
    (run,) = missing_runs(store, "c", plan)
    Study.create(store, plan.study_name("c", run), space, "random", request={"comparison": "c"})
    assert missing_runs(store, "c", plan) == [run]
    assert not load(store, "c").cases
    store.append(plan.study_name("c", run), [], status="interrupted", elapsed_s=5.01)
    assert missing_runs(store, "c", plan) == []
    assert load(store, "c").complete
    Study.create(store, "c.one.x.random.0", space, "random", request={"comparison": "c"})  # of its case one.x, say
    with pytest.raises(StoreError, match=r"a study .c\.one\.x\.random\.0., which is no run of the comparison .c\.one."):
        missing_runs(store, "c.one", ComparisonPlan((dataclasses.replace(case, title="x"),), 1, "5s"))
