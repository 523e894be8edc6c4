"""Cycles of each step of the best program of a study on a simulated processor, called with a frame of its input at a time.

    python -m kilotune.experiments.benchmarks.streamed_steps [--storage URL] [--shape NAME] [--processor NAME] STUDY

Results after the last frame are compared with the batch simulator's of the whole program, on all test samples. Of a study with --hop the
first test samples are one stream of frames, and every window has a result, compared with that of the window alone.
"""

from __future__ import annotations

import argparse

import numpy as np

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.arithmetic import quantise_features
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.simulated import of_emitted
from kilotune.experiments.benchmarks.inner_loops import best_program

PROCESSORS = ("cortex-m0plus", "cortex-m4")
"""Those of QEMU; the other one is simavr's."""

STREAMED = 10
"""Test samples that make one stream."""


def main() -> None:
    """Build, run and compare."""
    parser = argparse.ArgumentParser(description="Cycles of each step of a streamed program, simulated.")
    parser.add_argument("study")
    parser.add_argument("--storage")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="unrolled16")
    parser.add_argument("--processor", choices=["atmega328p", *PROCESSORS], default="atmega328p")
    given = parser.parse_args()
    problem, batch = best_program(given.study, given.storage)
    bundle = problem.bundle
    tested = bundle.test or bundle.train
    assert tested is not None
    hop = problem.options.hop
    source = emit_c(batch, bundle.parameters, in_steps=True, hop=hop, shape=SHAPES[given.shape])
    face, features = source.interface, tested.features
    width = face.features // face.frames
    stream = features[:STREAMED].reshape(-1, width) if hop else features.reshape(-1, width)
    artefact = of_emitted(source)
    frames = quantise_features(stream, face.input_bits, face.input_scale).astype(artefact.input_type)
    target = CortexTarget(given.processor) if given.processor in PROCESSORS else AvrTarget(given.processor)
    sizes, run = target.run(artefact, frames)
    ends = np.arange(face.frames - 1, len(stream), hop or face.frames)
    windows = np.stack([stream[end + 1 - face.frames : end + 1].reshape(-1) for end in ends])
    expected = Simulator(batch.program, bundle.parameters, windows).run(batch)[0][:, 0]
    outputs, silent = run.outputs[:, 0], np.setdiff1d(np.arange(len(stream)), ends)
    assert (outputs[silent] == -1).all(), "a result where no window ends"
    print(
        f"{int((outputs[ends] == expected).sum())} of {len(ends)} windows equal, and nothing is said between their ends"
    )
    cycles = run.cycles
    print(
        f"cycles: {cycles[silent].mean():.0f} a step, {cycles[ends].mean():.0f} one that ends a window, {cycles.max()} at most"
    )
    if hop:
        print(f"cycles: {cycles[ends[0] + 1 :].sum() / (len(ends) - 1):.0f} a further window of {hop} new frames")
    ram = sizes.static_ram_bytes - sizes.input_bytes
    print(f"linked: {sizes.flash_bytes} bytes of flash, {ram} of static RAM, {run.peak_stack_bytes} of stack at most")


if __name__ == "__main__":
    main()
