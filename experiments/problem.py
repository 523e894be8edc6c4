"""From a request to a space with its data: the one place that knows which space is built from what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.project import refuse_foreign
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.cost_model import Timing
from kilotune.evaluators.devices import Device
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Metrics, Task
from kilotune.experiments.memory_problem import build_placement_problem, resolve_instance
from kilotune.experiments.models.catalogue import DEFAULT_MODEL, model_names, model_path
from kilotune.experiments.request import TuneRequest
from kilotune.search.space import Assignment, Space, Trial
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.space import ShiftryOptions, ShiftrySpace

SPACES = {
    "seedot": "bitwidth, maxscale and exponential tables of a whole program (SeeDot, PLDI 2019)",
    "shiftry": "bitwidth and scale of every variable (Shiftry, OOPSLA 2020)",
    "memory": "the address of every buffer in RAM (Shiftry, Section 7)",
}


class Problem(Protocol):
    """A space with its data, and what the front door wants to know about it besides."""

    @property
    def request(self) -> TuneRequest:
        """What was asked."""

    @property
    def space(self) -> Space:
        """The decision problem."""

    @property
    def name(self) -> str:
        """Of the model or the instance, for people."""

    @property
    def size(self) -> int | None:
        """Number of candidates, where it is known."""

    @property
    def measured_by(self) -> str:
        """What runs the candidates."""

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """A candidate on data that no search sees; None where there are none."""

    def float_metrics(self) -> dict[str, Metrics]:
        """The exact model, by part of the data; empty where there is none."""

    def certificate(self) -> dict[str, Any] | None:
        """Why no candidate can beat the space's own bound, as JSON; None where that has no short proof."""

    def check_output(self, folder: Path) -> None:
        """ValueError when `export` would refuse that folder: to be known before a search, not after it."""

    def export(self, trial: Trial, folder: Path, target: str = "c", level: str | None = None) -> dict[str, str]:
        """Write what a candidate is for into `folder`; the paths written, by what they are."""


@dataclass(frozen=True)
class ModelProblem:
    """A space, the model that it decides about, and what the float model reaches."""

    request: TuneRequest
    bundle: Bundle
    space: SeeDotSpace | ShiftrySpace

    @property
    def name(self) -> str:
        """The model's."""
        return self.bundle.name

    @property
    def size(self) -> int | None:
        """Number of candidates."""
        return self.space.size()

    @property
    def measured_by(self) -> str:
        """The simulator."""
        return self.space.evaluator.simulator.description

    def certificate(self) -> None:
        """None: bounds of programs come from a search."""

    def check_output(self, folder: Path) -> None:
        """A folder that holds something else than an exported program is left alone."""
        refuse_foreign(folder)

    def export(self, trial: Trial, folder: Path, target: str = "c", level: str | None = None) -> dict[str, str]:
        """The program in C; see `experiments.export`."""
        from kilotune.experiments.export import export_program

        return export_program(self, trial, folder, target, level)

    def lower(self, assignment: Assignment) -> FixedBatch:
        """The fixed-point program of a candidate."""
        return self.space.lower(assignment) if isinstance(self.space, SeeDotSpace) else self.space.lower([assignment])

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """A candidate on the test data, which no search sees; None without test data."""
        if self.bundle.test is None:
            return None
        return FixedPointEvaluator(_task(self.bundle, self.bundle.test)).measure(self.lower(assignment))[0]

    def float_metrics(self) -> dict[str, Metrics]:
        """The float model on the training and the test data."""
        result = {"train": self.space.evaluator.float_metrics}
        if self.bundle.test is not None:
            result["test"] = FixedPointEvaluator(_task(self.bundle, self.bundle.test)).float_metrics
        return result


def resolve_input(text: str | None, space: str = "") -> Path:
    """A folder, or the name of a bundled model; for `memory` a CSV file. InputError when it is neither."""
    if space == "memory":
        return resolve_instance(text)
    if text is None:
        return model_path(DEFAULT_MODEL)
    path = Path(text)
    if path.exists():
        return path.resolve()
    if text in model_names():
        return model_path(text)
    raise InputError(
        text,
        expected=f"a folder with model.sd, or one of the bundled models {', '.join(model_names())}",
        found="neither",
    )


def build_problem(request: TuneRequest) -> Problem:
    """Load the model and make the space. InputError for a model that cannot be used, ValueError for an unknown space."""
    if request.space == "memory":
        return build_placement_problem(request)
    bundle = load_bundle(Path(request.input))
    task = _task(bundle, bundle.train)
    if request.space == "seedot":
        seedot = SeeDotOptions(
            flash_limit_bytes=request.flash_limit_bytes,
            ram_limit_bytes=request.ram_limit_bytes,
            rounding=Rounding(request.rounding or SeeDotOptions().rounding.value),
            accumulator=Accumulator(request.accumulator),
            timing=_timing(request),
            cycles_limit=request.cycles_limit,
            latency_limit_ms=request.latency_limit_ms,
            fastest=request.objective == "latency",
        )
        return ModelProblem(request, bundle, SeeDotSpace(task, seedot))
    if request.space == "shiftry":
        options = ShiftryOptions(
            flash_limit_bytes=request.flash_limit_bytes,
            ram_limit_bytes=request.ram_limit_bytes,
            accuracy_drop=request.accuracy_drop,
            permitted_loss=request.permitted_loss,
            rounding=Rounding(request.rounding or ShiftryOptions().rounding.value),
            accumulator=Accumulator(request.accumulator),
            timing=_timing(request),
            cycles_limit=request.cycles_limit,
            latency_limit_ms=request.latency_limit_ms,
            fastest=request.objective == "latency",
        )
        return ModelProblem(request, bundle, ShiftrySpace(task, options))
    raise ValueError(f"There is no space {request.space!r}; there are {', '.join(SPACES)}.")


def _timing(request: TuneRequest) -> Timing | None:
    """What predicts cycles on the device that was asked for; None without one, or without a table for it."""
    if request.device is None:
        return None
    device = Device(**request.device)
    table = device.costs()
    return None if table is None else Timing(table, device.clock_hz)


def _task(bundle: Bundle, data: Dataset | None) -> Task:
    if data is None:  # a program of constants only: one run on no features
        return Task(bundle.program, bundle.parameters, np.zeros((1, 0)), None)
    return Task(bundle.program, bundle.parameters, data.features, data.targets.astype(np.float64))
