"""One program on a simulated device, whichever it is: compiled, run, compared with the batch simulator, measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.emit.c import CSource
from kilotune.codegen.fixed.arithmetic import FloatArray, IntArray
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.avr import run as avr
from kilotune.evaluators.avr.firmware import avr_gcc
from kilotune.evaluators.avr.machine import load_shim
from kilotune.evaluators.cortex import run as cortex
from kilotune.evaluators.cortex.firmware import arm_gcc
from kilotune.evaluators.devices import Device
from kilotune.evaluators.simulated import Artefact, DeviceError, SimulatedRun, Sizes

LEVELS = ("-Os", "-O2", "-O3")
"""What optimisation may be asked for; the first is what the Arduino tools do."""


@dataclass(frozen=True)
class DeviceMeasurement:
    """Bytes and cycles of a whole program with its harness, which holds one sample.

    Cycles are exact on AVR and `approximate` on Cortex-M, where `instructions` (mean) are exact.
    """

    device: Device
    level: str
    samples: int
    sizes: Sizes
    run: SimulatedRun
    approximate: bool
    instructions: float | None = None

    @property
    def ram_bytes(self) -> int:
        """Static RAM and the peak of the stack."""
        return self.sizes.static_ram_bytes + self.run.peak_stack_bytes

    @property
    def cycles(self) -> float:
        """Of one inference, on average."""
        return float(self.run.cycles.mean())

    @property
    def fits(self) -> bool:
        """Whether flash and RAM suffice, the stack included."""
        return self.sizes.flash_bytes <= self.device.flash_bytes and self.ram_bytes <= self.device.ram_bytes

    def metrics(self) -> dict[str, float]:
        """By name, as results hold them."""
        prefix = "approximate_" if self.approximate else ""
        found = {
            f"{prefix}cycles": round(self.cycles, 1),
            f"most_{prefix}cycles": float(self.run.cycles.max()),
            f"{prefix}latency_ms": 1000.0 * self.cycles / self.device.clock_hz,
            "flash_bytes": float(self.sizes.flash_bytes),
            "static_ram_bytes": float(self.sizes.static_ram_bytes),
            "peak_stack_bytes": float(self.run.peak_stack_bytes),
            "ram_bytes": float(self.ram_bytes),
        }
        return found if self.instructions is None else {**found, "instructions": round(self.instructions, 1)}


def missing_tools(device: Device) -> str | None:
    """A sentence that names the Debian packages without which programs for the device are not run; None when all is there."""
    if device.architecture == "avr":
        ready = avr_gcc() is not None and load_shim() is not None
        packages = "gcc-avr avr-libc simavr libsimavr-dev gcc"
    else:
        ready = arm_gcc() is not None and cortex.qemu() is not None and cortex.load_plugin() is not None
        packages = "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm gcc"
    return None if ready else f"Not run on a simulated {device.name}: its tools are missing (apt install {packages})."


def measure_checked(
    device: Device,
    source: CSource,
    batch: FixedBatch,
    parameters: Mapping[str, FloatArray],
    features: FloatArray,
    expected: IntArray,
    level: str = LEVELS[0],
) -> DeviceMeasurement:
    """Build and run the only candidate of `batch`, emitted as `source`, on float `features` [samples, features].

    `expected` [samples, results] comes from the batch simulator; DivergenceError when the device computes something else.
    Other DeviceErrors: it cannot be built, is too large, or does not end.
    """
    arguments = (source, batch, parameters, features, expected)
    if device.architecture == "avr":
        sizes, run = avr.run_checked(*arguments, _avr(device, level))
        return DeviceMeasurement(device, level, len(features), sizes, run, approximate=False)
    sizes, result = cortex.run_checked(*arguments, cortex.CortexTarget(device.processor, level))
    mean = float(result.instructions.mean())
    return DeviceMeasurement(device, level, len(features), sizes, result.run, approximate=True, instructions=mean)


def measure_artefact(
    device: Device, artefact: Artefact, inputs: npt.NDArray[np.generic], level: str = LEVELS[0]
) -> DeviceMeasurement:
    """The same for any program, on `inputs` [samples, features] as it takes them, with nothing to compare with."""
    if device.architecture == "avr":
        sizes, run = avr.run_artefact(artefact, inputs, _avr(device, level))
        return DeviceMeasurement(device, level, len(inputs), sizes, run, approximate=False)
    sizes, result = cortex.run_artefact(artefact, inputs, cortex.CortexTarget(device.processor, level))
    mean = float(result.instructions.mean())
    return DeviceMeasurement(device, level, len(inputs), sizes, result.run, approximate=True, instructions=mean)


def _avr(device: Device, level: str) -> avr.AvrTarget:
    return avr.AvrTarget(device.processor, device.clock_hz, level)


def fastest_that_fits(found: Sequence[DeviceMeasurement]) -> DeviceMeasurement:
    """Of one program at several levels; the smallest one where none fits. DeviceError where there is none at all."""
    if not found:
        raise DeviceError("The program was built at no level.")
    fitting = [m for m in found if m.fits]
    return min(fitting, key=lambda m: m.cycles) if fitting else min(found, key=lambda m: m.sizes.flash_bytes)
