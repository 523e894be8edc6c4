"""Whether the float program of a file is what the file itself says, on all samples, and how long the import takes.

    python -m kilotune.experiments.benchmarks.imported_files DATA.npz MODEL.onnx MODEL.tflite ...
    python -m kilotune.experiments.benchmarks.imported_files --samples 20 MODEL.tflite ...

ONNX files are executed by onnxruntime, TensorFlow Lite files by TensorFlow Lite Micro (`tflite-micro`). Without data the samples are
drawn: normal, with the spread and centre of what a quantised input can hold. A row of the table for each file: CPU-seconds of the
import, samples, the largest difference of a result from the file's, relative to the largest result, and in how many samples the class
is another one; nothing where TensorFlow Lite Micro has no kernel for the file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from tflite_micro import runtime

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.tflite.model_file import read_model
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle, read_trained

ARENA_BYTES = 8_000_000
"""For the largest networks."""


@dataclass(frozen=True)
class ImportedFile:
    """`difference`: relative to the largest result; `other_classes`: samples."""

    name: str
    cpu_s: float
    samples: int
    difference: float
    other_classes: int


def imported_file(path: Path, data: Path | None, samples: int) -> ImportedFile:
    """Import a file as a program of real numbers, and compare it with its own execution."""
    model = read_trained(path)
    with tempfile.TemporaryDirectory() as folder:
        if data is None:
            given = _drawn(path, model.input_shape, samples)
            data = Path(folder) / "data.npz"
            np.savez(data, X=given)
        else:
            with np.load(data) as archive:
                given = np.concatenate([archive[name] for name in ("X", "Xt") if name in archive.files])
        begun = time.process_time()
        bundle = import_bundle(path, data, returns=Returns.VALUE)
        cpu_s = time.process_time() - begun
    features = np.asarray(given, dtype=np.float64).reshape(len(given), -1)
    results = _executed(path, features, model.input_shape)
    scaled = features if bundle.scaling is None else bundle.scaling.apply(features)
    found = np.asarray(run_float(bundle.program, bundle.parameters, scaled).outputs)
    difference = float(np.abs(found - results).max() / max(1.0, float(np.abs(results).max())))
    others = int((_class(found) != _class(results)).sum())
    return ImportedFile(path.name, cpu_s, len(features), difference, others)


def _class(scores: FloatArray) -> IntArray:
    """The class of each row [samples, numbers]: the largest, or whether a single number is positive."""
    return np.asarray(scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0, dtype=np.int64)


def _drawn(path: Path, shape: tuple[int, ...], samples: int) -> FloatArray:
    random = np.random.default_rng(0)
    centre, spread = 0.0, 1.0
    if path.suffix == ".tflite":
        model = read_model(path)
        steps = model.tensors[model.inputs[0]].quantisation
        if steps is not None:
            centre, spread = float(-steps.zero_points[0] * steps.scales[0]), 40.0 * float(steps.scales[0])
    return np.asarray(random.normal(centre, spread, (samples, int(np.prod(shape)))))


def _executed(path: Path, features: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """What the file's own execution returns [samples, numbers]: of several outputs the last, behind a label."""
    if path.suffix == ".tflite":
        return _by_tflite_micro(path, features)
    options = onnxruntime.SessionOptions()
    # or quantised layers are fused into products of integers, whose sums of pairs end at 16 bits on processors without VNNI
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    name = session.get_inputs()[0].name
    rows = [session.run(None, {name: row.reshape(shape).astype(np.float32)})[-1] for row in features]
    return np.array([np.asarray(row, dtype=np.float64).reshape(-1) for row in rows])


def _by_tflite_micro(path: Path, features: FloatArray) -> FloatArray:
    model = read_model(path)
    given, result = model.tensors[model.inputs[0]], model.tensors[model.outputs[0]]
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=ARENA_BYTES)
    rows = []
    for row in features:
        sample = row.reshape([max(1, extent) for extent in given.shape]).astype(np.float32)
        if given.quantisation is not None:
            steps = np.rint(sample / given.quantisation.scales[0]) + given.quantisation.zero_points[0]
            sample = np.clip(steps, -128, 127).astype(np.int8)
        interpreter.set_input(sample, 0)
        interpreter.invoke()
        found = interpreter.get_output(0).astype(np.float64).reshape(-1)
        steps_of = result.quantisation
        rows.append(found if steps_of is None else (found - steps_of.zero_points[0]) * steps_of.scales[0])
    return np.array(rows)


def main() -> None:
    """Print a row for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--samples", type=int, default=100, help="drawn where no data are given")
    given = parser.parse_args()
    data = given.files[0] if given.files[0].suffix == ".npz" else None
    print("| file | CPU-s | samples | largest difference | other classes |\n|---|---|---|---|---|")
    for path in given.files[1:] if data is not None else given.files:
        try:
            one = imported_file(path, data, given.samples)
        except RuntimeError as error:  # TensorFlow Lite Micro's only one
            print(f"| {path.name} | | | {error} | |", flush=True)
            continue
        print(
            f"| {one.name} | {one.cpu_s:.2f} | {one.samples} | {one.difference:.1e} | {one.other_classes} |", flush=True
        )


if __name__ == "__main__":
    main()
