"""What programs imported from ONNX cost beside the same models written by hand in SeeDot.

    python -m kilotune.experiments.benchmarks.written_by_hand [--plain] DATA.npz MODEL.onnx ...

Files are of the shapes of bundled models: a linear classifier or the perceptron of mlp-digits (Gemm and Relu, not transposed), the
convolution network of lenet-digits and the GRU of gru16-digits, as PyTorch writes them. By hand: the program of the bundled model with
the weights of the file. Both get the same number of bits for every variable, at the scales that `shiftry` gives, and run on a simulated
Uno and Nano 33 in the processor's fastest code shape (--plain: in plain code), on 10 samples, outputs compared bit for bit. A line for
each: linked flash, RAM with input and stack, cycles, and training samples whose class is not the float program's; each imported / by
hand.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.shape import PLAIN
from kilotune.codegen.float_evaluator import run_float
from kilotune.evaluators.architectures.registry import code_shapes
from kilotune.evaluators.device import Device
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.on_device import measure_checked
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.models.train.bundle import TrainedModel, declaration, write_bundle
from kilotune.experiments.problems.fixed_point.export import emit_program
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.candidates import complete

DEVICES = ("uno", "nano33")
WIDTHS = (8, 16)
SAMPLES = 10
DECLARED = re.compile(r"^let (\w+) = \([\d, ]+\) in \[.*\] in\n", re.MULTILINE)
LINEAR = """\
// A linear classifier
let X = (1, 1) in [0, 1] in
let W1 = (1, 1) in [0, 1] in
let B1 = (1, 1) in [0, 1] in
argmax((W1 * X) + B1)
"""
"""Declarations are written anew."""


@dataclass(frozen=True)
class ProgramCost:
    """What a program takes on a device; `disagreements`: training samples of another class than the float program's."""

    flash_bytes: int
    ram_bytes: int
    cycles: float
    disagreements: int


def by_hand(path: Path) -> tuple[str, dict[str, FloatArray]]:
    """The program of a file's shape and its parameters by their names there. ValueError for a file of another shape."""
    graph = onnx.load(path).graph
    arrays = {i.name: np.asarray(numpy_helper.to_array(i), dtype=np.float64) for i in graph.initializer}
    kinds = [node.op_type for node in graph.node]
    weighted = [node for node in graph.node if node.op_type in ("Gemm", "Conv", "GRU")]
    given = [[arrays[name] for name in node.input[1:] if name in arrays] for node in weighted]
    if "GRU" in kinds:
        return _bundled("gru16-digits"), _gru(*given)
    if kinds.count("Conv") == 2:
        return _bundled("lenet-digits"), _convolutions(*given)
    if kinds in (["Gemm"], ["Gemm", "Relu", "Gemm", "Relu", "Gemm"]):
        return (LINEAR if len(given) == 1 else _bundled("mlp-digits")), _layers(given)
    raise ValueError(f"{path}: expected a model of the shape of a bundled one, found the operators {', '.join(kinds)}")


def _bundled(name: str) -> str:
    return (model_path(name) / "model.sd").read_text(encoding="utf-8")


def _layers(given: list[list[FloatArray]]) -> dict[str, FloatArray]:
    """Rows of weights are those of the outputs; biases are columns."""
    found = {}
    for k, (weights, biases) in enumerate(given, 1):
        found[f"W{k}"], found[f"B{k}"] = weights.T, biases[:, None]
    return found


def _gru(recurrent: list[FloatArray], dense: list[FloatArray]) -> dict[str, FloatArray]:
    """ONNX has the gates in the order z, r, n, and two biases, which are one but in n."""
    inputs, states, biases = recurrent[0][0], recurrent[1][0], recurrent[2][0]
    size = states.shape[1]
    found = {}
    for k, gate in enumerate("zrn"):
        rows = slice(k * size, (k + 1) * size)
        found[f"W{gate}"], found[f"U{gate}"] = inputs[rows].T, states[rows].T
        before, behind = biases[: 3 * size][rows][None], biases[3 * size :][rows][None]
        found |= {"Bn": before, "Cn": behind} if gate == "n" else {f"B{gate}": before + behind}
    return found | {"FC": dense[0].T, "FCbias": dense[1][None]}


