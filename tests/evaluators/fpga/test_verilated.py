"""Verilator runs what the batch simulator runs; a tool that is missing or fails is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.rtl.design import HardwareDesign
from kilotune.codegen.rtl.plan import make_plan
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.fpga.tools import VERILATOR, YOSYS, ToolChoice, ToolError, run_tool
from kilotune.evaluators.fpga.verilated import run_hardware
from tests.codegen.rtl.models import candidate

pytestmark = pytest.mark.slow

needs_verilator = pytest.mark.skipif(
    VERILATOR.find() is None or YOSYS.find() is None,
    reason=f"no Verilator or no Yosys: {VERILATOR.advice}, {YOSYS.advice}",
)


@needs_verilator
def test_a_model_computes_the_same_in_hardware(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All samples of a regression; sums, two lanes, tables, divisions."""
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path))
    bundle, batch = candidate("mlp-diabetes")
    assert bundle.train is not None
    assert bundle.test is not None
    features = np.concatenate([bundle.train.features, bundle.test.features])
    plan = make_plan(batch, bundle.parameters, HardwareDesign({0: 2, 1: 3, 2: 2}))
    run = run_hardware(plan, features)
    np.testing.assert_array_equal(run.outputs, Simulator(bundle.program, bundle.parameters, features).run(batch)[0])
    assert set(run.cycles.tolist()) == {plan.cycles}


def test_a_missing_tool_is_said_with_a_way_to_get_it(tmp_path: Path) -> None:
    tool = ToolChoice(("no-such-tool",), "a-wheel", "a-package", "nothing")
    with pytest.raises(
        ToolError, match=r"^no-such-tool is not installed: pip install a-wheel or apt install a-package\.$"
    ):
        run_tool(tool, [], tmp_path)


def test_a_tool_that_fails_leaves_its_log(tmp_path: Path) -> None:
    tool = ToolChoice(("sh",), None, "", "a shell")
    with pytest.raises(ToolError, match="sh failed with status 3: an error of ours") as failure:
        run_tool(tool, ["-c", "echo before; echo an error of ours >&2; exit 3"], tmp_path)
    assert failure.value.log == "before\nan error of ours\n"
