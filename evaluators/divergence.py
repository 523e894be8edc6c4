"""Where a device stops computing what the simulator computes: the first operation whose result differs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.preshift import preshifted_rows
from kilotune.codegen.emit.storage import stored_bits
from kilotune.codegen.fixed.arithmetic import scale_down
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.straight_line import OperationInstance
from kilotune.evaluators.architectures.architecture import Target
from kilotune.evaluators.fixed_point.reference import executions
from kilotune.evaluators.simulated import DeviceError, SimulatedRun, Sizes, Trace, inferences, of_emitted, quantised


class DivergenceError(DeviceError):
    """A device computed other outputs than the simulator."""


@dataclass(frozen=True)
class Divergence:
    """An operation that wrote `found` where the simulator wrote `expected`. `found` is None where it did not run."""

    operation: ir.Operation
    element: int
    expected: int
    found: int | None

    def __str__(self) -> str:
        o = self.operation
        if self.found is None:
            return f"{o.location}: {type(o).__name__}, which writes {o.out.variable}, did not run when it should"
        return (
            f"{o.location}: {type(o).__name__} wrote {o.out.variable}[{self.element}] = {self.found} "
            f"where the simulator has {self.expected}"
        )


def first_wrong_sample(expected: IntArray, found: npt.NDArray[np.generic]) -> int | None:
    """The first sample whose outputs [samples, results] differ."""
    wrong = np.flatnonzero((expected != found).any(axis=1))
    return int(wrong[0]) if wrong.size else None


def count_events(program: ir.Program, unstored: Collection[int] = ()) -> int:
    """How often operations run in one inference, but for those of the rows `unstored`."""
    return sum(times for row, (_, times) in enumerate(ir.executions(program.body)) if row not in unstored)


def find_divergence(
    batch: FixedBatch,
    parameters: Mapping[str, FloatArray],
    sample: FloatArray,
    trace: Trace,
    offsets: Mapping[str, int],
    unstored: Collection[int] = (),
) -> Divergence | None:
    """Compare a trace of the inference of `sample` [features] with the definition of the semantics.

    `offsets`: where each variable starts in the RAM array; `unstored`: rows of operations that the trace leaves out.
    None when every operation wrote what it should.
    """
    bits, later = (
        stored_bits(batch),
        preshifted_rows(batch)[0, :, Column.SHIFT_OUT] - batch.rows[0, :, Column.SHIFT_OUT],
    )
    steps = executions(batch, parameters, sample[None, :])
    stored = (one for one in _by_execution(steps) if one[0][0].row not in unstored)
    for event, steps_of_one in enumerate(stored):
        first = steps_of_one[0][0]
        operation = first.operation
        if event >= len(trace.rows) or int(trace.rows[event]) != first.row:
            return Divergence(operation, 0, 0, None)
        width = bits[operation.out.variable] // 8
        for step, written in steps_of_one:
            elements = step.out.reshape(-1)
            expected = scale_down(written.reshape(-1), int(later[first.row]), batch.rounding)  # as it is stored
            places = offsets[operation.out.variable] + elements[:, None] * width + np.arange(width)
            found = np.ascontiguousarray(trace.snapshots[event][places]).view(f"<i{width}")[:, 0]
            wrong = np.flatnonzero(found != expected)
            if wrong.size:
                at = int(wrong[0])
                return Divergence(operation, int(elements[at]), int(expected[at]), int(found[at]))
    return None


def _by_execution(
    steps: Iterator[tuple[OperationInstance, IntArray]],
) -> Iterator[list[tuple[OperationInstance, IntArray]]]:
    """Steps of one execution together."""
    for step in steps:
        yield [step, *islice(steps, step[0].operation.steps - 1)]


def describe(where: str, sample: int, divergence: Divergence | None) -> str:
    """The sentence of a DivergenceError. `where`: processor and compiler options."""
    if divergence is None:
        return (
            f"Sample {sample} has another result on {where} than in the simulator, but no operation differs once the "
            f"program is built with trace hooks: suspect the compiler's optimisation, or the code around the operations."
        )
    return f"{divergence} (sample {sample}, {where})."


def run_checked(
    source: CSource,
    batch: FixedBatch,
    parameters: Mapping[str, FloatArray],
    features: FloatArray,
    expected: IntArray,
    target: Target,
) -> tuple[Sizes, SimulatedRun]:
    """Run the only candidate of `batch`, emitted as `source`, on float `features` [samples, features].

    `expected` [samples, results]: what the batch simulator computed. DivergenceError, which names the first operation that
    differs, when the device computes something else.
    """
    artefact = of_emitted(source)
    inputs = quantised(source, features).reshape(len(features) * artefact.calls, artefact.features)
    sizes, calls = target.run(artefact, inputs)
    run = inferences(calls, artefact.calls)
    sample = first_wrong_sample(expected, run.outputs)
    if sample is not None:
        given = inputs[sample * artefact.calls : (sample + 1) * artefact.calls]
        trace = target.trace(artefact, given, count_events(batch.program, source.unstored))
        found = find_divergence(batch, parameters, features[sample], trace, source.offsets, source.unstored)
        raise DivergenceError(describe(str(target), sample, found))
    return sizes, run
