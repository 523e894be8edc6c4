"""`tune compare` as a user drives it: runs in processes of their own, real kills."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import re
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
from kilotune.experiments.comparison.suite import case_of
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.anytime import Curve
from kilotune.search.comparison_store import comparisons, save_comparison
from kilotune.search.hypervolume import hypervolume
from kilotune.search.store import Store, StoreError
from kilotune.search.strategy import strategy_names
from kilotune.search.study import Study
from kilotune.search.work_sharing import SharedStudy
from tests.commands import tune

pytestmark = pytest.mark.slow

TUNE = [sys.executable, "-m", "kilotune.experiments"]
SHIFTRY = ("--space", "shiftry", "--input", "protonn-digits")
STOPPED = (*SHIFTRY, "--strategies", "local,random", "--repeats", "2", "--budget", "600trials", "--name", "c")


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    return {"cwd": tmp_path, "env": {**os.environ, "KILOTUNE_STORAGE": str(tmp_path / "studies.db")}}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """The trials of the comparison that other tests stop."""
    folder = tmp_path_factory.mktemp("undisturbed")
    place = {"cwd": folder, "env": {**os.environ, "KILOTUNE_STORAGE": str(folder / "studies.db")}}
    assert tune(folder, place["env"], "compare", *STOPPED, "--jobs", "2", "--quiet").returncode == ExitStatus.FEASIBLE
    return trials(place)


def compare(place: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    """By one worker, since each has to start."""
    return tune(place["cwd"], place["env"], "compare", "--jobs", "1", *arguments)


def trials(place: dict[str, Any]) -> dict[str, list[tuple[int, str]]]:
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    found = {row.name: [(t.number, t.candidate) for t in store.trials(row.name)] for row in store.studies()}
    store.close()
    return found


def wait_for_trials(place: dict[str, Any], count: int) -> None:
    path, deadline = Path(place["env"]["KILOTUNE_STORAGE"]), time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists():
            store = Store(str(path))
            there = sum(study.trials for study in store.studies())
            store.close()
            if there >= count:
                return
        time.sleep(0.05)
    raise AssertionError("no trials came")


def test_the_table_and_the_files_say_what_the_studies_hold(place: dict[str, Any]) -> None:
    done = compare(
        place,
        *(*SHIFTRY, "--strategies", "greedy,local,random", "--repeats", "3", "--budget", "150trials"),
        *("--name", "three", "--json", "result.json", "--csv", "runs.csv"),
    )
    assert done.returncode == ExitStatus.FEASIBLE, done.stderr
    (case,) = json.loads((place["cwd"] / "result.json").read_text())["cases"]
    rows = list(csv.DictReader(io.StringIO((place["cwd"] / "runs.csv").read_text())))
    assert [(r["strategy"], r["seed"]) for r in rows if r["strategy"] == "random"] == [("random", s) for s in "012"]
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    for standing in case["standings"]:
        for made in standing["runs"]:
            stored = list(store.trials(made["study"]))
            assert made["evaluations"] == len(stored) <= 150
            times = [trial.elapsed_s for trial in stored]
            assert times == sorted(times)
            for number, cpu_s, value in zip(*made["curve"].values(), strict=True):
                assert stored[number - 1].metrics["memory_bytes"] == value
                assert stored[number - 1].elapsed_s == cpu_s
    # the paper's procedure and the strategy that runs it agree
    greedy = next(s for s in case["standings"] if s["strategy"] == "greedy")
    assert {made["curve"]["value"][-1] for made in greedy["runs"]} <= {case["paper"]["value"]}
    assert greedy["to_paper"]["runs"] == 3
    assert case["verdict"] in done.stdout
    assert "greedy" in done.stdout


def test_where_a_front_is_asked_for_runs_are_compared_by_their_hypervolume(place: dict[str, Any]) -> None:
    case = ("--space", "shiftry", "--input", "protonn-cancer", "--front", "--strategies", "front,random,greedy")
    done = compare(place, *case, "--repeats", "1", "--budget", "300trials", "--json", "-")
    assert done.returncode == ExitStatus.FEASIBLE, done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    assert case["objective"] == {"metric": "hypervolume_percent", "direction": "maximize"}
    reference = case["reference_point"]
    assert reference == {"flash_bytes": 1068, "expected_flips": pytest.approx(7.6)}
    assert "reference point flash_bytes 1068, expected_flips 7.6" in done.stderr
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    for standing in case["standings"]:
        (made,) = standing["runs"]
        found = [row.measurement.metrics for row in store.trials(made["study"])]
        points = [(metrics["flash_bytes"], metrics["expected_flips"]) for metrics in found]
        covered = 100 * hypervolume(points, tuple(reference.values()))
        assert made["curve"]["value"][-1] == pytest.approx(covered)
        if standing["strategy"] == "greedy":
            assert case["paper"]["value"] == pytest.approx(covered)
    store.close()
    assert case["standings"][0]["strategy"] == "front"


def test_all_is_every_strategy_that_fits_and_the_seeds_of_a_verdict_are_said_before(place: dict[str, Any]) -> None:
    asked = ("--space", "memory", "--strategies", "all", "--repeats", "1", "--budget", "3trials", "--json", "-")
    done = compare(place, *asked)
    assert done.returncode == ExitStatus.FEASIBLE, done.stderr
    result = json.loads(done.stdout)
    compared = {standing["strategy"] for standing in result["cases"][0]["standings"]}
    assert compared == {*strategy_names()} - {"anneal", "front"}  # which have nothing to anneal there, and no front
    assert set(result["plan"]["cases"][0]["strategies"]) == compared  # the names, not the word
    said = re.match(
        r"A verdict between (\d+) strategies needs at least (\d+) seeds, and there is 1: `--repeats (\d+)`", done.stderr
    )
    assert said is not None
    strategies, seeds, repeats = map(int, said.groups())
    assert strategies == len(compared)
    assert seeds == repeats
    # the least p of Wilcoxon's exact test with n seeds is 2 / 2**n; Holm multiplies it by the number of pairs
    pairs = strategies * (strategies - 1) // 2
    assert pairs * 2 / 2**seeds <= 0.05 < pairs * 2 / 2 ** (seeds - 1)
    assert f"needs {seeds} seeds" in done.stderr  # of the paper's procedure, which no seed changes
    assert "needs 6 seeds" not in done.stderr


def test_the_exit_status_says_that_nothing_is_feasible(place: dict[str, Any]) -> None:
    tiny = ("--space", "shiftry", "--input", "worked-example", "--limit", "flash=1", "--budget", "5trials")
    done = compare(place, *tiny, "--strategies", "local", "--repeats", "1", "--name", "tiny")
    assert done.returncode == ExitStatus.INFEASIBLE
    assert "Nothing meets the limits" in done.stdout
    assert compare(place, "--name", "tiny", "--quiet").returncode == ExitStatus.INFEASIBLE


def test_saved_curves_are_those_of_the_trials(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (*SHIFTRY, "--strategies", "local", "--repeats", "2", "--budget", "150trials", "--name", "c", "--quiet")
    assert compare(place, *asked).returncode == ExitStatus.FEASIBLE
    store = Store(place["env"]["KILOTUNE_STORAGE"])

    def curves() -> list[Curve]:
        return [run.curve for run in load(store, "c").cases[0].comparison.standings[0].runs]

    with monkeypatch.context() as unreadable:
        unreadable.delattr(Store, "trials")
        saved = curves()
    monkeypatch.setattr("kilotune.experiments.comparison.records.saved_curves", lambda store: {})
    assert saved == curves()
    assert all(curve.steps for curve in saved)
    monkeypatch.undo()
    store.append("c.shiftry-protonn-digits.local.0", [], elapsed_s=1e6)  # it went on: what was saved is out of date
    assert curves()[0].seconds == 1e6


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_comparison_goes_on_and_ends_with_the_same_trials(
    place: dict[str, Any], undisturbed: dict[str, list[tuple[int, str]]], how: signal.Signals
) -> None:
    # one worker for four runs: when the first trials are there, most are still to be made
    command = [*TUNE, "compare", *STOPPED, "--jobs", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, **place)
    wait_for_trials(place, 1)
    process.send_signal(how)
    said = process.communicate(timeout=60)[1]  # ends when no process holds the pipe any more, workers included
    stopped = trials(place)
    assert 0 < sum(map(len, stopped.values())) < 2400
    if how is signal.SIGINT:
        assert process.returncode == ExitStatus.INTERRUPTED
        assert "`tune compare --name c` goes on" in said
    assert compare(place, "--name", "c", "--quiet").returncode == ExitStatus.FEASIBLE
    assert trials(place) == undisturbed
    assert {len(rows) for rows in undisturbed.values()} == {600}
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
    said = process.communicate(timeout=60)[1]
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


def test_a_suite_of_ones_own(place: dict[str, Any]) -> None:
    (place["cwd"] / "mine.toml").write_text(
        'strategies = ["greedy", "cp"]\n[[case]]\nspace = "memory"\n[[case]]\nspace = "seedot"\ninput = "protonn-digits"\n'
        'title = "maxscale"\nalso = ["random"]\n[[case]]\nspace = "shiftry"\ninput = "worked-example"\nloss = 0.2\n'
    )
    done = compare(
        place,
        "--suite",
        "mine.toml",
        "--repeats",
        "1",
        "--budget",
        "20trials,2s",
        "--name",
        "mine",
        "--json",
        "-",
        "--markdown",
        "mine.md",
    )
    assert done.returncode == 0, done.stderr
    cases = {case["title"]: case for case in json.loads(done.stdout)["cases"]}
    assert {title: {s["strategy"] for s in case["standings"]} for title, case in cases.items()} == {
        "memory-fastgrnn-digits": {"greedy", "cp"},
        "maxscale": {"greedy", "random"},  # no constraint model there
        "shiftry-worked-example": {"greedy", "cp"},
    }
    assert cases["memory-fastgrnn-digits"]["reference"] == {
        "kind": "proved optimum",
        "value": 288.0,
        "proved_by": ["cp"],
    }
    assert cases["memory-fastgrnn-digits"]["paper"]["value"] == 320.0
    headline = (place["cwd"] / "mine.md").read_text().splitlines()[2]
    assert headline.startswith("| memory | fastgrnn-digits | peak bytes | 320 | 288 | 11.1 % | cp (1, ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Expected --space, --suite, or the --name of a comparison that exists"),
        (("--space", "seedot", "--strategies", "cp"), "'cp' needs a constraint model"),
        (("--space", "seedot", "--strategies", "genius"), "There is no strategy 'genius'"),
        (("--space", "seedot", "--budget", "soon"), "Budget 'soon'"),
        (("--space", "seedot", "--capacity", "2KiB"), "--capacity does not go with the space seedot"),
        (
            ("--suite", "five-spaces", "--strategies", "anneal,count_tpe,optuna:Nonsense"),
            "optuna:Nonsense fits none of the",
        ),
        (("--suite", "text.toml"), "strategies: expected a list of names, found 'greedy'"),
        (("--suite", "also.toml"), "`also` = 'anneal', which is no list of names"),
        (("--suite", "title.toml"), "`title` = '../up', which is not of letters"),
        (("--suite", "none.toml"), "none of the strategies fits the space seedot"),
        (("--suite", "key.toml"), "expected `strategies` and [[case]], found `repeats`"),
        (("--suite", "nowhere"), "nowhere: expected a TOML file, or one of five-spaces"),
        (("--suite", "five-spaces", "--space", "cm"), "--space does not go with --suite"),
        (("--suite", "broken.toml"), "case 2: expected a case, found There is no option 'colour' of the space memory"),
        (("--suite", "twice.toml"), "memory-fastgrnn-digits twice: give case 2 a `title`"),
        (("--space", "cm", "--csv", "no/where.csv"), "--csv no/where.csv: expected a file in a folder that exists"),
        (("--space", "cm", "--csv", "-", "--json", "-"), "would both go to stdout"),
        (("--space", "cm", "--csv", "x", "--markdown", "x"), "--csv x and --markdown x would both go to x"),
        (("--name", "../up"), "expected letters, digits"),
    ],
)
def test_bad_input_is_a_sentence_and_starts_nothing(
    place: dict[str, Any], arguments: tuple[str, ...], sentence: str
) -> None:
    memory = '[[case]]\nspace = "memory"\n'
    (place["cwd"] / "broken.toml").write_text(memory + memory + 'colour = "red"\n')
    (place["cwd"] / "twice.toml").write_text(memory + memory)
    (place["cwd"] / "text.toml").write_text('strategies = "greedy"\n' + memory)
    (place["cwd"] / "also.toml").write_text(memory + 'also = "anneal"\n')
    (place["cwd"] / "title.toml").write_text(memory + 'title = "../up"\n')
    (place["cwd"] / "none.toml").write_text('strategies = ["cp"]\n[[case]]\nspace = "seedot"\n')
    (place["cwd"] / "key.toml").write_text("repeats = 3\n" + memory)
    done = compare(place, *arguments)
    assert done.returncode == ExitStatus.BAD_INPUT
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not trials(place)
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    assert not comparisons(store)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seed", "9"), "--seed does not go with --name alone"),
        (("--input", "lenet-digits"), "--input does not go with --name alone"),
        (("--drop", "0"), "--drop does not go with --name alone"),
        (("--strategies", "optuna:Nonsense"), "The strategy optuna:Nonsense fits none of the cases: "),
        (("--strategies", "cp,anneal"), "The strategy anneal fits none of the cases: "),
        (("--budget", "10trials"), "had more seeds, strategies or budget"),
        (("--suite", "five-spaces"), "was of other cases"),
    ],
)
def test_a_stored_comparison_is_not_turned_into_another_one(
    place: dict[str, Any], arguments: tuple[str, ...], sentence: str
) -> None:
    request = request_from("shiftry", input="worked-example", options={"permitted_loss": 0.2})
    plan = ComparisonPlan((Case("one", "shiftry", request.input, ("random",), request.options),), 1, "20trials")
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    save_comparison(store, "c", plan.as_json())
    done = compare(place, "--name", "c", *arguments)
    assert done.returncode == ExitStatus.BAD_INPUT
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert ComparisonPlan.from_json(comparisons(store, "c")[0].plan) == plan
    assert not trials(place)


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


def test_a_stored_plan_is_extended_by_what_it_was_made_of(tmp_path: Path) -> None:
    """Also where an option is a list, as the banks of a memory are."""
    plan = ComparisonPlan((case_of(request_from("memory"), ("random",)),), 1, "20trials")
    store = Store(str(tmp_path / "studies.db"))
    save_comparison(store, "c", plan.as_json())
    stored = ComparisonPlan.from_json(comparisons(store, "c")[0].plan)
    assert plan.extends(stored)
    assert stored.extends(plan)
    other = request_from("memory", options={"capacity": "2KiB"})
    assert not ComparisonPlan((case_of(other, ("random",)),), 1, "20trials").extends(stored)
