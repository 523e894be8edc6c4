"""The spaces `seedot` and `shiftry` at the front door: from a model bundle to a problem, and from a candidate to its program."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.cost_model import Timing
from kilotune.evaluators.device import Device
from kilotune.evaluators.devices import cost_table, device_from_json
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Metrics, Task
from kilotune.experiments.models.catalogue import DEFAULT_MODEL, model_names, model_path
from kilotune.experiments.problems.family import Asked
from kilotune.experiments.studies.request import TuneRequest, stored_fields, whole_bytes
from kilotune.search.space import Assignment, Trial
from kilotune.search.suggestion import did_you_mean
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace

ACCUMULATORS = MappingProxyType({"auto": Accumulator.DOUBLE, "16": Accumulator.NARROW, "32": Accumulator.WIDE})
"""By the width that --accumulator-bits says."""


@dataclass(frozen=True)
class ModelOptions:
    """What the command line says of a fixed-point program. `device`: as `evaluators.devices.Device.as_json` writes it."""

    flash_limit_bytes: int | None = None
    ram_limit_bytes: int | None = None
    accuracy_drop: float = 2.0
    permitted_loss: float = 0.1
    rounding: str = Rounding.TOWARD_ZERO.value
    accumulator: str = Accumulator.DOUBLE.value
    in_place: bool = True
    level: str = "Os"
    device: Mapping[str, Any] | None = None
    cycles_limit: float | None = None
    latency_limit_ms: float | None = None
    objective: str = "memory"

    @property
    def board(self) -> Device | None:
        """The device that the program is for."""
        return None if self.device is None else device_from_json(self.device, "the stored device")

    @property
    def timing(self) -> Timing | None:
        """What predicts cycles on the device; None without one, or without a table for it."""
        board = self.board
        table = None if board is None else cost_table(board)
        return None if board is None or table is None else Timing(table, board.clock_hz)


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
        """The folder must be new, empty, or of an earlier export."""
        from kilotune.experiments.problems.fixed_point.export import check_export

        check_export(self, folder)

    @property
    def options(self) -> ModelOptions:
        """What was asked."""
        return stored_fields(ModelOptions, self.request.options, "request")

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """The program in C, for the host; see `experiments.export`."""
        return self.export_for(trial, folder, "c", None)

    def export_for(self, trial: Trial, folder: Path, target: str, level: str | None) -> dict[str, str]:
        """The program as a project for a target; see `experiments.export`."""
        from kilotune.experiments.problems.fixed_point.export import export_program

        return export_program(self, trial, folder, target, level)

    def lower(self, assignment: Assignment) -> FixedBatch:
        """The fixed-point program of a candidate."""
        return self.space.lower(assignment) if isinstance(self.space, SeeDotSpace) else self.space.lower([assignment])

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """A candidate on the test data, which no search sees; None without test data."""
        test = self._test_evaluator()
        return None if test is None else test.measure(self.lower(assignment))[0]

    def float_metrics(self) -> dict[str, Metrics]:
        """The float model on the training and the test data."""
        result = {"train": self.space.evaluator.float_metrics}
        test = self._test_evaluator()
        if test is not None:
            result["test"] = test.float_metrics
        return result

    def _test_evaluator(self) -> FixedPointEvaluator | None:
        if self.bundle.test is None:
            return None
        return self.space.evaluator.on(_task(self.bundle, self.bundle.test))


def resolve_input(text: str | None) -> Path:
    """A folder, or the name of a bundled model. InputError when it is neither."""
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
        found=f"neither{did_you_mean(text, input_names())}",
    )


def input_names() -> tuple[str, ...]:
    """The bundled models."""
    return model_names()


def read_options(space: str, asked: Asked) -> dict[str, Any]:
    """`ModelOptions` as JSON. ValueError for one that cannot be used."""
    given, limits = dict(asked.given), asked.limits
    if not all(math.isfinite(given.get(name, 0.0)) for name in ("accuracy_drop", "permitted_loss")):
        raise ValueError("--drop and --loss: expected finite numbers.")
    bits = given.pop("accumulator_bits", "auto")
    options = ModelOptions(
        **given,
        accumulator=ACCUMULATORS[bits].value,
        flash_limit_bytes=whole_bytes(limits.get("flash")),
        ram_limit_bytes=whole_bytes(limits.get("ram")),
        cycles_limit=limits.get("cycles"),
        latency_limit_ms=limits.get("latency"),
        device=asked.device,
        objective=asked.objective or "memory",
    )
    return dataclasses.asdict(options)


def build_problem(request: TuneRequest) -> ModelProblem:
    """Load the model and make the space. InputError for a model that cannot be used."""
    options = stored_fields(ModelOptions, request.options, "request")
    bundle = load_bundle(Path(request.input))
    task = _task(bundle, bundle.train)
    decided: dict[str, Any] = {
        "flash_limit_bytes": options.flash_limit_bytes,
        "ram_limit_bytes": options.ram_limit_bytes,
        "rounding": Rounding(options.rounding),
        "accumulator": Accumulator(options.accumulator),
        "in_place": options.in_place,
        "timing": options.timing,
        "cycles_limit": options.cycles_limit,
        "latency_limit_ms": options.latency_limit_ms,
        "fastest": options.objective == "latency",
    }
    if request.space == "seedot":
        return ModelProblem(request, bundle, SeeDotSpace(task, SeeDotOptions(**decided)))
    losses: dict[str, Any] = {"accuracy_drop": options.accuracy_drop, "permitted_loss": options.permitted_loss}
    return ModelProblem(request, bundle, ShiftrySpace(task, ShiftryOptions(**decided, **losses)))


def _task(bundle: Bundle, data: Dataset | None) -> Task:
    if data is None:  # a program of constants only: one run on no features
        return Task(bundle.program, bundle.parameters, np.zeros((1, 0)), None)
    return Task(bundle.program, bundle.parameters, data.features, data.targets.astype(np.float64))
