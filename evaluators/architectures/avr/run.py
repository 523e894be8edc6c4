"""A processor of the AVR family, simulated: programs are built for it, run and traced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.evaluators.architectures.avr.firmware import build_firmware
from kilotune.evaluators.architectures.avr.machine import AvrMachine
from kilotune.evaluators.marks import MarkedRun
from kilotune.evaluators.simulated import Artefact, SimulatedRun, Sizes, Trace


@dataclass(frozen=True)
class AvrTarget:
    """A processor and how programs are built for it. `compiler`: None for the avr-gcc on the path."""

    mcu: str = "atmega328p"
    clock_hz: int = 16_000_000
    level: str = "-Os"
    compiler: str | None = None

    def __str__(self) -> str:
        return f"{self.mcu}, {self.level}"

    def run(self, artefact: Artefact, inputs: npt.NDArray[np.generic]) -> tuple[Sizes, SimulatedRun]:
        """Sizes, and the inferences of `inputs` [samples, features], as the program takes them; cycles are exact. DeviceError
        when that fails."""
        firmware = build_firmware(artefact, self.mcu, level=self.level, compiler=self.compiler)
        with AvrMachine(firmware, self.clock_hz) as machine:
            return firmware.sizes, machine.run(inputs)

    def sizes(self, artefact: Artefact) -> Sizes:
        """Sizes. DeviceError when the program cannot be built."""
        return build_firmware(artefact, self.mcu, level=self.level, compiler=self.compiler).sizes

    def trace(self, artefact: Artefact, inputs: npt.NDArray[np.generic], most_events: int) -> Trace:
        """The inference of the only sample, as far as it got. DeviceError when the program cannot be built."""
        firmware = build_firmware(artefact, self.mcu, level=self.level, compiler=self.compiler, traced=True)
        with AvrMachine(firmware, self.clock_hz) as machine:
            return machine.trace(inputs, most_events)

    def profile(self, artefact: Artefact, inputs: npt.NDArray[np.generic], operations: int) -> MarkedRun:
        """The inferences of a marked build; cycles are exact. DeviceError when that fails."""
        firmware = build_firmware(artefact, self.mcu, level=self.level, compiler=self.compiler, marked=True)
        with AvrMachine(firmware, self.clock_hz) as machine:
            return machine.profile(inputs, operations)
