"""What a search ends with, compiled and measured on the simulated device: predictions beside measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kilotune.codegen.emit.shape import PLAIN
from kilotune.evaluators.architectures.registry import priced_shapes
from kilotune.evaluators.device import Device
from kilotune.evaluators.divergence import DivergenceError
from kilotune.evaluators.on_device import DeviceMeasurement, fastest_that_fits, missing_tools
from kilotune.evaluators.simulated import DeviceError


@dataclass(frozen=True)
class DeviceCheck:
    """A candidate on the device, at the request's level (`measured`), which is what is exported, and at all that were built, that of the
    search first. Where the build was chosen among these, `chosen_for` says by what, in words, and `beyond` names those that break a limit.
    `counted_ram_bytes`: what the search takes it to have in RAM, with its input.

    Where it was not measured, `reason` says why, in a sentence.
    """

    device: Device
    predicted_cycles: float | None
    measured: DeviceMeasurement | None
    levels: tuple[DeviceMeasurement, ...]
    reason: str | None
    chosen_for: str | None = None
    beyond: frozenset[str] = frozenset()
    counted_ram_bytes: float | None = None

    @property
    def unknown_shape(self) -> str:
        """A sentence where cycles were predicted of code in a shape that the device's table was not fitted to; else nothing."""
        shapes = priced_shapes(self.device.processor)
        if self.measured is None or self.predicted_cycles is None or self.measured.shape in shapes:
            return ""
        known = ", ".join(shapes)
        return f"Its predicted cycles mean nothing: {self.device.name} gains by no {self.measured.shape} (it does by {known})."

    @property
    def less_ram(self) -> str:
        """A sentence where the program has less in RAM than the search counts, which would look like a contradiction; else nothing."""
        held, counted = self.measured, self.counted_ram_bytes
        if held is None or counted is None or held.sizes.static_ram_bytes >= counted:
            return ""
        return (
            f"The search counts RAM for each variable, and behind all of them for what operations unpack or collect; the program keeps "
            f"some values in registers and unpacks where there is room: with the input {held.sizes.static_ram_bytes} bytes instead of "
            f"{counted:.0f}, and up to "
            f"{held.run.peak_stack_bytes} of stack."
        )

    @property
    def _within(self) -> list[DeviceMeasurement]:
        return [build for build in self.levels if not self.beyond or build.build not in self.beyond]

    @property
    def better(self) -> DeviceMeasurement | None:
        """At another level, what fits the device and is faster, or fits where `measured` does not; None if nothing does."""
        others = self._within
        if not others:
            return None
        best, held = fastest_that_fits(others), self.measured
        return best if best.fits and (held is None or not held.fits or best.cycles < held.cycles) else None

    @property
    def smaller(self) -> DeviceMeasurement | None:
        """What fits the device and takes the least flash, less than what was asked for, and where that is fast code no longer either; None
        if nothing does."""
        held = self.measured
        if held is None:
            return None
        smaller = [build for build in self._within if build.fits and build.sizes.flash_bytes < held.sizes.flash_bytes]
        fitting = [build for build in smaller if held.shape == PLAIN or build.cycles <= held.cycles]
        return min(fitting, key=lambda build: build.sizes.flash_bytes, default=None)

    def as_json(self) -> dict[str, Any]:
        """Both figures."""
        latency = None if self.predicted_cycles is None else 1000.0 * self.predicted_cycles / self.device.clock_hz
        found = self.measured
        return {
            "device": self.device.name,
            "processor": self.device.processor,
            "predicted": {"cycles": self.predicted_cycles, "latency_ms": latency},
            "measured": None
            if found is None
            else {
                **found.metrics(),
                "level": found.level,
                "shape": found.shape,
                "samples": found.samples,
                "fits": found.fits,
            },
            "levels": {m.build: m.metrics() for m in self.levels},
            "reason": self.reason,
            **({} if self.chosen_for is None else {"chosen_for": self.chosen_for}),
        }


def check_builds(
    device: Device,
    predicted: float | None,
    builds: Sequence[tuple[str, str]],
    measure: Callable[[tuple[str, str]], DeviceMeasurement],
) -> DeviceCheck:
    """A program measured in each of `builds` (-O level, code shape), of which the first is the one that was asked for; one that the device
    has no room for is left out. DivergenceError when the device computes something else than the search measured."""
    missing = missing_tools(device)
    if missing is not None:
        return DeviceCheck(device, predicted, None, (), missing)
    found: list[DeviceMeasurement] = []
    reason = None
    for build in builds:
        try:
            found.append(measure(build))
        except DivergenceError:
            raise
        except DeviceError as error:
            reason = reason or str(error)
    measured = next((m for m in found if (m.level, m.shape) == builds[0]), None)
    return DeviceCheck(device, predicted, measured, tuple(found), reason if measured is None else None)
