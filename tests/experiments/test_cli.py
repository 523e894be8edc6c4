"""The command as a user drives it: results, resumption after a real kill, interruption."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.search.store import Store
from tests.commands import tune

pytestmark = pytest.mark.slow

TUNE = [sys.executable, "-m", "kilotune.experiments"]
MODEL = "protonn-digits"


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    """Keyword arguments of subprocess calls: a folder and a store of the test's own."""
    return {"cwd": tmp_path, "env": {**os.environ, "KILOTUNE_STORAGE": str(tmp_path / "studies.db")}}


def run(place: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    return tune(place["cwd"], place["env"], *arguments)


def stored_trials(place: dict[str, Any]) -> int:
    path = Path(place["env"]["KILOTUNE_STORAGE"])
    if not path.exists():
        return 0
    store = Store(str(path))
    try:
        return sum(study.trials for study in store.studies())
    finally:
        store.close()


def listed_status(place: dict[str, Any]) -> str:
    return str(json.loads(run(place, "list", "studies", "--json").stdout)[0]["status"])


def test_a_run_prints_json_alone_on_stdout_and_writes_the_program(place: dict[str, Any]) -> None:
    done = run(
        place, "--space", "shiftry", "--input", MODEL, "--budget", "300trials", "--json", "-", "--output", "program"
    )
    assert done.returncode == ExitStatus.FEASIBLE, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == 1
    assert result["space"] == "shiftry"
    assert result["evaluations"] <= 300
    assert result["proved"]
    assert result["bound"] == result["best"]["metrics"]["memory_bytes"]
    assert result["best"]["metrics"]["accuracy_percent"] >= result["float"]["train"]["accuracy_percent"] - 2.0
    assert result["best"]["metrics"]["memory_bytes"] <= result["procedure"]["metrics"]["memory_bytes"]
    assert set(result["best"]["artifacts"]) == {"source", "header", "check", "decisions"}
    for path in result["best"]["artifacts"].values():
        assert (place["cwd"] / path).exists()
    if shutil.which("gcc"):
        checked = subprocess.run(
            ["make", "-C", "program", "check"], capture_output=True, text=True, check=False, **place
        )
        assert checked.returncode == 0, checked.stderr
        assert "100 of 100 outputs equal" in checked.stdout


def test_the_same_seed_gives_the_same_result(place: dict[str, Any]) -> None:
    arguments = (
        "--space",
        "shiftry",
        "--input",
        MODEL,
        "--budget",
        "200trials",
        "--json",
        "-",
        "--no-output",
        "--seed",
        "5",
    )
    first, second = (json.loads(run(place, *arguments).stdout) for _ in range(2))
    with_jobs = json.loads(run(place, *arguments, "--jobs", "2").stdout)
    assert first["best"]["assignment"] == second["best"]["assignment"] == with_jobs["best"]["assignment"]
    assert first["study"] != second["study"]


def test_seedot_sweeps_its_whole_curve(place: dict[str, Any]) -> None:
    done = run(place, "--space", "seedot", "--input", MODEL, "--strategy", "greedy", "--json", "result.json")
    assert done.returncode == ExitStatus.FEASIBLE, done.stderr
    result = json.loads((place["cwd"] / "result.json").read_text())
    assert result["evaluations"] == 8 + 16 + 32
    assert result["best"]["metrics"]["accuracy_percent"] >= result["float"]["train"]["accuracy_percent"] - 1.0
    assert "train accuracy" in done.stdout


def test_no_candidate_fits(place: dict[str, Any]) -> None:
    done = run(
        place,
        "--space",
        "shiftry",
        "--input",
        MODEL,
        "--limit",
        "flash=100",
        "--strategy",
        "cp",
        "--budget",
        "500trials",
    )
    assert done.returncode == ExitStatus.INFEASIBLE
    assert "no candidate meets the constraints" in done.stdout


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_study_goes_on(place: dict[str, Any], how: signal.Signals) -> None:
    arguments = (
        "--space",
        "shiftry",
        "--input",
        MODEL,
        "--budget",
        "60s",
        "--study",
        "long",
        "--no-output",
        "--strategy",
        "random",
        "--stop",
        "never",
    )
    running = subprocess.Popen([*TUNE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **place)
    deadline = time.monotonic() + 60
    while stored_trials(place) < 50 and time.monotonic() < deadline:
        time.sleep(0.1)
    kept = stored_trials(place)
    assert kept >= 50
    assert listed_status(place) == "running"
    running.send_signal(how)
    _, said = running.communicate(timeout=60)
    assert listed_status(place) == ("stopped" if how is signal.SIGKILL else "interrupted")
    if how is signal.SIGINT:
        assert running.returncode == ExitStatus.INTERRUPTED
        assert "tune resume long" in said
    resumed = run(place, "resume", "long", "--budget", "100trials", "--json", "-", "--no-output")
    assert resumed.returncode == ExitStatus.FEASIBLE, resumed.stderr
    result = json.loads(resumed.stdout)
    assert result["evaluations"] >= kept + 100
    assert result["study"] == "long"


def test_the_same_command_with_the_same_study_name_resumes(place: dict[str, Any]) -> None:
    arguments = (
        "--space",
        "shiftry",
        "--input",
        MODEL,
        "--study",
        "named",
        "--budget",
        "50trials",
        "--no-output",
        "--json",
        "-",
    )
    evaluations = [json.loads(run(place, *arguments).stdout)["evaluations"] for _ in range(2)]
    assert evaluations == [50, 100]
    other = run(place, *arguments, "--seed", "1")
    assert other.returncode == ExitStatus.BAD_INPUT
    assert "seed 0" in other.stderr
    limited = run(place, *arguments, "--limit", "flash=2KiB")
    assert limited.returncode == ExitStatus.BAD_INPUT


def test_help_is_quick_and_lists_everything(place: dict[str, Any]) -> None:
    done = run(place, "--help")
    assert done.returncode == 0
    for word in ("--space", "--budget", "resume", "export", "Exit status"):
        assert word in done.stdout
    imported = subprocess.run(
        [sys.executable, "-c", "import kilotune.experiments.cli, sys; print([m for m in sys.modules if m in "
         "('numpy', 'optuna', 'ortools', 'sqlalchemy', 'lark', 'rich')])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert imported.stdout.strip() == "[]"  # what makes `--help` slow


def test_lists(place: dict[str, Any]) -> None:
    models = json.loads(run(place, "list", "models", "--json").stdout)
    by_name = {m["name"]: m for m in models}
    assert {"protonn-digits", "bonsai-digits", "fastgrnn16-digits", "fastgrnn32-digits", "lenet-digits"} <= set(by_name)
    assert by_name[MODEL]["float_test_accuracy_percent"] == pytest.approx(98.16, abs=0.01)
    for what in ("spaces", "strategies", "devices"):
        assert run(place, "list", what).stdout.strip()
    assert "simulator" in run(place, "doctor").stdout
