"""One program on a simulated device, whichever it is: compiled, run, compared with the batch simulator, measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.levels import LEVELS
from kilotune.codegen.emit.shape import PLAIN
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.architecture import Target
from kilotune.evaluators.architectures.registry import architecture_of
from kilotune.evaluators.device import Device
from kilotune.evaluators.divergence import run_checked
from kilotune.evaluators.simulated import Artefact, DeviceError, SimulatedRun, Sizes

USUAL_LEVEL = f"-{LEVELS[0]}"


@dataclass(frozen=True)
class DeviceMeasurement:
    """Bytes and cycles of a whole program with its harness, which holds one sample, or one frame of it. Cycles are estimates where the run
    counted instructions."""

    device: Device
    level: str
    samples: int
    sizes: Sizes
    run: SimulatedRun
    shape: str = PLAIN

    @property
    def build(self) -> str:
        """The level, and how inner loops are written where that is not plain."""
        return self.level if self.shape == PLAIN else f"{self.level}, {self.shape}"

    @property
    def ram_bytes(self) -> int:
        """Static RAM and the peak of the stack."""
        return self.sizes.static_ram_bytes + self.run.peak_stack_bytes

    @property
    def approximate(self) -> bool:
        """Whether cycles are estimates from counted instructions."""
        return self.run.instructions is not None

    @property
    def cycles(self) -> float:
        """Cycles of one inference, on average over the samples."""
        return float(self.run.cycles.mean())

    @property
    def fits(self) -> bool:
        """Whether flash and RAM suffice, the stack included."""
        return self.sizes.flash_bytes <= self.device.flash_bytes and self.ram_bytes <= self.device.ram_bytes

    def metrics(self) -> dict[str, float]:
        """By name, as results hold them."""
        instructions = self.run.instructions
        prefix = "" if instructions is None else "approximate_"
        found = {
            f"{prefix}cycles": round(self.cycles, 1),
            f"most_{prefix}cycles": float(self.run.cycles.max()),
            f"{prefix}latency_ms": 1000.0 * self.cycles / self.device.clock_hz,
            "flash_bytes": float(self.sizes.flash_bytes),
            "static_ram_bytes": float(self.sizes.static_ram_bytes),
            "peak_stack_bytes": float(self.run.peak_stack_bytes),
            "ram_bytes": float(self.ram_bytes),
        }
        if self.run.most_step_cycles is not None:
            found[f"most_step_{prefix}cycles"] = float(self.run.most_step_cycles)
        return found if instructions is None else {**found, "instructions": round(float(instructions.mean()), 1)}


def missing_tools(device: Device) -> str | None:
    """A sentence that names the Debian packages without which programs for the device are not run; None when all is there."""
    tools = architecture_of(device.processor).tools
    if all(tool.find() is not None for tool in tools):
        return None
    packages = " ".join(tool.packages for tool in tools)
    return f"Not run on a simulated {device.name}: its tools are missing (apt install {packages})."


def measure_checked(
    device: Device,
    source: CSource,
    batch: FixedBatch,
    parameters: Mapping[str, FloatArray],
    features: FloatArray,
    expected: IntArray,
    level: str = USUAL_LEVEL,
) -> DeviceMeasurement:
    """Build and run the only candidate of `batch`, emitted as `source`, on float `features` [samples, features].

    `expected` [samples, results] comes from the batch simulator; DivergenceError when the device computes something else.
    Other DeviceErrors: it cannot be built, is too large, or does not end.
    """
    sizes, run = run_checked(source, batch, parameters, features, expected, target_of(device, level))
    return DeviceMeasurement(device, level, len(features), sizes, run)


def measure_artefact(
    device: Device, artefact: Artefact, inputs: npt.NDArray[np.generic], level: str = USUAL_LEVEL
) -> DeviceMeasurement:
    """Build and run any program on `inputs` [samples, features] as it takes them, with nothing to compare its outputs with.
    DeviceError as `measure_checked`."""
    sizes, run = target_of(device, level).run(artefact, inputs)
    return DeviceMeasurement(device, level, len(inputs), sizes, run)


def target_of(device: Device, level: str) -> Target:
    """How programs are built for a device at a level such as `-Os`, and run."""
    return architecture_of(device.processor).target(device.processor, device.clock_hz, level)


def fastest_that_fits(found: Sequence[DeviceMeasurement]) -> DeviceMeasurement:
    """The fastest of one program's builds (at several -O levels) that fits the device; the smallest one where none fits.
    DeviceError where there is none at all."""
    if not found:
        raise DeviceError("The program was built at no level.")
    fitting = [m for m in found if m.fits]
    return min(fitting, key=lambda m: m.cycles) if fitting else min(found, key=lambda m: m.sizes.flash_bytes)