def _convolutions(first: list[FloatArray], second: list[FloatArray], dense: list[FloatArray]) -> dict[str, FloatArray]:
    """Filters [1, kH, kW, Cin, Cout]; the dense layer reads an image with its channels last."""
    found = {}
    for k, (filters, biases) in enumerate((first, second), 1):
        found[f"F{k}"], found[f"B{k}"] = filters.transpose(2, 3, 1, 0)[None], biases
    channels = len(second[1])
    side = round((dense[0].shape[1] / channels) ** 0.5)
    rows = dense[0].reshape(-1, channels, side, side).transpose(2, 3, 1, 0)
    return found | {"FC": rows.reshape(side * side * channels, -1), "FCbias": dense[1][None]}


def write_by_hand(path: Path, data: Path, folder: Path) -> None:
    """The bundle of the program by hand, with the training samples X and y of the data."""
    text, parameters = by_hand(path)
    with np.load(data) as archive:
        features = np.asarray(archive["X"], dtype=np.float64).reshape(len(archive["X"]), -1)
        rows = np.column_stack([archive["y"], features])
    declared = {name: declaration(name, array) for name, array in parameters.items()}
    declared["X"] = f"let X = ({features.shape[1]}, 1) in [{features.min():.6f}, {features.max():.6f}] in\n"
    program = DECLARED.sub(lambda found: declared[found[1]], text)
    write_bundle(TrainedModel(path.stem, program, parameters, "By hand.\n", rows), folder)


def float_classes(problem: ModelProblem) -> FloatArray:
    """The class of each training sample by the program of real numbers."""
    bundle = problem.bundle
    return np.asarray(run_float(bundle.program, bundle.parameters, problem.space.task.features).outputs)


def costs(problem: ModelProblem, bits: int, device: Device, shape: str) -> ProgramCost:
    """What the program takes whose variables all have so many bits, its inner loops written in that shape."""
    options = f"int{bits}@"
    chosen = complete(
        problem.space.start(), lambda decision: next(o for o in decision.options if str(o).startswith(options))
    )
    (measured,) = problem.space.evaluate([chosen])
    batch, features = problem.lower(chosen), problem.space.task.features[:SAMPLES]
    expected = np.asarray(Simulator(batch.program, problem.bundle.parameters, features).run(batch)[0])
    source = emit_program(problem, batch, shape)
    found = measure_checked(device, source, batch, problem.bundle.parameters, features, expected)
    return ProgramCost(found.sizes.flash_bytes, found.ram_bytes, found.cycles, int(measured.metrics["disagreements"]))


def compare(path: Path, data: Path, *, plain: bool) -> None:
    """A line for each device and width."""
    with tempfile.TemporaryDirectory() as folder:
        write_by_hand(path, data, Path(folder) / path.stem)
        requests = (
            TuneRequest("shiftry", str(path.resolve()), "random", options={"data": str(data.resolve())}),
            TuneRequest("shiftry", str(Path(folder) / path.stem), "random"),
        )
        problems = [build_problem(request) for request in requests]
        classes = [float_classes(problem) for problem in problems]
        if (classes[0] != classes[1]).any():
            raise ValueError(f"{path}: expected the classes of the program by hand, found others for some samples")
        for device in map(find_device, DEVICES):
            for bits in WIDTHS:
                shape = PLAIN if plain else code_shapes(device.processor)[0]
                imported, written = (costs(problem, bits, device, shape) for problem in problems)
                pairs = (
                    f"{imported.flash_bytes} / {written.flash_bytes}",
                    f"{imported.ram_bytes} / {written.ram_bytes}",
                    f"{imported.cycles:.0f} / {written.cycles:.0f}",
                    f"{imported.disagreements} / {written.disagreements}",
                )
                more = 100.0 * (imported.cycles / written.cycles - 1.0)
                print(f"| {path.stem} | {device.name} | {bits} | {' | '.join(pairs)} | {more:+.1f} % |", flush=True)


def main() -> None:
    """Print a table."""
    arguments = argparse.ArgumentParser(description="Imported programs beside the same ones written by hand.")
    arguments.add_argument("--plain", action="store_true")
    arguments.add_argument("data", type=Path)
    arguments.add_argument("models", type=Path, nargs="+")
    given = arguments.parse_args()
    titles = ("model", "device", "bits", "flash", "RAM", "cycles", "other classes", "cycles more")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}", flush=True)
    for path in given.models:
        compare(path, given.data, plain=given.plain)


if __name__ == "__main__":
    main()
