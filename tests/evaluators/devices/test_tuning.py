"""`tune` with a device: time as metric, limit and objective; finalists measured on it, or why they were not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kilotune.evaluators.devices import find_device
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem, resolve_input
from kilotune.experiments.problems.problem import export_trial
from kilotune.experiments.requests.request import TuneRequest, parse_limit, parse_size
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.experiments.studies.tuning import MOST_CHECKED
from kilotune.search.space import Assignment, Trial
from tests.commands import tune as run_command
from tests.evaluators.devices.toolchains import needs_avr, needs_cortex

pytestmark = pytest.mark.slow

QUICK = ("--space", "shiftry", "--input", "protonn-cancer", "--budget", "200trials", "--no-output", "--json", "-")


def tune(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    stored = {"KILOTUNE_STORAGE": str(folder / "studies.db")}
    return run_command(folder, {**os.environ, **stored, **environment}, *arguments)


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == ExitStatus.FEASIBLE, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_avr
def test_both_figures_are_in_the_result(tmp_path: Path) -> None:
    done = tune(tmp_path, *QUICK, "--device", "uno")
    found = result(done)
    report = found["best"]["on_device"]
    assert report["device"] == "uno"
    assert report["reason"] is None
    assert report["predicted"]["cycles"] == found["best"]["metrics"]["cycles"]
    measured = report["measured"]
    assert measured["samples"] >= 30
    assert measured["fits"]
    assert abs(report["predicted"]["cycles"] / report["levels"]["-Os"]["cycles"] - 1) < 0.15
    assert measured["latency_ms"] == pytest.approx(measured["cycles"] / 16_000, rel=1e-3)
    assert measured["ram_bytes"] == measured["static_ram_bytes"] + measured["peak_stack_bytes"]
    products = {name: levels["flash_bytes"] * levels["cycles"] for name, levels in report["levels"].items()}
    chosen = measured["level"] if measured["shape"] == "plain" else f"{measured['level']}, {measured['shape']}"
    assert chosen == min(products, key=products.__getitem__)
    assert report["chosen_for"] == "the least flash times cycles"
    assert "it takes the least flash times cycles" in done.stderr
    assert set(report["levels"]) == {"-Os", "-O2", "-O3", "-Os, unrolled8", "-Os, unrolled16", "-Os, compact"}
    assert found["procedure"]["on_device"]["measured"]["cycles"] > 0
    assert ["on_device" in trial for trial in found["front"]] == [n < MOST_CHECKED for n in range(len(found["front"]))]
    assert "cycles, predicted" in done.stderr
    assert "cycles, measured" in done.stderr
    assert "the outputs of 60 samples equal the search's bit for bit" in done.stderr


@needs_avr
def test_with_streaming_ram_holds_one_frame_and_the_program_is_called_with_each(tmp_path: Path) -> None:
    """8 of 64 features, and how many frames there have been: in the search, on the board, and in what is exported."""
    problems = [
        build_problem(request_from("shiftry", input="fastgrnn16-digits", device="uno", options=options))
        for options in ({}, {"streaming": True})
    ]
    assert problems[0].space.fingerprint != problems[1].space.fingerprint
    assignment = {d.name: d.options[0] for d in problems[0].space.decisions}  # 16 bits everywhere
    trials = [Trial(0, assignment, problem.space.evaluate([assignment])[0]) for problem in problems]
    inputs = [trial.metrics["total_ram_bytes"] - trial.metrics["ram_bytes"] for trial in trials]
    assert inputs == [64 * 2, 8 * 2 + 2]
    whole, stepped = (
        check.measured
        for problem, trial in zip(problems, trials, strict=True)
        if (check := problem.check_on_device(trial)) is not None and check.measured is not None
    )
    assert whole.sizes.static_ram_bytes - stepped.sizes.static_ram_bytes == inputs[0] - inputs[1]
    assert stepped.cycles == pytest.approx(whole.cycles, rel=0.01)
    assert whole.cycles / 8 < stepped.metrics()["most_step_cycles"] < whole.cycles / 6
    assert "most_step_cycles" not in whole.metrics()
    for problem, trial, target in zip(problems, trials, ("c", "c-steps"), strict=True):
        export_trial(problem, trial, tmp_path / target)
        assert json.loads((tmp_path / target / "decisions.json").read_text())["target"] == target


def test_streaming_is_refused_where_a_dense_layer_reads_all_frames_at_once(tmp_path: Path) -> None:
    """Before anything is searched: exit status 4, one sentence."""
    done = tune(tmp_path, "--space", "shiftry", "--input", "mlp-digits", "--streaming")
    assert (done.returncode, done.stdout) == (ExitStatus.BAD_INPUT, "")
    assert re.search(r"model\.sd:10:19: the model is no loop .+: MatMul reads the input outside any loop$", done.stderr)
    assert not list(tmp_path.glob("out*"))


@needs_avr
@pytest.mark.parametrize("level", ["Os", "O2"])
def test_what_is_reported_is_what_is_exported(level: str, tmp_path: Path) -> None:
    """The fastest level is said beside it; the table's figures are of the program in the folder."""
    out = tmp_path / "out"
    quick = [argument for argument in QUICK if argument != "--no-output"]
    asked = ("--device", "uno", "--objective", "latency", "--level", level, "--output", str(out))
    done = tune(tmp_path, *quick, *asked)
    found = result(done)
    assert json.loads((out / "decisions.json").read_text())["optimisation"] == level
    for finalist in (found["best"], found["procedure"], *found["front"][:MOST_CHECKED]):
        assert finalist["on_device"]["measured"]["level"] == f"-{level}"
        assert finalist["on_device"]["measured"]["shape"] == "unrolled16"
    levels = found["best"]["on_device"]["levels"]
    fastest = min(levels, key=lambda name: levels[name]["cycles"])
    assert fastest == "-O3, unrolled16"
    said = re.search(rf"Built as {fastest} it takes (\d+) cycles", done.stderr)
    assert said is not None
    assert (
        abs(int(said[1]) - levels[fastest]["cycles"]) <= 0.6
    )  # the file has a tenth of a cycle, which may be half of one
    assert "`tune export --level O3 --shape unrolled16`" in done.stderr


