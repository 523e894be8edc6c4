"""A candidate on a simulated AVR: every sample compared with the batch simulator, cycles and bytes measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.emit.c import CSource
from kilotune.codegen.fixed.arithmetic import FloatArray, IntArray
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.avr.firmware import build_firmware
from kilotune.evaluators.avr.machine import AvrMachine
from kilotune.evaluators.divergence import DivergenceError, count_events, describe, find_divergence, first_wrong_sample
from kilotune.evaluators.simulated import Artefact, SimulatedRun, Sizes, of_emitted, quantised


@dataclass(frozen=True)
class AvrTarget:
    """A processor and how programs are built for it. `compiler`: None for the avr-gcc on the path."""

    mcu: str = "atmega328p"
    clock_hz: int = 16_000_000
    level: str = "-Os"
    compiler: str | None = None

    def __str__(self) -> str:
        return f"{self.mcu}, {self.level}"


def run_artefact(
    artefact: Artefact, inputs: npt.NDArray[np.generic], target: AvrTarget = AvrTarget()
) -> tuple[Sizes, SimulatedRun]:
    """Sizes, and the inferences of `inputs` [samples, features], as the program takes them. DeviceError when that fails."""
    firmware = build_firmware(artefact, target.mcu, level=target.level, compiler=target.compiler)
    with AvrMachine(firmware, target.clock_hz) as machine:
        return firmware.sizes, machine.run(inputs)


def run_checked(
    source: CSource,
    batch: FixedBatch,
    parameters: Mapping[str, FloatArray],
    features: FloatArray,
    expected: IntArray,
    target: AvrTarget = AvrTarget(),
) -> tuple[Sizes, SimulatedRun]:
    """Run the only candidate of `batch`, emitted as `source`, on float `features` [samples, features].

    `expected` [samples, results]: what the batch simulator computed. DivergenceError, which names the first operation that
    differs, when the device computes something else.
    """
    inputs = quantised(source, features)
    artefact = of_emitted(source)
    sizes, run = run_artefact(artefact, inputs, target)
    sample = first_wrong_sample(expected, run.outputs)
    if sample is not None:
        firmware = build_firmware(artefact, target.mcu, level=target.level, compiler=target.compiler, traced=True)
        with AvrMachine(firmware, target.clock_hz) as machine:
            trace = machine.trace(inputs[sample : sample + 1], count_events(batch.program))
        found = find_divergence(batch, parameters, features[sample], trace, source.offsets)
        raise DivergenceError(describe(str(target), sample, found))
    return sizes, run
