"""Cycles of each step of the best program of a study on a simulated processor, called with a frame of its input at a time.

    python -m kilotune.experiments.benchmarks.streamed_steps [--storage URL] [--shape NAME] [--processor NAME] STUDY

Results after the last frame are compared with the batch simulator's of the whole program, on all test samples.
"""

from __future__ import annotations

import argparse

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.arithmetic import quantise
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.simulated import of_emitted
from kilotune.experiments.benchmarks.inner_loops import best_program

PROCESSORS = ("cortex-m0plus", "cortex-m4")
"""Those of QEMU; the other one is simavr's."""


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
    source = emit_c(batch, bundle.parameters, in_steps=True, shape=SHAPES[given.shape])
    face = source.interface
    rows = quantise(tested.features, face.input_bits, face.input_scale)
    artefact = of_emitted(source)
    frames = rows.reshape(-1, artefact.features).astype(artefact.input_type)
    target = CortexTarget(given.processor) if given.processor in PROCESSORS else AvrTarget(given.processor)
    sizes, run = target.run(artefact, frames)
    outputs = run.outputs[:, 0].reshape(len(rows), face.frames)
    expected = Simulator(batch.program, bundle.parameters, tested.features).run(batch)[0][:, 0]
    equal = int(((outputs[:, -1] == expected) & (outputs[:, :-1] == -1).all(axis=1)).sum())
    cycles = run.cycles.reshape(len(rows), face.frames)
    print(f"{equal} of {len(rows)} samples equal after the last frame, and none said before it")
    print(
        f"cycles: {cycles[:, :-1].mean():.0f} a step, {cycles[:, -1].mean():.0f} the last one, {cycles.max()} at most"
    )
    ram = sizes.static_ram_bytes - sizes.input_bytes
    print(f"linked: {sizes.flash_bytes} bytes of flash, {ram} of static RAM, {run.peak_stack_bytes} of stack at most")


if __name__ == "__main__":
    main()
