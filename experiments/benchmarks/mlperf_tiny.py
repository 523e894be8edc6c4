"""MLPerf Tiny's four reference models on a simulated Cortex-M4: class agreement, flash, RAM and cycles.

    python -m kilotune.experiments.benchmarks.mlperf_tiny MODELS FOLDER [--only NAME ...] [--budget BUDGET] [--options OPTIONS]
        [--kept]

MODELS holds the reference files (github.com/mlcommons/tiny: kws_float.tflite, kws_int8.tflite, ...), FOLDER keeps samples and studies.
A model is imported from its float file (`--kept`: from its int8 file, whose integers it keeps), searched by the `tune` command for a
Nano 33 and run on 500 inputs that the search has not seen (`plausible_inputs`); outputs that are not the batch simulator's bit for bit
end it with the operation's name. Agreement is with the class of the float file's program and with that of the int8 file executed by
TensorFlow Lite Micro; of anomaly detection, which has no classes, it is the mean squared difference of the reconstruction. RAM is
static RAM with one sample, and the peak of the stack. Without --budget a search ends after a number of trials (what a quiet minute
is enough for), so that a slower machine comes to the same row. It needs scikit-image, of whose photographs samples are made.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tflite_micro.python.tflite_micro import runtime

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.quantisation_grid import QuantisationGrid
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import read_trained
from kilotune.evaluators.architectures.registry import code_shapes
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.on_device import measure_checked
from kilotune.experiments.benchmarks.inner_loops import best_program, products
from kilotune.experiments.benchmarks.plausible_inputs import machines, photographs, spoken
from kilotune.experiments.problems.fixed_point.export import emit_for_device

TRAINING, TEST, SEED = 200, 500, 16
ARENA_BYTES = 2_000_000
KEPT_OPTIONS = "--objective latency"
LEVELS = ("-Os", "-O2")


@dataclass(frozen=True)
class ReferenceModel:
    """A model's files, how its inputs are made, and the search: drop or loss, objective and limits, and where it ends."""

    float_file: str
    int8_file: str
    inputs: Callable[[int, np.random.Generator], FloatArray]
    options: str
    budget: str


REFERENCES = {
    "kws": ReferenceModel("kws_float", "kws_int8", spoken, "--drop 0.5 --objective latency", "130trials"),
    "ad01": ReferenceModel(
        "ad01_fp32",
        "ad01_int8",
        machines,
        "--rounding nearest --loss 20 --objective latency --limit flash=300KB",
        "1500trials",
    ),
    "ic": ReferenceModel(
        "ic_float",
        "ic_int8",
        lambda count, rng: photographs(count, 32, 255.0, rng),
        "--drop 0.5 --objective latency",
        "115trials",
    ),
    "vww": ReferenceModel(
        "vww_96_float",
        "vww_96_int8",
        lambda count, rng: photographs(count, 96, 1.0, rng),
        "--drop 0.5 --objective latency --limit flash=400KB",
        "100trials",
    ),
}


def int8_outputs(path: Path, features: FloatArray) -> FloatArray:
    """What TensorFlow Lite Micro makes of an int8 file, as real numbers [samples, outputs]."""
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=ARENA_BYTES)
    given, wanted = interpreter.get_input_details(0), interpreter.get_output_details(0)
    first, last = (_grid(details["quantization_parameters"]) for details in (given, wanted))
    rows = []
    for sample in first.apply(features).astype(np.int8):
        interpreter.set_input(sample.reshape(given["shape"]), 0)
        interpreter.invoke()
        rows.append((interpreter.get_output(0).ravel().astype(float) - last.zero) * last.step)
    return np.asarray(rows)


def _grid(parameters: Mapping[str, Any]) -> QuantisationGrid:
    scales, zeros = (np.asarray(parameters[name]).reshape(-1) for name in ("scales", "zero_points"))
    return QuantisationGrid(float(scales[0]), int(zeros[0]))


