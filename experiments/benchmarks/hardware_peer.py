"""A peer's hardware beside ours: da4ml, which unrolls a network whole and writes Verilog without a vendor's tool.

    python -m venv peer && peer/bin/pip install da4ml==0.6.0
    python -m kilotune.experiments.benchmarks.hardware_peer peer/bin/python

mlp-diabetes with the integers and the formats of `shiftry`'s procedure, 8 bits: the same parameters, inputs and activations of as many
bits. Sums between them are exact in da4ml. It has no multipliers: products are shifts and sums, tangents tables. Both are synthesised,
placed and routed on an ECP5-25F in the same way. Its hardware takes a sample every cycle, ours one at a time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.rtl.design import SEQUENTIAL
from kilotune.codegen.rtl.plan import make_plan
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.fpga.boards import ECP5, find_board
from kilotune.evaluators.fpga.synthesis import SEED, WANTED_MHZ, implement
from kilotune.evaluators.fpga.tools import SYNTHESISER, run_tool
from kilotune.experiments.benchmarks.hardware import answer, wide

PEER = """
import numpy as np
from da4ml.codegen import VerilogModel
from da4ml.trace import FixedVariableArrayInput, comb_trace, to_pipeline
given = {name: np.load(name + ".npy") for name in ("X", "W1", "B1", "W2", "B2")}
inputs = FixedVariableArrayInput(10)
x = inputs.quantize(1, 3, 4)
hidden = (x @ given["W1"].T + given["B1"].reshape(-1)).quantize(1, 2, 5, overflow_mode="SAT")
hidden = np.tanh(hidden).quantize(1, 1, 6)
result = hidden @ given["W2"].T + given["B2"].reshape(-1)
network = comb_trace(inputs, result)
np.save("outputs.npy", np.array(network.predict(given["X"])).reshape(-1))
pipeline = to_pipeline(network, 4, verbose=False)
print(len(pipeline.solutions) + 1)
VerilogModel(pipeline, "peer", "peer").write()
"""


def explained(outputs: FloatArray, targets: FloatArray) -> float:
    """R squared."""
    return float(1 - ((outputs - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum())


def peer(python: str) -> None:
    """Two lines of ours, one of the peer's."""
    bundle, batch = answer("mlp-diabetes", "shiftry")
    assert bundle.test is not None
    board, features, targets = find_board("ecp5-25f"), bundle.test.features, bundle.test.targets
    names = [variable.name for variable in bundle.program.variables]
    scales = {name: 2.0 ** -int(scale) for name, scale in zip(names, batch.scales[0], strict=True)}
    integer_outputs = Simulator(bundle.program, bundle.parameters, features).run(batch)[0].reshape(-1)
    outputs: FloatArray = integer_outputs * scales[bundle.program.result.variable]
    ours = explained(outputs, np.asarray(targets, dtype=np.float64))
    print("| hardware | LUTs | flip-flops | block RAMs | multipliers | MHz | cycles | us | R squared |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind, design in (("sequential", SEQUENTIAL), ("wide", wide(bundle, batch))):
        plan = make_plan(batch, bundle.parameters, design)
        made = implement(plan, board)
        assert made.clock_mhz is not None
        gates = f"{made.gates.luts} | {made.gates.flip_flops} | {made.gates.block_rams} | {made.gates.multipliers}"
        latency = f"{made.clock_mhz:.1f} | {plan.cycles} | {plan.cycles / made.clock_mhz:.3f}"
        print(f"| ours, {kind} | {gates} | {latency} | {ours:.4f} |", flush=True)
    integers = {
        name: batch.integers(0, column, bundle.parameters[name]) * scales[name]
        for column, name in enumerate(names)
        if name in bundle.parameters
    }
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, values in (("X", features), *integers.items()):
            np.save(folder / name, values)
        run = subprocess.run([python, "-c", PEER], cwd=folder, capture_output=True, text=True, check=True)
        cycles = int(run.stdout.split()[-1])
        print(_peer_line(folder, cycles, explained(np.load(folder / "outputs.npy"), np.asarray(targets, np.float64))))


def _peer_line(folder: Path, cycles: int, accuracy: float) -> str:
    source = folder / "peer" / "src"
    table = source / "static" / "lookup_table.v"
    # tables as distributed memory, which Yosys has no way to initialise on an ECP5
    table.write_text("".join(line for line in table.open() if "rom_style" not in line))
    for memory in (source / "memfiles").glob("*"):
        (source / memory.name).write_bytes(memory.read_bytes())
    modules = " ".join(sorted(path.name for path in source.glob("peer*.v") if "wrapper" not in path.name))
    script = f"read_verilog -defer -sv static/*.v; read_verilog -sv {modules}; synth_ecp5 -top peer -json peer.json"
    run_tool(SYNTHESISER, ["-q", "-p", script], source)
    board = find_board("ecp5-25f")
    assert ECP5.placer is not None
    arguments = [*board.part, *ECP5.options, "--freq", str(WANTED_MHZ), "--seed", SEED, "--timing-allow-fail", "-q"]
    run_tool(ECP5.placer, [*arguments, "--json", "peer.json", "--report", "report.json"], source)
    report = json.loads((source / "report.json").read_text())
    used = [report["utilization"].get(name, {"used": 0})["used"] for name in ECP5.placed.values()]
    clock = min(float(path["achieved"]) for path in report["fmax"].values())
    cells = " | ".join(str(count) for count in used)
    return f"| da4ml | {cells} | {clock:.1f} | {cycles} | {cycles / clock:.3f} | {accuracy:.4f} |"


def main() -> None:
    """Print a table."""
    arguments = argparse.ArgumentParser(description="A peer's hardware beside ours.")
    arguments.add_argument("python", help="a Python that has da4ml")
    peer(arguments.parse_args().python)


if __name__ == "__main__":
    main()