@needs_cortex
def test_cortex_figures_say_that_they_are_approximate(tmp_path: Path) -> None:
    done = tune(tmp_path, *QUICK, "--device", "mkr1000")
    measured = result(done)["best"]["on_device"]["measured"]
    assert "cycles" not in measured
    assert measured["approximate_cycles"] > measured["instructions"] > 0
    assert "cycles, approximate" in done.stderr


def test_without_tools_the_cost_model_is_all(tmp_path: Path) -> None:
    done = tune(tmp_path, *QUICK, "--device", "uno", PATH=str(tmp_path))
    report = result(done)["best"]["on_device"]
    assert report["measured"] is None
    assert report["predicted"]["cycles"] > 0
    assert "apt install gcc-avr avr-libc simavr libsimavr-dev gcc" in report["reason"]
    assert "Cycles are the cost model's." in done.stderr


def test_a_latency_limit_is_a_constraint(tmp_path: Path) -> None:
    found = result(tune(tmp_path, *QUICK, "--device", "uno", "--limit", "latency=0.4ms"))
    assert {"metric": "latency_ms", "at_most": 0.4} in found["constraints"]
    assert found["best"]["metrics"]["latency_ms"] <= 0.4
    assert found["objectives"][0]["metric"] == "expected_flips"


def test_latency_is_an_objective(tmp_path: Path) -> None:
    least_memory = result(tune(tmp_path, *QUICK, "--device", "uno", "--limit", "cycles=1e9"))
    fastest = result(tune(tmp_path, *QUICK, "--device", "uno", "--objective", "latency"))
    assert fastest["objectives"][0] == {"metric": "cycles", "direction": "minimize"}
    assert fastest["best"]["metrics"]["cycles"] <= least_memory["best"]["metrics"]["cycles"]
    assert fastest["best"]["metrics"]["accuracy_percent"] >= fastest["float"]["train"]["accuracy_percent"] - 2.0
    assert fastest["bound"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--space", "shiftry", "--limit", "latency=20ms"), "need --device"),
        (("--space", "seedot", "--limit", "cycles=1000"), "need --device"),
        (("--space", "shiftry", "--objective", "latency"), "need --device"),
        (("--space", "memory", "--device", "uno", "--objective", "latency"), "for the space memory there is no choice"),
        (("--space", "shiftry", "--device", "uno", "--limit", "latency=20KiB"), "expected memory=SIZE, flash=SIZE"),
        (("--space", "shiftry", "--device", "due"), "There is no device 'due'"),
    ],
)
def test_what_needs_a_device_says_so(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = tune(tmp_path, *arguments, "--budget", "1trials", "--no-output")
    assert done.returncode == ExitStatus.BAD_INPUT
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("latency=20ms", ("latency", 20.0)),
        ("latency=0.2s", ("latency", 200.0)),
        ("latency=500us", ("latency", 0.5)),
        ("cycles=1e6", ("cycles", 1e6)),
        ("flash=32KiB", ("flash", 32768)),
        (" ram = 2KB ", ("ram", 2000)),
    ],
)
def test_limits_are_read(text: str, limit: tuple[str, float]) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize("text", ["flash=1e400", f"ram={'9' * 400}", "latency=1e999s", "cycles=1e400"])
def test_a_limit_is_finite(text: str) -> None:
    with pytest.raises(ValueError, match="expected memory=SIZE, flash=SIZE"):
        parse_limit(text)


