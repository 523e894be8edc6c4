"""Problems of the space fpga over the worked example, for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fpga.boards import FAMILIES
from kilotune.evaluators.fpga.tools import YOSYS
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fpga.problem import HardwareProblem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.space import Measurement, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study

PLACER = FAMILIES["ecp5"].placer
assert PLACER is not None
needs_tools = pytest.mark.skipif(
    YOSYS.find() is None or PLACER.find() is None, reason=f"no Yosys or no nextpnr: {YOSYS.advice}, {PLACER.advice}"
)


def trials(count: int) -> list[Trial]:
    metrics = {"luts": 1000.0, "latency_us": 2.0, "clock_mhz": 50.0, "hardware_cycles": 100.0}
    return [Trial(number, {"way": number}, Measurement(metrics)) for number in range(count)]


def problem(**asked: object) -> HardwareProblem:
    built = build_problem(request_from("fpga", input="worked-example", **asked))  # type: ignore[arg-type]
    assert isinstance(built, HardwareProblem)
    return built


def searched(asked: HardwareProblem, store: Path) -> Study:
    """A finished study of it."""
    study = Study.create(Store(str(store)), "s", asked.space, "cp", 0, procedure_first=True)
    study.run(InProcessExecutor(asked.space), Budget(seconds=60))
    return study


def board_of(luts: int, tmp_path: Path) -> str:
    """An ECP5 of which only so many look-up tables are there: the path of its file."""
    gates = {"luts": luts, "flip_flops": 24288, "block_rams": 56, "multipliers": 28}
    part = ["--25k", "--package", "CABGA256"]
    path = tmp_path / f"board{luts}.json"
    path.write_text(json.dumps({"name": "tiny", "family": "ecp5", "part": part, **gates}))
    return str(path)
