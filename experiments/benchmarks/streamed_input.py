"""A recurrent network of the size of keyword spotting on an Arduino Uno, its input streamed.

    python -m kilotune.experiments.benchmarks.streamed_input [--units N] [--frames N] [--features N] [--loops NAME]

A FastGRNN with random weights (100 units, 99 frames of 32 features unless told otherwise) in 8-bit parameters. The frames of a sample are
made on the board by a generator, and here by the same one: what the board computes is compared with the batch simulator, sample by sample.
Prints linked flash, static RAM (one frame in it, no sample), cycles, and what the sample alone would take of RAM.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.shape import PLAIN, SHAPES
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.simulated import Artefact, of_emitted
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.spaces.shiftry.space import ShiftrySpace

CLASSES, SAMPLES = 12, 6

SOURCE = """\
let X = ({inputs}, 1) in [-1.0, 1.0] in
let W = ({features}, {units}) in [-1.0, 1.0] in
let U = ({units}, {units}) in [-1.0, 1.0] in
let Bg = (1, {units}) in [-1.0, 1.0] in
let Bh = (1, {units}) in [-1.0, 1.0] in
let FC = ({units}, {classes}) in [-1.0, 1.0] in
let steps = reshape(X, ({frames}, 1, {features}), (1, 2)) in
let H = init([1, {units}], 0.0) in
let last = loop(t = [0:{frames}], H)
(
	let pre = (steps[t] * W) + (H * U) in
	let gate = sigmoid(pre + Bg) in
	let update = tanh(pre + Bh) in
	let H = (gate <*> H) + (0.9 * (1.0 - gate) + 0.1) <*> update in
	H
) in
argmax(last * FC)
"""


def generated(states: IntArray, count: int) -> IntArray:
    """Features -64..63 [samples, count] of a linear congruential generator modulo 2**16, one state a sample."""
    values = np.empty((len(states), count), dtype=np.int64)
    for i in range(count):
        states = (states * 25173 + 13849) % (1 << 16)
        values[:, i] = (states >> 9) - 64
    return values


def written(folder: Path, shape: argparse.Namespace, samples: FloatArray) -> Path:
    """A bundle with random weights."""
    draw = np.random.default_rng(0)
    sizes = {"inputs": shape.frames * shape.features, "classes": CLASSES, **vars(shape)}
    (folder / "model.sd").write_text(SOURCE.format(**sizes))
    wide, tall = 1.0 / np.sqrt(shape.features), 1.0 / np.sqrt(shape.units)
    weights = {
        "W": draw.normal(0, wide, (shape.features, shape.units)),
        "U": draw.normal(0, tall, (shape.units, shape.units)),
        "Bg": draw.normal(0, 0.3, (1, shape.units)),
        "Bh": draw.normal(0, 0.3, (1, shape.units)),
        "FC": draw.normal(0, tall, (shape.units, CLASSES)),
    }
    for name, value in weights.items():
        np.save(folder / f"{name}.npy", np.clip(value, -1, 1))
    np.save(folder / "train.npy", np.column_stack([np.arange(len(samples)) % CLASSES, samples]))
    return folder


def with_generator(source: CSource) -> Artefact:
    """The program as one of the generator's state, a number of 16 bits."""
    face = source.interface
    each = face.features // face.frames
    feeder = (
        "\nstatic uint16_t kt_state;\n\nstatic void kt_generate(" + face.input_type + " *frame)\n{\n"
        f"    for (uint8_t i = 0; i < {each}; i++) {{\n        kt_state = (uint16_t)(kt_state * 25173u + 13849u);\n"
        f"        frame[i] = ({face.input_type})(((int16_t)(kt_state >> 9) - 64) * {1 << max(0, face.input_scale - 6)});\n    }}\n}}\n\n"
        "int from_state(const int16_t *state)\n{\n    kt_state = (uint16_t)*state;\n    return predict(kt_generate);\n}\n"
    )
    # what it asks for is answered on the board, so the harness sees a program that asks for nothing
    plain = of_emitted(dataclasses.replace(source, interface=dataclasses.replace(face, frames=0)))
    return dataclasses.replace(
        plain,
        source=plain.source + feeder,
        header=plain.header.replace("int predict(", "int from_state(const int16_t *state);\nint predict("),
        function="from_state",
        features=1,
        input_type=np.dtype("<i2"),
    )


def narrow(space: ShiftrySpace) -> FixedBatch:
    """The candidate of the first 8-bit format of everything, the input at scale 6."""
    chosen = {d.name: next((o for o in d.options if str(o).startswith("int8")), d.options[0]) for d in space.decisions}
    return space.lower([{**chosen, "X": "int8@6"}])


def main() -> None:
    """Build, run and compare."""
    parser = argparse.ArgumentParser(description="A recurrent network on an Arduino Uno, its input streamed.")
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--frames", type=int, default=99)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--loops", choices=sorted(SHAPES), default=PLAIN, help="how inner loops are written")
    shape = parser.parse_args()
    loops = SHAPES[shape.loops]
    states = np.random.default_rng(1).integers(0, 1 << 15, SAMPLES)
    samples = generated(states, shape.frames * shape.features) / 64.0
    with tempfile.TemporaryDirectory(prefix="kilotune-streamed-") as folder:
        bundle = load_bundle(written(Path(folder), shape, samples))
    space = ShiftrySpace(task_of(bundle, bundle.train))
    batch = narrow(space)
    placement = space.evaluator.footprint.placed(batch.bits[0].astype(np.int64)).offsets
    source = emit_c(batch, bundle.parameters, placement, in_frames=True, shape=loops)
    expected = Simulator(batch.program, bundle.parameters, samples).run(batch)[0][:, 0]
    sizes, run = AvrTarget("atmega328p").run(with_generator(source), states[:, None].astype("<i2"))
    equal = int((run.outputs[:, 0] == expected).sum())
    ram = sizes.static_ram_bytes - sizes.input_bytes
    print(
        f"frames: {source.interface.frames} of {shape.features} features; classes met: {sorted(set(expected.tolist()))}"
    )
    print(f"{equal} of {SAMPLES} samples equal to the simulator's; {run.cycles.mean():.0f} cycles an inference")
    print(
        f"linked: {sizes.flash_bytes} bytes of flash, {ram} of static RAM, {run.peak_stack_bytes} of stack at most; "
        f"the sample as a whole would take {shape.frames * shape.features} bytes more"
    )


if __name__ == "__main__":
    main()
