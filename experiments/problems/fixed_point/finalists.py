"""What a search ends with, compiled and measured on the simulated device: predictions beside measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kilotune.codegen.emit.floats import emit_float_c
from kilotune.evaluators.device import Device
from kilotune.evaluators.divergence import DivergenceError
from kilotune.evaluators.on_device import (
    DeviceMeasurement,
    fastest_that_fits,
    measure_artefact,
    measure_checked,
    missing_tools,
)
from kilotune.evaluators.simulated import DeviceError, of_emitted
from kilotune.experiments.problems.fixed_point.export import emit_program
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.problems.problem import Problem
from kilotune.search.space import Assignment, Trial

FLOAT_SAMPLES = 5
"""Floats take the same time for every sample, but for the exponentials."""

SAMPLES = 60
"""Training samples whose outputs are compared bit for bit."""


@dataclass(frozen=True)
class Finalist:
    """A candidate on the device, at the request's level (`measured`), which is what is exported, and at all that were built.

    Where it was not measured, `reason` says why, in a sentence.
    """

    device: Device
    predicted_cycles: float | None
    measured: DeviceMeasurement | None
    levels: tuple[DeviceMeasurement, ...]
    reason: str | None

    @property
    def better(self) -> DeviceMeasurement | None:
        """At another level, what fits the device and is faster, or fits where `measured` does not; None if nothing does."""
        if not self.levels:
            return None
        best, held = fastest_that_fits(self.levels), self.measured
        return best if best.fits and (held is None or not held.fits or best.cycles < held.cycles) else None

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
            else {**found.metrics(), "level": found.level, "samples": found.samples, "fits": found.fits},
            "levels": {m.level: m.metrics() for m in self.levels},
            "reason": self.reason,
        }


def measure_float(problem: ModelProblem) -> DeviceMeasurement | None:
    """The float build of the same program on the device: what fixed point is compared with. None without a device or its
    tools, and where the device has no room for it."""
    device = problem.options.board
    if device is None or missing_tools(device) is not None:
        return None
    artefact = of_emitted(emit_float_c(problem.bundle.program, problem.bundle.parameters))
    features = problem.space.task.features[:FLOAT_SAMPLES].astype(np.float32)
    try:
        return measure_artefact(device, artefact, features, f"-{problem.options.level}")
    except DeviceError:
        return None


def measure_finalist(problem: Problem, trial: Trial, levels: tuple[str, ...] = ()) -> Finalist | None:
    """The trial's program on the device that was asked for, at the request's level first; None without a device.

    DivergenceError when the device computes something else than the search measured.
    """
    device = problem.options.board if isinstance(problem, ModelProblem) else None
    if device is None or not isinstance(problem, ModelProblem):
        return None
    predicted = trial.measurement.metrics.get("cycles")
    missing = missing_tools(device)
    if missing is not None:
        return Finalist(device, predicted, None, (), missing)
    found: list[DeviceMeasurement] = []
    reason = None
    wanted = f"-{problem.options.level}"
    for level in (wanted, *(other for other in levels if other != wanted)):
        try:
            found.append(_measure(problem, device, trial.assignment, level))
        except DivergenceError:
            raise
        except DeviceError as error:
            reason = reason or str(error)
    measured = next((m for m in found if m.level == wanted), None)
    return Finalist(device, predicted, measured, tuple(found), reason if measured is None else None)


def _measure(problem: ModelProblem, device: Device, assignment: Assignment, level: str) -> DeviceMeasurement:
    batch = problem.lower(assignment)
    features = problem.space.task.features[:SAMPLES]
    expected = np.asarray(problem.space.evaluator.simulator.run(batch)[0][:SAMPLES])
    source = emit_program(problem, batch)
    return measure_checked(device, source, batch, problem.bundle.parameters, features, expected, level)
