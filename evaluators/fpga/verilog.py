"""Hardware as Verilog, written by Yosys from what Amaranth makes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from amaranth.back import rtlil

from kilotune.codegen.rtl.hardware.machine import MODULE, Machine
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.evaluators.fpga.tools import YOSYS, run_tool

SCRIPT = "read_rtlil model.il; proc; memory_collect; opt_clean; write_verilog -noattr model.v"


def emit_rtlil(plan: HardwarePlan) -> str:
    """The plan's hardware in Yosys' own language."""
    machine = Machine(plan)
    return str(rtlil.convert(machine, name=MODULE, ports=list(machine.ports), emit_src=False))


def emit_verilog(plan: HardwarePlan) -> str:
    """The plan's hardware as Verilog 2005. ToolError without Yosys."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "model.il").write_text(emit_rtlil(plan))
        run_tool(YOSYS, ["-q", "-p", SCRIPT], folder)
        return (folder / "model.v").read_text()
