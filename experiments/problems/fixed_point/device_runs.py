"""Programs of a search, compiled and measured on the simulated device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kilotune.codegen.emit.floats import emit_float_c
from kilotune.evaluators.architectures.registry import code_shapes
from kilotune.evaluators.device import Device
from kilotune.evaluators.on_device import (
    DeviceMeasurement,
    measure_artefact,
    measure_checked,
    missing_tools,
)
from kilotune.evaluators.simulated import DeviceError, of_emitted
from kilotune.experiments.problems.device_check import DeviceCheck, check_builds
from kilotune.experiments.problems.fixed_point.build_choice import BuildChoice
from kilotune.experiments.problems.fixed_point.export import emit_for_device
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.search.space import Trial

FLOAT_SAMPLES = 5
"""Floats take the same time for every sample, but for the exponentials."""

SAMPLES, LEAST_SAMPLES = 60, 3
"""Training samples whose outputs are compared bit for bit: fewer of a program that takes long."""

MOST_CYCLES_RUN = 200_000_000
"""Cycles of all samples, by what is predicted: some seconds of simulation a build. A network of a hundred units takes 19 million each."""


def samples_on_device(trial: Trial) -> int:
    """How many samples its program is run on."""
    cycles = trial.measurement.metrics.get("cycles")
    return SAMPLES if not cycles else int(min(SAMPLES, max(LEAST_SAMPLES, MOST_CYCLES_RUN // cycles)))


def measure_float(problem: TunedModel) -> DeviceMeasurement | None:
    """The float build of the same program on the device: what fixed point is compared with. None without a device or its
    tools, where the device has no room for it, and of a quantised program, which has no floats."""
    device = problem.options.board
    if device is None or problem.options.keep_quantisation or missing_tools(device) is not None:
        return None
    artefact = of_emitted(emit_float_c(problem.bundle.program, problem.bundle.parameters))
    features = problem.space.task.features[:FLOAT_SAMPLES].astype(np.float32)
    try:
        found = measure_artefact(device, artefact, features, f"-{problem.level}")
    except DeviceError:
        return None
    return found if found.fits else None


def check_program(problem: TunedModel, trial: Trial, levels: tuple[str, ...] = ()) -> DeviceCheck | None:
    """The trial's program on the device that was asked for, at the problem's level and shape first, then at other
    `levels` and in other shapes if any is given; None without a device. Where it was left open how programs are built, what is `measured`
    is the best of these builds: of the levels first, then of the shapes at the level that is best.

    DivergenceError when the device computes something else than the search measured.
    """
    device, options = problem.options.board, problem.options
    if device is None:
        return None
    metrics = trial.measurement.metrics
    choice = BuildChoice(options, metrics)
    wanted, shape = f"-{problem.level}", problem.shape

    def checked(*builds: tuple[str, str]) -> DeviceCheck:
        made = check_builds(
            device, metrics.get("cycles"), builds, lambda build: _measure(problem, device, trial, build)
        )
        return replace(made, counted_ram_bytes=metrics.get("total_ram_bytes"))

    at_levels = checked((wanted, shape), *((other, shape) for other in levels if other != wanted))
    if not levels or missing_tools(device) is not None:
        return at_levels
    best = choice.best_level(at_levels.levels) if options.chooses_build else None
    in_shapes = checked(*((best or wanted, other) for other in code_shapes(device.processor) if other != shape))
    found = replace(at_levels, levels=(*at_levels.levels, *in_shapes.levels))
    return choice.made(found) if options.chooses_build else found


def _measure(problem: TunedModel, device: Device, trial: Trial, build: tuple[str, str]) -> DeviceMeasurement:
    level, shape = build
    batch, samples = problem.lower(trial.assignment), samples_on_device(trial)
    features = problem.space.task.features[:samples]
    expected = np.asarray(problem.space.evaluator.simulator.run(batch)[0][:samples])
    source = emit_for_device(problem, batch, shape)
    measured = measure_checked(device, source, batch, problem.bundle.parameters, features, expected, level)
    return replace(measured, shape=shape)
