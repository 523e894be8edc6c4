"""A folder with a program's hardware: Verilog, a testbench with recorded samples, and what its board needs (`board_files.py`)."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.codegen.counts import counted
from kilotune.codegen.emit.targets.recording import Export, Recording
from kilotune.codegen.emit.targets.target import ProjectTarget, make_runs
from kilotune.codegen.rtl.design import SEQUENTIAL, HardwareDesign
from kilotune.codegen.rtl.plan import HardwarePlan, make_plan
from kilotune.evaluators.fpga.board_files import NO_GOAL, ClockGoal, board_file_names, board_files, board_steps
from kilotune.evaluators.fpga.boards import DEFAULT_BOARD, ECP5, FAMILIES, Board, GateFamily, find_board
from kilotune.evaluators.fpga.tools import NO_AMARANTH, YOSYS, ToolError

MODEL_NAMES = ("model.v", "testbench.v", "inputs.hex", "outputs.hex", "README.md")
"""Files that are there whatever the board."""


def hardware_obstacle() -> str | None:
    """Which tool is missing to write Verilog, a sentence; None where it can be written."""
    if importlib.util.find_spec("amaranth") is None:
        return NO_AMARANTH
    return None if YOSYS.find() is not None else f"{YOSYS.name} is not installed: {YOSYS.advice}."


def files(export: Export) -> dict[str, str]:
    """Text by path in the folder, of hardware that does one step after the other, for the board of those who name none. ValueError, a
    sentence, without Yosys."""
    return hardware_files(export, SEQUENTIAL, find_board(DEFAULT_BOARD))


def hardware_target(board: Board, clock: ClockGoal = NO_GOAL, design: HardwareDesign = SEQUENTIAL) -> ProjectTarget:
    """The folder of hardware of that design for a board."""
    return replace(
        TARGET,
        names=_names(FAMILIES[board.family]),
        files=lambda export: hardware_files(export, design, board, clock),
    )


def hardware_files(export: Export, design: HardwareDesign, board: Board, clock: ClockGoal = NO_GOAL) -> dict[str, str]:
    """Text by path in the folder, of hardware of that design for a board. ValueError, a sentence, without Yosys or for floats."""
    try:
        from kilotune.evaluators.fpga.verilog import emit_verilog  # Amaranth is an extra
    except ModuleNotFoundError:
        raise ValueError(NO_AMARANTH) from None
    candidate = export.source.candidate
    if candidate is None:
        raise ValueError("hardware is made of fixed-point programs")
    plan = make_plan(candidate.batch, candidate.parameters, design)
    try:
        verilog = emit_verilog(plan)
    except ToolError as error:
        raise ValueError(str(error)) from None
    widths = port_widths(plan)
    recording = export.recording
    inputs = recording.inputs if recording.inputs.shape[1] else np.zeros((len(recording), 1), dtype=np.int64)
    return {
        "model.v": verilog,
        "testbench.v": _testbench(plan, recording),
        "inputs.hex": _hexadecimal(inputs, widths[0]),
        "outputs.hex": _hexadecimal(recording.outputs, widths[1]),
        **board_files(board, clock),
        "README.md": _readme(export, plan, board, clock),
    }


def _names(family: GateFamily) -> tuple[str, ...]:
    return (*MODEL_NAMES, *board_file_names(family))


def port_widths(plan: HardwarePlan) -> tuple[int, int]:
    """Bits of a feature and of an element of the result."""
    program = plan.batch.program
    return (1 if program.input is None else plan.memories[program.input.name][1]), plan.memories[
        program.result.variable
    ][1]


def _hexadecimal(values: IntArray, bits: int) -> str:
    """One number a line, as `$readmemh` takes them."""
    mask = (1 << bits) - 1
    return "".join(f"{int(value) & mask:x}\n" for value in values.reshape(-1))


def _testbench(plan: HardwarePlan, recording: Recording) -> str:
    feature_bits, result_bits = port_widths(plan)
    values = {
        "@SAMPLES": len(recording),
        "@BEATS": plan.input_beats,
        "@RESULTS": plan.batch.program.result.size,
        "@IN": feature_bits - 1,
        "@OUT": result_bits - 1,
        "@CYCLES": plan.cycles,
        "@LONGEST": 2 * plan.cycles + 1000,
    }
    text = _TESTBENCH
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


def _readme(export: Export, plan: HardwarePlan, board: Board, clock: ClockGoal) -> str:
    face = export.source.interface
    given = "one beat of anything begins" if not face.features else (
        f"{counted(face.features, 'feature')}, each a signed number of {face.input_bits} bits: multiply the real value by "
        f"2**{face.input_scale} "
        "and truncate"
    )  # fmt: skip
    samples = counted(len(export.recording), "recorded sample")
    return (
        "# A fixed-point model in Verilog\n\nWritten by kilotune. `model.v` is the model, with its weights in its memories; any "
        "synthesis tool takes it.\n\n"
        f"- Input: {given}. A feature is taken in each cycle in which `in_valid` and `in_ready` are high.\n"
        "- Result: `done` rises when it is there; an element is taken in each cycle in which `out_valid` and `out_ready` are high.\n"
        f"- {counted(plan.cycles, 'cycle')} from the first feature to `done`, where no feature is late; the clock is `clk`, and `rst` "
        "resets in a cycle.\n\n"
        f"Next: `make check` runs {samples} with Verilator and compares every result and every number "
        f"of cycles with what was computed. {board_steps(board, clock)} `decisions.json` holds the bits and the scale of each "
        "variable.\n"
    )


_TESTBENCH = """\
// Runs recorded samples through the model and compares results and cycles.
`timescale 1ns / 1ps
module testbench;
  reg clk = 0, rst = 1, in_valid = 0, out_ready = 0;
  reg signed [@IN:0] in_payload = 0;
  wire in_ready, out_valid, done;
  wire signed [@OUT:0] out_payload;
  reg [@IN:0] inputs [0:@SAMPLES * @BEATS - 1];
  reg [@OUT:0] outputs [0:@SAMPLES * @RESULTS - 1];
  integer sample, place, cycles, wrong, late;

  model model (.clk(clk), .rst(rst), .in_valid(in_valid), .in_ready(in_ready), .in_payload(in_payload),
               .out_valid(out_valid), .out_ready(out_ready), .out_payload(out_payload), .done(done));
  always #5 clk = ~clk;

  initial begin
    $readmemh("inputs.hex", inputs);
    $readmemh("outputs.hex", outputs);
    wrong = 0;
    late = 0;
    repeat (2) @(negedge clk);
    rst = 0;
    for (sample = 0; sample < @SAMPLES; sample = sample + 1) begin
      cycles = 0;
      in_valid = 1;
      for (place = 0; place < @BEATS; place = place + 1) begin
        in_payload = inputs[sample * @BEATS + place];
        @(negedge clk);
        cycles = cycles + 1;
      end
      in_valid = 0;
      while (!done && cycles < @LONGEST) begin
        @(negedge clk);
        cycles = cycles + 1;
      end
      if (cycles != @CYCLES) late = late + 1;
      out_ready = 1;
      for (place = 0; place < @RESULTS && done; ) begin
        if (out_valid) begin
          if (out_payload !== $signed(outputs[sample * @RESULTS + place])) wrong = wrong + 1;
          place = place + 1;
        end
        @(negedge clk);
      end
      out_ready = 0;
    end
    $display("%0d samples, %0d wrong results, %0d with another number of cycles than @CYCLES", @SAMPLES, wrong, late);
    if (wrong != 0 || late != 0) $fatal;
    $finish;
  end
endmodule
"""

TARGET = ProjectTarget(
    "verilog",
    "Verilog of the model, its testbench and a Makefile: `make check`, and `make bitstream` for the board of the study",
    _names(ECP5),
    files,
    make_runs("check", "runs it in Verilator"),
    MappingProxyType({"source": "model.v", "check": "testbench.v"}),
)