def _write_samples(reference: ReferenceModel, path: Path) -> None:
    """Inputs to tune and to test on, unless the file is there."""
    if path.exists():
        return
    random = np.random.default_rng(SEED)
    train, test = (reference.inputs(count, random).astype(np.float32) for count in (TRAINING, TEST))
    np.savez(path, X=train, Xt=test)


def measure(name: str, models: Path, folder: Path, budget: str, options: str, *, kept: bool) -> None:
    """Search, run and print the rows of one model."""
    reference, samples = REFERENCES[name], folder / f"{name}.npz"
    storage = f"sqlite:///{(folder / 'studies.db').resolve()}"
    file, study = (reference.int8_file, f"{name}-kept") if kept else (reference.float_file, name)
    _write_samples(reference, samples)
    command = [sys.executable, "-m", "kilotune.experiments", "--space", "shiftry", "--data", str(samples)]
    command += ["--input", str(models / f"{file}.tflite"), "--label", "none", "--device", "nano33"]
    command += ["--keep-quantisation"] if kept else []
    command += ["--study", study, "--storage", storage, "--budget", budget or reference.budget]
    command += ["--no-output", "--quiet", *shlex.split(options or (KEPT_OPTIONS if kept else reference.options))]
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"{study}: `tune` has found no candidate within the limits (--budget gives it more time).")
    problem, batch = best_program(study, storage)
    test, device = problem.bundle.test, problem.device
    assert test is not None
    assert device is not None
    expected = np.asarray(Simulator(batch.program, problem.bundle.parameters, test.features).run(batch)[0])
    features = np.load(samples)["Xt"].astype(float)
    returns = Returns.CLASS if problem.bundle.class_count else Returns.VALUE
    whole_file = convert(read_trained(models / f"{reference.float_file}.tflite"), name, returns)
    floats = run_float(whole_file.program, whole_file.parameters, features).outputs
    int8 = int8_outputs(models / f"{reference.int8_file}.tflite", features)
    if problem.bundle.class_count:
        ours, whole, other = expected.reshape(-1), floats.reshape(-1), int8.argmax(axis=1)
        agreement = " | ".join(
            f"{100 * np.mean(a == b):.1f} %" for a, b in ((ours, whole), (ours, other), (other, whole))
        )
    else:
        scale = int(batch.scales[0, [v.name for v in batch.program.variables].index(batch.program.result.variable)])
        grid = problem.bundle.result_grid or QuantisationGrid(2.0**-scale, 0)
        real = (expected.reshape(len(floats), -1) - grid.zero) * grid.step
        floats = floats.reshape(len(floats), -1)
        pairs = (real, floats), (real, int8), (int8, floats)
        agreement = " | ".join(f"{np.mean((a - b) ** 2):.3g}" for a, b in pairs)
    multiplications = sum(count for count, _ in products(batch))
    for level in LEVELS:
        source = emit_for_device(problem, batch, code_shapes(device.processor)[0])
        found = measure_checked(device, source, batch, problem.bundle.parameters, test.features, expected, level)
        print(
            f"| {study} {level} | {agreement} | {found.sizes.flash_bytes} | {found.sizes.static_ram_bytes} |"
            f" {found.ram_bytes} | {found.cycles / 1e6:.2f} | {found.cycles / multiplications:.2f} |"
            f" {len(expected)} of {len(expected)} |",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description="MLPerf Tiny's reference models on a simulated Cortex-M4.")
    arguments.add_argument("models", type=Path)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--only", nargs="+", choices=sorted(REFERENCES), default=list(REFERENCES))
    arguments.add_argument("--budget", default="")
    arguments.add_argument("--options", default="")
    arguments.add_argument("--kept", action="store_true")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    titles = (
        "model",
        "to float",
        "to int8",
        "int8 to float",
        "flash",
        "static RAM",
        "RAM",
        "Mcycles",
        "a MAC",
        "equal",
    )
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}", flush=True)
    for name in given.only:
        measure(name, given.models, given.folder, given.budget, given.options, kept=given.kept)


if __name__ == "__main__":
    main()
