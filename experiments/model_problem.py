"""The spaces `seedot` and `shiftry` at the front door: from a model bundle to a problem, and from a candidate to its program."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.project import refuse_foreign
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Metrics, Task
from kilotune.experiments.models.catalogue import DEFAULT_MODEL, model_names, model_path
from kilotune.experiments.request import TuneRequest, whole_bytes
from kilotune.search.space import Assignment, Trial
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.space import ShiftryOptions, ShiftrySpace


@dataclass(frozen=True)
class ModelOptions:
    """What the command line says of a fixed-point program; limits are in bytes."""

    flash_limit_bytes: int | None = None
    ram_limit_bytes: int | None = None
    accuracy_drop: float = 2.0
    permitted_loss: float = 0.1
    rounding: str = Rounding.TOWARD_ZERO.value
    accumulator: str = Accumulator.DOUBLE.value
    in_place: bool = True


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

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """The program in C; see `experiments.export`."""
        from kilotune.experiments.export import export_program

        return export_program(self, trial, folder)

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
        found="neither",
    )


def read_options(space: str, given: Mapping[str, Any], limits: Mapping[str, float]) -> dict[str, Any]:
    """`ModelOptions` as JSON. ValueError for one that cannot be used."""
    if not all(math.isfinite(given.get(name, 0.0)) for name in ("accuracy_drop", "permitted_loss")):
        raise ValueError("--drop and --loss: expected finite numbers.")
    if space == "seedot" and "accumulator" in given:
        raise ValueError("--accumulator is for the space shiftry.")
    options = ModelOptions(
        flash_limit_bytes=whole_bytes(limits.get("flash")), ram_limit_bytes=whole_bytes(limits.get("ram")), **given
    )
    return dataclasses.asdict(options)


def build_problem(request: TuneRequest) -> ModelProblem:
    """Load the model and make the space. InputError for a model that cannot be used."""
    options = ModelOptions(**request.options)
    bundle = load_bundle(Path(request.input))
    task = _task(bundle, bundle.train)
    rounding = Rounding(options.rounding)
    if request.space == "seedot":
        limits = (options.flash_limit_bytes, options.ram_limit_bytes)
        seedot = SeeDotOptions(*limits, rounding=rounding, in_place=options.in_place)
        return ModelProblem(request, bundle, SeeDotSpace(task, seedot))
    shiftry = ShiftryOptions(
        flash_limit_bytes=options.flash_limit_bytes,
        ram_limit_bytes=options.ram_limit_bytes,
        accuracy_drop=options.accuracy_drop,
        permitted_loss=options.permitted_loss,
        rounding=rounding,
        accumulator=Accumulator(options.accumulator),
        in_place=options.in_place,
    )
    return ModelProblem(request, bundle, ShiftrySpace(task, shiftry))


def _task(bundle: Bundle, data: Dataset | None) -> Task:
    if data is None:  # a program of constants only: one run on no features
        return Task(bundle.program, bundle.parameters, np.zeros((1, 0)), None)
    return Task(bundle.program, bundle.parameters, data.features, data.targets.astype(np.float64))
