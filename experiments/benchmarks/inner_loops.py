"""Cycles a multiply-accumulate of the best programs of studies, in each code shape of their device, beside the core's bound.

    python -m kilotune.experiments.benchmarks.inner_loops [--storage URL] STUDY ...
    python -m kilotune.experiments.benchmarks.inner_loops --everywhere STUDY ...

A study is one of `tune --space shiftry|seedot --device uno|nano33|mps3`. Multiply-accumulates are those of matrix products and
convolutions, padding included; the cycles are those of the whole inference, so what is above the bound is everything else too: loops,
calls, additions of biases, activations, pooling. The bound is what loading and multiplying 8 or 16 bits takes in the fastest inner loop,
without the loop. --everywhere runs the program on a simulated Uno, Cortex-M0+, Cortex-M4 and Cortex-M55, plain and in each processor's
fastest shape, on all training and test samples, and counts those whose outputs are the batch simulator's bit for bit; a difference ends
it with the operation's name.
"""

from __future__ import annotations

import argparse

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.emit.pairs import BLOCKS, TERMS, interleaves, step_instructions
from kilotune.codegen.emit.products import ADDITIONS
from kilotune.codegen.emit.shape import PLAIN
from kilotune.codegen.emit.vectors import lanes
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.architectures.registry import code_shapes
from kilotune.evaluators.device import Device
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.on_device import measure_checked
from kilotune.evaluators.simulated import DeviceError
from kilotune.experiments.problems.fixed_point.export import emit_program
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.studies import joining
from kilotune.experiments.studies.placing_finalists import exported_trial
from kilotune.experiments.studies.storage import open_store

DEVICES = ("uno", "mkr1000", "nano33", "mps3")
SAMPLES = 10
AVR_CYCLES = {"lpm": 3, "ld": 2, "mul": 2, "muls": 2, "mulsu": 2}
"""Instructions that take more than one cycle, by the AVR Instruction Set Manual."""


def best_program(study: str, storage: str | None) -> tuple[ModelProblem, FixedBatch]:
    """A study's problem, and its best candidate lowered."""
    problem, stored, _ = joining.resume(open_store(storage), study)
    assert isinstance(problem, ModelProblem)
    return problem, problem.lower(exported_trial(problem, stored, None).assignment)


def products(batch: FixedBatch) -> list[tuple[int, tuple[int, int, int]]]:
    """Multiply-accumulates of one inference by product, each with the widths of both operands and of the sum."""
    bits = {v.name: int(b) for v, b in zip(batch.program.variables, batch.bits[0], strict=True)}
    found = []
    for row, (operation, times) in enumerate(ir.executions(batch.program.body)):
        if isinstance(operation, ir.Product):
            widths = sorted((bits[operation.a.variable], bits[operation.b.variable]), reverse=True)
            sums = int(batch.rows[0, row, Column.ACC_BITS])
            found.append((times * operation.out.size * operation.taps, (widths[0], widths[1], sums)))
    return found


def bound(batch: FixedBatch, processor: str) -> float:
    """Cycles a multiply-accumulate that loads and arithmetic take, on average over the products."""
    counted = products(batch)
    total = sum(count for count, _ in counted)
    return sum(count * _least(widths, processor) for count, widths in counted) / total


def _least(widths: tuple[int, int, int], processor: str) -> float:
    wide, other, sums = widths
    if processor == "cortex-m55":
        return 2 / lanes(other, wide)  # loads have a pipeline of their own
    if processor.startswith("cortex"):
        lines = step_instructions(BLOCKS[0], other, wide, interleaved=interleaves(other, wide))
        loads = [line.startswith("ldr") for line in lines]
        waits = sum(load and not before for load, before in zip(loads, [False, *loads[:-1]], strict=True))
        return (len(lines) + waits) / (BLOCKS[0] * TERMS)
    added = ADDITIONS.get((wide, other, sums), ADDITIONS[wide, other, 32])
    return sum(AVR_CYCLES.get(line.split()[0], 1) for line in added) + 3 * other / 8 + 2 * wide / 8


def shapes(study: str, storage: str | None) -> None:
    """A line for each shape of the device that was asked for."""
    problem, batch = best_program(study, storage)
    device = problem.device
    assert device is not None
    features = problem.space.task.features[:SAMPLES]
    expected = np.asarray(Simulator(batch.program, problem.bundle.parameters, features).run(batch)[0])
    total = sum(count for count, _ in products(batch))
    for shape in code_shapes(device.processor):
        source = emit_program(problem, batch, shape)
        found = measure_checked(device, source, batch, problem.bundle.parameters, features, expected)
        print(
            f"| {problem.bundle.name} | {device.name} | {shape} | {found.sizes.flash_bytes} | {found.ram_bytes} |"
            f" {found.cycles:.0f} | {total} | {found.cycles / total:.2f} | {bound(batch, device.processor):.2f} |",
            flush=True,
        )


def everywhere(study: str, storage: str | None) -> None:
    """A line for each device and shape: how many samples are equal."""
    problem, batch = best_program(study, storage)
    parts = [part for part in (problem.bundle.train, problem.bundle.test) if part is not None]
    features = np.concatenate([part.features for part in parts])
    expected = np.asarray(Simulator(batch.program, problem.bundle.parameters, features).run(batch)[0])
    for device in map(find_device, DEVICES):
        for shape in dict.fromkeys((PLAIN, code_shapes(device.processor)[0])):
            print(
                f"| {problem.bundle.name} | {device.processor} | {shape} |"
                f" {_equal(problem, batch, device, shape, features, expected)} |",
                flush=True,
            )


def _equal(
    problem: ModelProblem, batch: FixedBatch, device: Device, shape: str, features: np.ndarray, expected: np.ndarray
) -> str:
    source = emit_program(problem, batch, shape)
    try:
        measure_checked(device, source, batch, problem.bundle.parameters, features, expected)
    except DeviceError as error:
        return str(error)
    return f"{len(features)} of {len(features)} equal"


def main() -> None:
    """Print a table."""
    arguments = argparse.ArgumentParser(description="Inner loops of the best programs of studies.")
    arguments.add_argument("studies", nargs="+")
    arguments.add_argument("--storage")
    arguments.add_argument("--everywhere", action="store_true")
    given = arguments.parse_args()
    if given.everywhere:
        print("| model | processor | code shape | samples |\n|---|---|---|---|", flush=True)
    else:
        titles = ("model", "device", "code shape", "flash", "RAM", "cycles", "MACs", "cycles/MAC", "bound")
        print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}", flush=True)
    for study in given.studies:
        (everywhere if given.everywhere else shapes)(study, given.storage)


if __name__ == "__main__":
    main()