def test_a_size_is_finite() -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size("9" * 400)
    assert parse_size("100000GiB") == 100_000 << 30
    assert parse_size("2 TB") == 2_000_000_000_000
    assert parse_size("8192TiB") == 1 << 53
    with pytest.raises(ValueError, match="at most 9007199254740992 bytes"):
        parse_size("8193TiB")


def test_a_board_of_ones_own_and_its_study_resumes(tmp_path: Path) -> None:
    board = {"name": "slow", "flash_bytes": 8192, "ram_bytes": 512, "clock_hz": 1_000_000, "processor": "atmega88"}
    (tmp_path / "board.json").write_text(json.dumps(board))
    first = result(tune(tmp_path, *QUICK, "--device", "board.json", "--study", "mine"))
    assert first["best"]["metrics"]["latency_ms"] == pytest.approx(first["best"]["metrics"]["cycles"] / 1000)
    (tmp_path / "board.json").unlink()  # the study keeps the description
    again = tune(tmp_path, "resume", "mine", "--budget", "5trials", "--no-output", "--json", "-")
    assert result(again)["best"]["on_device"]["device"] == "slow"


@pytest.mark.parametrize("space", ["shiftry", "seedot"])
def test_predicted_time_is_a_metric_of_every_candidate(space: str) -> None:
    device = find_device("uno").as_json()
    problem = build_problem(
        TuneRequest(space, str(resolve_input("protonn-cancer")), "random", options={"device": device})
    )
    assert isinstance(problem, ModelProblem)

    def first() -> Assignment:
        state = problem.space.start()
        while state.decision is not None:
            state = state.take(state.decision.options[0])
        return state.assignment

    metrics = problem.space.evaluate([first()])[0].metrics
    assert metrics["latency_ms"] == pytest.approx(metrics["cycles"] / 16_000)


def test_doctor_names_packages_and_what_they_give(tmp_path: Path) -> None:
    said = tune(tmp_path, "doctor", PATH=str(tmp_path)).stdout
    assert "missing (apt install gcc-avr avr-libc), with it programs for AVR boards (uno, mega) are built" in said
    assert "missing (apt install qemu-system-arm gcc)" in said
    assert "missing (apt install gcc-arm-none-eabi libnewlib-arm-none-eabi)" in said
    assert "without them cycles are the cost model's" in said


@needs_cortex
def test_doctor_knows_that_an_emulator_alone_counts_nothing(tmp_path: Path) -> None:
    """Without a C compiler there is no plugin, and a study with --device says the same."""
    for tool in ("qemu-system-arm", "arm-none-eabi-gcc"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    said = tune(tmp_path, "doctor", PATH=str(tmp_path)).stdout
    assert "qemu-system-arm missing (apt install qemu-system-arm gcc)" in said
    found = result(tune(tmp_path, *QUICK, "--device", "nano33", PATH=str(tmp_path)))["best"]["on_device"]
    assert "qemu-system-arm gcc)" in found["reason"]


def test_devices_are_listed(tmp_path: Path) -> None:
    listed = json.loads(tune(tmp_path, "list", "devices", "--json").stdout)
    assert [row["name"] for row in listed] == ["uno", "mega", "mkr1000", "nano33", "mps3"]
    assert listed[0]["processor"] == "atmega328p"
    assert [row["cost_table"] for row in listed] == ["avr", "avr", "cortex-m0plus", "cortex-m4", "cortex-m55"]
