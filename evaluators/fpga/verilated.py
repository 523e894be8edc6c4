"""Verilator runs of hardware: every sample, every cycle."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.arithmetic import quantise_features
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.evaluators.compiled_library import cache_folder
from kilotune.evaluators.fpga.tools import VERILATOR, ToolError, run_tool
from kilotune.evaluators.fpga.verilog import emit_verilog

TESTBENCH = Path(__file__).with_name("testbench.cpp")
OPTIONS = ("--cc", "--exe", "--build", "-Wno-fatal", "-O3", "--top-module", "model", "--Mdir", "built", "-o", "model")


@dataclass(frozen=True, eq=False)
class HardwareRun:
    """`outputs` [samples, elements of the result] and the `cycles` [samples] from the first feature to `done`."""

    outputs: IntArray
    cycles: IntArray


def quantised_input(plan: HardwarePlan, features: FloatArray) -> IntArray:
    """The integers [samples, features] that the hardware takes; one zero a sample for a program without input."""
    batch = plan.batch
    read = batch.program.input
    if read is None:
        return np.zeros((len(features), 1), dtype=np.int64)
    column = [v.name for v in batch.program.variables].index(read.name)
    return quantise_features(features, int(batch.bits[0, column]), int(batch.scales[0, column]))


def run_hardware(plan: HardwarePlan, features: FloatArray) -> HardwareRun:
    """Run float `features` [samples, features]. ToolError when a tool is missing or fails, or the hardware does not end."""
    inputs = quantised_input(plan, features)
    results = plan.batch.program.result.size
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = _built(plan, folder)
        (folder / "inputs").write_bytes(inputs.astype("<i4").tobytes())
        run = subprocess.run([program, "inputs", "outputs"], cwd=folder, capture_output=True, check=False)
        if run.returncode:
            why = "does not end" if run.returncode == 4 else f"stops with status {run.returncode}"
            raise ToolError(f"the hardware {why}", run.stderr.decode(errors="replace"))
        answers = np.fromfile(folder / "outputs", dtype="<i8").reshape(len(inputs), 1 + results)
    return HardwareRun(answers[:, 1:].astype(np.int64), answers[:, 0].astype(np.int64))


def _built(plan: HardwarePlan, folder: Path) -> Path:
    """The program that Verilator makes, kept by its content."""
    program = plan.batch.program
    verilog = emit_verilog(plan)
    values = {
        "BEATS": plan.input_beats,
        "RESULTS": program.result.size,
        "INPUT_BITS": 1 if program.input is None else plan.memories[program.input.name][1],
        "RESULT_BITS": plan.memories[program.result.variable][1],
        "LONGEST": 2 * plan.cycles + 1000,
    }
    flags = " ".join(f"-D{name}={value}" for name, value in values.items())
    version = run_tool(VERILATOR, ["--version"], folder)
    content = "\0".join((verilog, TESTBENCH.read_text(), flags, version, *OPTIONS))
    kept = cache_folder() / f"hardware-{hashlib.sha256(content.encode()).hexdigest()[:20]}"
    if not kept.exists():
        (folder / "model.v").write_text(verilog)
        run_tool(VERILATOR, [*OPTIONS, "-CFLAGS", f"-O1 {flags}", "model.v", str(TESTBENCH)], folder)
        _keep(folder / "built" / "model", kept)
    return kept


def _keep(made: Path, kept: Path) -> None:
    """Under its own name at once, so that nobody runs half a file."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        copy = Path(scratch) / "model"
        shutil.copy(made, copy)
        copy.replace(kept)
