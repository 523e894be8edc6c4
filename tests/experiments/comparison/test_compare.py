"""`tune compare` as a user drives it: what its table and its files say."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest

from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.comparison.records import load
from kilotune.search.anytime import Curve
from kilotune.search.hypervolume import hypervolume
from kilotune.search.store import Store
from kilotune.search.strategy import strategy_names
from tests.experiments.comparison.comparing import compare

pytestmark = pytest.mark.slow

SHIFTRY = ("--space", "shiftry", "--input", "protonn-digits")


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
    assert reference == {"flash_bytes": 870, "expected_flips": pytest.approx(7.6)}
    assert "reference point flash_bytes 870, expected_flips 7.6" in done.stderr
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
