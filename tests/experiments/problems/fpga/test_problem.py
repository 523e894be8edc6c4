"""The space fpga at the front door: what is asked, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilotune.evaluators.fpga import synthesis
from kilotune.evaluators.fpga.boards import Gates
from kilotune.evaluators.fpga.synthesis import Implementation
from kilotune.evaluators.fpga.tools import YOSYS
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fpga.problem import HardwareProblem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Trial
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.space import FpgaSpace
from kilotune.spaces.shiftry.formats import parse_format
from tests.commands import tune
from tests.experiments.problems.fpga.hardware_problems import problem, trials


def test_a_request_is_stored_with_its_board(tmp_path: Path) -> None:
    board = {"name": "mine", "family": "ice40", "part": ["--hx8k"], "luts": 5000, "flip_flops": 5000, "block_rams": 9}
    described = tmp_path / "mine.json"
    described.write_text(json.dumps({**board, "multipliers": 0}))
    request = request_from("fpga", input="worked-example", options={"board": str(described)})
    described.unlink()
    built = build_problem(TuneRequest.from_json(json.loads(json.dumps(request.as_json()))))
    assert isinstance(built, HardwareProblem)
    assert built.space.board.gates == Gates(5000, 5000, 9, 0)


def test_a_limit_on_latency_is_in_microseconds_of_the_space() -> None:
    built = problem(limits=["latency=0.5ms"], objective="luts")
    assert ("latency_us", 500.0) in [(c.metric, c.limit) for c in built.space.constraints]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"options": {"board": "ecp5-25g"}}, r"There is no board 'ecp5-25g'.*ecp5-25f"),
        (
            {"limits": ["flash=4KiB"]},
            r"--limit flash: the space fpga takes a limit on latency; gates are limited by --board\.",
        ),
        ({"device": "uno"}, r"--device is for programs; the space fpga takes a --board\."),
        ({"options": {"joint": True, "formats": "seedot"}}, r"expected one of them, found both"),
        ({"options": {"narrow": True}}, r"--narrow .* expected --joint with it, found it alone\."),
    ],
)
def test_what_does_not_go_together_is_said(asked: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        request_from("fpga", input="worked-example", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(("board", "said"), [("artix7-35t", True), ("ice40-hx8k", False)])
def test_a_clock_that_no_open_tool_can_verify_is_said(board: str, said: bool) -> None:
    lines = problem(options={"board": board}).lines(trials(1)[0])
    assert any("its clock, and so its latency, is an ECP5's and not verified" in line for line in lines) == said


def test_joint_decisions_are_those_of_both_spaces_and_begin_with_both_procedures() -> None:
    built = problem(options={"joint": True})
    space = built.space
    assert isinstance(space, JointSpace)
    answer = run_procedure(space)
    assert answer is not None
    alone = space.unrolling(space.formats_in(answer.assignment))
    hardware = {decision.name: answer.assignment[decision.name] for decision in alone.decisions}
    expected = {**space.formats.evaluate([answer.assignment])[0].metrics, **alone.evaluate([hardware])[0].metrics}
    assert answer.measurement.metrics == expected
    assert {"luts", "precision_loss"} <= {constraint.metric for constraint in space.constraints}


def test_parameters_have_fewer_than_8_bits_where_that_is_asked_for() -> None:
    request = request_from("fpga", input="worked-example", options={"joint": True, "narrow": True})
    offered = []
    for asked in (
        TuneRequest.from_json(json.loads(json.dumps(request.as_json()))),
        problem(options={"joint": True}).request,
    ):
        space = build_problem(asked).space
        assert isinstance(space, JointSpace)
        options = (option for decision in space.formats.decisions for option in decision.options)
        offered.append({parse_format(str(option)).bits for option in options})
    assert offered == [{1, 2, 3, 4, 6, 8, 16}, {8, 16}]


@pytest.mark.slow
def test_a_search_from_the_command_to_the_report(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    asked = ("--space", "fpga", "--input", "mlp-diabetes", "--place", "0", "--budget", "60s", "--no-output")
    done = tune(tmp_path, env, *asked, "--study", "first", "--json", "first.json", "--quiet")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "first.json").read_text())
    assert result["proved"]
    assert result["best"]["metrics"]["latency_us"] <= result["procedure"]["metrics"]["latency_us"]
    assert result["bound"] == result["best"]["metrics"]["latency_us"]
    assert result["best"]["details"]["board"] == "ecp5-25f"
    written = tune(tmp_path, env, "report", "first", "--output", "first.html")
    assert written.returncode == 0, written.stderr
    page = (tmp_path / "first.html").read_text()
    for heading in (
        "The schedule",
        "The floor plan",
        "Gates and cycles by operation",
        "The best hardware",
        "Pareto front",
    ):
        assert heading in page
    assert "0 matmul" in page


@pytest.mark.skipif(YOSYS.find() is None, reason=f"no Yosys: {YOSYS.advice}")
def test_an_export_is_for_the_board_and_the_clock_of_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis, "cache_folder", lambda: tmp_path / "nothing placed")
    built = problem(options={"board": "ice40-hx8k"})
    answer = run_procedure(built.space)
    assert answer is not None
    folder = tmp_path / "out"
    built.export(Trial(0, answer.assignment, answer.measurement), folder)
    predicted = answer.measurement.metrics["clock_mhz"]
    (_, _, asked) = (folder / "model.pcf").read_text().split()
    assert predicted - 0.1 <= float(asked) <= predicted
    assert "--hx8k --package ct256" in (folder / "Makefile").read_text()
    assert f"asks for {asked} MHz (the clock that the cost model predicts)" in (folder / "README.md").read_text()
    assert "runs 1 recorded sample with" in (folder / "README.md").read_text()
    assert (
        "LUTs, as the cost model predicts; it has not been placed. `make bitstream`"
        in (folder / "README.md").read_text()
    )
    assert not (folder / "model.lpf").exists()
    assert json.loads((folder / "decisions.json").read_text())["measured"] is None


@pytest.mark.skipif(YOSYS.find() is None, reason=f"no Yosys: {YOSYS.advice}")
def test_an_export_has_what_was_measured_beside_what_was_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Implementation(Gates(410, 300, 0, 2), 125.0)
    monkeypatch.setattr("kilotune.experiments.problems.fpga.problem.kept_implementation", lambda *_: found)
    built = problem()
    answer = run_procedure(built.space)
    assert answer is not None
    built.export(Trial(0, answer.assignment, answer.measurement), tmp_path / "out")
    decided = json.loads((tmp_path / "out" / "decisions.json").read_text())
    cycles = answer.measurement.metrics["hardware_cycles"]
    assert decided["metrics"] == answer.measurement.metrics
    predicted = f"{answer.measurement.metrics['luts']:.0f} LUTs were predicted"
    said = f"The design takes 410 LUTs, 300 flip-flops, 2 multipliers, as place and route measured ({predicted})."
    assert said in (tmp_path / "out" / "README.md").read_text()
    assert decided["measured"] == {
        "luts": 410, "flip_flops": 300, "block_rams": 0, "multipliers": 2,
        "hardware_cycles": cycles, "clock_mhz": 125.0, "latency_us": cycles / 125.0,
    }  # fmt: skip


def test_reading_a_model_tabulates_no_parts() -> None:
    """Tables take seconds: with them `--budget 1s` was refused for models that are read in one."""
    space = problem().space
    assert isinstance(space, FpgaSpace)
    assert not any("parts" in vars(table) for table in space.tables.values())
