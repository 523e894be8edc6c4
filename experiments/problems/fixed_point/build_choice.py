"""Which build of a program is delivered, of several: the best by what was asked for, as the simulated device measures them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kilotune.evaluators.on_device import DeviceMeasurement
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.fixed_point.model import ANY, FASTEST, ModelOptions
from kilotune.spaces.objectives import LINKED, TOTAL_RAM

FEWEST_CYCLES, LEAST_FLASH, LEAST_RAM = "the fewest cycles", "the least flash", "the least RAM"

BALANCED = "the least flash times cycles"
"""Where neither leads: no build is taken that is slower by a larger factor than it is smaller, nor larger by more than it is faster."""

AIMS: Mapping[str, str] = {
    "cycles": FEWEST_CYCLES,
    "latency": FEWEST_CYCLES,
    "flash": LEAST_FLASH,
    LINKED: LEAST_FLASH,
    "ram": LEAST_RAM,
    TOTAL_RAM: LEAST_RAM,
}
"""What a build is to take, by what a front is against."""


@dataclass(frozen=True)
class BuildChoice:
    """How the builds of one program are ordered. `predicted`: the program's metrics in the search, in which its RAM is that of the array of
    temporaries; the static RAM that a build takes beyond the first one is added to it. Stacks count where the device has to have room."""

    options: ModelOptions
    predicted: Mapping[str, float]

    @property
    def aim(self) -> str:
        """What is to be small, in words: what is minimised, or what a front is against. Where precision or the memory of variables
        is what is asked for, in which builds do not differ, or a front is against cycles and memory, flash and cycles count alike."""
        if self.options.objective == FASTEST:
            return FEWEST_CYCLES
        aims = [AIMS.get(name, BALANCED) for name in self.options.front] or [BALANCED]
        return BALANCED if FEWEST_CYCLES in aims and set(aims) != {FEWEST_CYCLES} else aims[0]

    def may_be(self, build: DeviceMeasurement) -> bool:
        """Whether the build has the -O level and the code shape that were asked for, where one was."""
        asked = self.options
        has_level = asked.level == ANY or build.level == f"-{asked.level}"
        return has_level and (asked.shape == ANY or build.shape == asked.shape_name)

    def best_level(self, builds: Sequence[DeviceMeasurement]) -> str | None:
        """The level of the best of builds in one code shape, of those that were asked for; None where there is none."""
        asked = self.options.level
        taken = [build for build in builds if asked in (ANY, build.level.lstrip("-"))]
        return min(taken, key=lambda build: self._key(build, builds[0])).level if taken else None

    def made(self, check: DeviceCheck) -> DeviceCheck:
        """The check with the best of its builds as what was measured."""
        best = self.best(check.levels)
        if best is None:
            return check
        beyond = frozenset(build.build for build in check.levels if self._violation(build, check.levels[0]))
        kept = best.fits and best.build not in beyond
        within = (
            "" if not beyond else " within the limits" if kept else ", and is nearest to the limits, which none keeps"
        )
        return replace(check, measured=best, reason=None, chosen_for=self.aim + within, beyond=beyond)

    def best(self, builds: Sequence[DeviceMeasurement]) -> DeviceMeasurement | None:
        """The best of those that may be taken: that keeps the limits, or else breaks them the least. None where there is none. The first
        build is the one that the search has taken all programs to have."""
        taken = [build for build in builds if self.may_be(build)]
        return min(taken, key=lambda build: self._key(build, builds[0]), default=None)

    def _key(self, build: DeviceMeasurement, first: DeviceMeasurement) -> tuple[float, ...]:
        flash, ram, cycles = float(build.sizes.flash_bytes), float(build.ram_bytes), build.cycles
        wanted = {
            FEWEST_CYCLES: (cycles, flash),
            LEAST_FLASH: (flash, cycles),
            LEAST_RAM: (ram, flash),
            BALANCED: (flash * cycles, ram),
        }[self.aim]
        return (float(not build.fits), self._violation(build, first), *wanted)

    def _violation(self, build: DeviceMeasurement, first: DeviceMeasurement) -> float:
        """By which shares of them limits are broken that a build has a say in."""
        asked, more = self.options, build.sizes.static_ram_bytes - first.sizes.static_ram_bytes
        found = {
            "cycles": (build.cycles, asked.cycles_limit),
            "latency": (1000.0 * build.cycles / build.device.clock_hz, asked.latency_limit_ms),
            "ram": (self.predicted.get("ram_bytes", 0.0) + more, asked.ram_limit_bytes),
            TOTAL_RAM: (self.predicted.get("total_ram_bytes", 0.0) + more, asked.further_limits.get(TOTAL_RAM)),
            LINKED: (build.sizes.flash_bytes, asked.further_limits.get(LINKED)),
        }
        return sum(max(0.0, amount / float(limit) - 1.0) for amount, limit in found.values() if limit)
