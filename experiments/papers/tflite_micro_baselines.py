"""What TensorFlow's converter and TensorFlow Lite Micro make of the papers' models: test accuracy in 8 bits, and the bytes of the files.

    python -m kilotune.experiments.papers.tflite_micro_baselines BUNDLES [--models NAME ...]

BUNDLES is a folder of bundles of `papers.paper_models`. Each model is written with TensorFlow's operators, converted with whole-integer
post-training quantisation (ranges on CALIBRATED training samples) and executed by TensorFlow Lite Micro's interpreter. TensorFlow Lite
Micro has no integer e**x, so ProtoNN's weights of prototypes are a softmax: it multiplies all scores of a sample by one number, and the
class stays. Its C++ sources are not in the wheel, so there are no cycles; a program of it is at least its file and its kernels.
Needs `pip install tensorflow-cpu tflite-micro`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tflite_micro import runtime

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.float_evaluator import run_float

CALIBRATED = 300
ARENA_BYTES = 4_000_000
CHECKED = 50
"""Samples on which the model in TensorFlow's operators is held to the bundle's program."""

TensorWeights = Mapping[str, npt.NDArray[np.float32]]

ScoresOfSample = Callable[[Any], Any]
"""A tensor [1, features] to scores [1, classes]."""


def _numbers(text: str, *names: str) -> list[float]:
    """Constants of a program, such as `let zeta = 0.5 in`."""
    found = [re.search(rf"let {name} = ([\d.]+) in", text) for name in names]
    return [float(match.group(1)) for match in found if match is not None]


def protonn(text: str, weights: TensorWeights) -> ScoresOfSample:
    """Prototypes' weights by a softmax."""
    (gamma,) = _numbers(text, "gammaSq")
    prototypes, scores = weights["B"][:, :, 0], weights["Z"][:, :, 0]

    def run(x: Any) -> Any:
        away = tf.linalg.matmul(x, weights["W"].T) - prototypes
        squares = tf.reduce_sum(away * away, axis=1)
        return tf.linalg.matmul(tf.nn.softmax(tf.reshape(-gamma * squares, (1, -1))), scores)

    return run


def bonsai(text: str, weights: TensorWeights) -> ScoresOfSample:
    """A tree of depth 2, all nodes computed, as the bundles have it."""
    classes = len(weights["W"]) // 7

    def run(x: Any) -> Any:
        z = tf.linalg.matmul(x, weights["Z"].T)
        nodes = tf.linalg.matmul(z, weights["W"].T) * tf.tanh(tf.linalg.matmul(z, weights["V"].T))
        node = [nodes[:, k * classes : (k + 1) * classes] for k in range(7)]
        side = tf.linalg.matmul(z, weights["T"].T) >= 0
        below = [node[k] + tf.where(side[:, k : k + 1], node[2 * k + 1], node[2 * k + 2]) for k in (1, 2)]
        return node[0] + tf.where(side[:, 0:1], below[0], below[1])

    return run


def fastgrnn(text: str, weights: TensorWeights) -> ScoresOfSample:
    """All steps written out, as the converter unrolls loops of known length."""
    zeta, nu = _numbers(text, "zeta", "nu")
    channels, units = weights["W"].shape

    def run(x: Any) -> Any:
        state = tf.zeros((1, units))
        for start in range(0, x.shape[1], channels):
            before = tf.linalg.matmul(x[:, start : start + channels], weights["W"])
            before += tf.linalg.matmul(state, weights["U"])
            gate, update = tf.sigmoid(before + weights["Bg"]), tf.tanh(before + weights["Bh"])
            state = gate * state + (zeta * (1.0 - gate) + nu) * update
        return tf.linalg.matmul(state, weights["FC"]) + weights["FCbias"]

    return run


KINDS: dict[str, Callable[[str, TensorWeights], ScoresOfSample]] = {
    "protonn": protonn,
    "bonsai": bonsai,
    "fastgrnn": fastgrnn,
}


def converted(run: ScoresOfSample, calibration: FloatArray) -> bytes:
    """An int8 file of the model, ranges from samples [samples, features]."""
    given = [tf.TensorSpec((1, calibration.shape[1]), tf.float32)]
    traced = tf.function(run, input_signature=given).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    wanted = {
        "optimizations": [tf.lite.Optimize.DEFAULT],
        "representative_dataset": lambda: ([row[None].astype(np.float32)] for row in calibration),
        "target_spec": tf.lite.TargetSpec([tf.lite.OpsSet.TFLITE_BUILTINS_INT8]),
        "inference_input_type": tf.int8,
        "inference_output_type": tf.int8,
    }
    for name, value in wanted.items():
        setattr(converter, name, value)
    return bytes(converter.convert())


def accuracy(content: bytes, test: Dataset) -> float:
    """Percent of the samples whose class TensorFlow Lite Micro finds. RuntimeError for a file that it refuses."""
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=ARENA_BYTES)
    grid = interpreter.get_input_details(0)["quantization_parameters"]
    scale, zero, right = float(grid["scales"][0]), int(grid["zero_points"][0]), 0
    for row, target in zip(test.features, test.targets, strict=True):
        interpreter.set_input(np.clip(np.round(row / scale) + zero, -128, 127).astype(np.int8)[None], 0)
        interpreter.invoke()
        right += int(interpreter.get_output(0).argmax() == target)
    return 100.0 * right / len(test.targets)


def row_of(path: Path) -> str:
    """A line of the table. RuntimeError where TensorFlow's model is not the bundle's."""
    bundle: Bundle = load_bundle(path)
    assert bundle.train is not None
    assert bundle.test is not None
    weights = {name: values.astype(np.float32) for name, values in bundle.parameters.items()}
    run = KINDS[path.name.split("-", maxsplit=1)[0]]((path / "model.sd").read_text(encoding="utf-8"), weights)
    wanted = run_float(bundle.program, bundle.parameters, bundle.test.features).outputs[:, 0]
    found = [int(np.argmax(run(tf.constant(row[None], tf.float32)))) for row in bundle.test.features[:CHECKED]]
    if (np.array(found) != wanted[:CHECKED]).any():
        raise RuntimeError(f"{path.name}: the model in TensorFlow's operators has other classes than the program")
    content = converted(run, bundle.train.features[:CALIBRATED])
    exact = 100.0 * float((wanted == bundle.test.targets).mean())
    try:
        reached = f"{accuracy(content, bundle.test):.2f}"
    except RuntimeError as error:
        reached = f"refused: {error}"
    return f"| {path.name} | {exact:.2f} | {reached} | {len(content)} |"


def rows(bundles: Path, models: list[str]) -> Iterator[str]:
    """The table in Markdown."""
    yield "| model | float | int8 by TensorFlow Lite Micro | bytes of the file |"
    yield "|---|---|---|---|"
    for path in sorted(file.parent for file in bundles.glob("*/model.sd")):
        if path.name.split("-", maxsplit=1)[0] in KINDS and (not models or path.name in models):
            print(path.name, file=sys.stderr, flush=True)
            yield row_of(path)


def main() -> None:
    """Convert, execute and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path)
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME")
    given = parser.parse_args()
    for line in rows(given.bundles, given.models):
        print(line, flush=True)


if __name__ == "__main__":
    main()
