"""Boards that the cost model finds too small: refused, or searched where it may be wrong by as much."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kilotune.evaluators.fpga import synthesis
from kilotune.evaluators.fpga.boards import FAMILIES
from kilotune.evaluators.fpga.tools import YOSYS
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.studies.placing_finalists import place_finalists
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Measurement, Trial
from tests.commands import tune
from tests.experiments.problems.fpga.hardware_problems import board_of, problem, searched


def test_a_board_that_lacks_less_than_the_cost_model_may_be_wrong_is_searched_and_only_placing_tells(
    tmp_path: Path,
) -> None:
    """By the model the worked example takes 469 look-up tables at least, of one lane 542; it has been 2.03 times too high."""
    refused = r"^worked-example needs at least \d+ LUTs, as the cost model predicts; tiny has 195;"
    with pytest.raises(ValueError, match=refused):
        problem(options={"board": board_of(195, tmp_path)})
    for luts, let_through in ((230, 483), (460, 542)):
        unsure = problem(options={"board": board_of(luts, tmp_path)})
        assert unsure.only_placing_tells
        assert unsure.space.goal.budget is not None
        assert unsure.space.goal.budget.luts == let_through
        line = unsure.lines(Trial(0, {}, Measurement({"luts": 500.0})))
        assert any(f"expects to take up to {let_through} LUTs, where {luts} are there" in said for said in line)
        assert unsure._broken({"luts": float(luts)}) is None
        assert unsure._broken({"luts": luts + 1.0}) is not None
    for luts in (480, 600):  # one lane has no room on the first, another candidate does
        assert not problem(options={"board": board_of(luts, tmp_path)}).only_placing_tells


def test_jointly_a_board_is_refused_for_the_narrowest_widths_only(tmp_path: Path) -> None:
    """Those of the procedure are predicted to take 372 look-up tables at least; where they have no room, narrower ones may."""
    with pytest.raises(
        ValueError,
        match=r"^worked-example at its narrowest widths needs at least \d+ LUTs, as the cost model predicts; tiny has 90;",
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
