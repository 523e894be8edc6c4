"""The space `forest` at the front door: from a file with tree ensembles to a problem, and from a candidate to its program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.feature_quantiser import ranker_bytes
from kilotune.codegen.emit.levels import LEVELS
from kilotune.codegen.emit.project import DECISIONS, project_files, project_names
from kilotune.codegen.emit.shape import PLAIN
from kilotune.codegen.emit.targets.recording import Recording
from kilotune.codegen.forest.emission import emit_forest
from kilotune.codegen.forest.importing import read_forest
from kilotune.codegen.forest.integers import Given
from kilotune.codegen.forest.model import Forest
from kilotune.codegen.trained.importing import class_places
from kilotune.codegen.trained.samples import SamplePart, read_samples
from kilotune.evaluators.architectures.registry import architecture_of, project_target
from kilotune.evaluators.device import Device
from kilotune.evaluators.devices import device_from_json
from kilotune.evaluators.divergence import DivergenceError
from kilotune.evaluators.on_device import DeviceMeasurement, measure_artefact
from kilotune.evaluators.simulated import of_emitted
from kilotune.experiments.artefacts.folder import ArtefactFolder
from kilotune.experiments.artefacts.inputs import files_read
from kilotune.experiments.models.catalogue import forest_names, forest_path, forest_samples
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.device_check import DeviceCheck, check_builds
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.requests.request import TuneRequest, stored_fields
from kilotune.search.space import Assignment, Metrics, Trial
from kilotune.search.suggestion import did_you_mean
from kilotune.spaces.forest.space import ForestOptions, ForestSpace, ForestTask, quality

RECORDED_SAMPLES = 100
"""Inputs that the exported main.c runs, from the test data where there are any."""

DEVICE_SAMPLES = 60
"""Training samples whose outputs are compared bit for bit."""

METRICS = {
    "flash": "flash_bytes",
    "ram": "ram_bytes",
    "total-ram": "total_ram_bytes",
    "cycles": "cycles",
    "latency": "latency_ms",
}
"""By what --limit calls them."""


@dataclass(frozen=True)
class TreeOptions:
    """What the command line says of decision trees. `data`: an absolute path; `limits`: on metrics; `device`: as
    `evaluators.devices.Device.as_json` writes it."""

    data: str | None = None
    label: str | None = None
    level: str = LEVELS[0]
    objective: str = "flash"
    limits: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] | None = None

    @property
    def board(self) -> Device | None:
        """The device that the program is for."""
        return None if self.device is None else device_from_json(self.device, "the stored device")


@dataclass(frozen=True)
class ForestProblem:
    """A forest, its samples, and the space of its programs. `test`: samples that no search sees."""

    request: TuneRequest
    space: ForestSpace
    test: ForestTask | None

    @property
    def name(self) -> str:
        """The file's, with how many trees it has."""
        return f"{self.space.task.forest.name} ({counted(len(self.space.task.forest.trees), 'tree')})"

    @property
    def measured_by(self) -> str:
        """The integers, executed; and the cost model."""
        return "all samples in integers; bytes and cycles by a cost model"

    @cached_property
    def options(self) -> TreeOptions:
        """What was asked."""
        return stored_fields(TreeOptions, self.request.options, "request")

    @property
    def device(self) -> Device | None:
        """The board that the program is for."""
        return self.options.board

    def check_output(self, folder: Path) -> None:
        """The folder must be new, empty, or of an earlier export."""
        self._folder(folder).check(project_names(project_target("c"), folder.absolute().name))

    @property
    def usual_target(self) -> str:
        """C for the host."""
        return "c"

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """The program in C, for the host."""
        return self.export_for(trial, folder, self.usual_target, None)

    def export_for(self, trial: Trial, folder: Path, target: str, level: str | None) -> dict[str, str]:
        """The program as a project for a target, with recorded samples."""
        plan, kind = self.space.plan(trial.assignment), project_target(target)
        inputs = plan.forest.quantise((self.test or self.space.task).features[:RECORDED_SAMPLES])
        recording = Recording(inputs, plan.forest.outputs(inputs))
        decided = {
            "space": self.request.space,
            "model": self.space.task.forest.name,
            "classes": list(self.space.task.forest.classes),
            "assignment": dict(trial.assignment),
            "metrics": dict(trial.measurement.metrics),
        }
        name = folder.absolute().name
        files = project_files(name, emit_forest(plan), recording, decided, kind, level or self.options.level)
        self._folder(folder).write(files)
        parts = {**kind.parts, "decisions": DECISIONS}
        return {what: str(folder / path.format(folder=name)) for what, path in parts.items()}

    def _folder(self, folder: Path) -> ArtefactFolder:
        return ArtefactFolder(folder, files_read(self.request), alone=True)

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """A candidate on the test data, which no search sees; None without test data."""
        return None if self.test is None else quality(self.space.plan(assignment).forest, self.test)

    def float_metrics(self) -> dict[str, Metrics]:
        """The trees in 32-bit floats."""
        tasks = {"train": self.space.task, **({} if self.test is None else {"test": self.test})}
        return {part: _float_quality(task) for part, task in tasks.items()}

    def details(self, trial: Trial) -> dict[str, Any]:
        """Bytes of the thresholds by which `model_feature` makes ranks of real features; 0 where they are multiples of a power of two."""
        forest = self.space.plan(trial.assignment).forest
        ranked = forest.features.given is Given.RANK
        return {"rank_bytes": ranker_bytes(forest.source.feature_count, forest.thresholds) if ranked else 0}

    def lines(self, trial: Trial) -> list[str]:
        """What the program's figures on a device leave out: what makes ranks of real features."""
        held = self.details(trial)["rank_bytes"]
        if not held:
            return []
        return [
            f"Features are ranks: model_feature, which makes them of real numbers, keeps thresholds of {held} bytes in flash. "
            "The predicted flash counts them; what is measured on a device is predict alone, which is given ranks."
        ]

    def sample_counts(self) -> dict[str, int]:
        """Samples by part of the data."""
        others = {} if self.test is None else {"test": len(self.test.features)}
        return {"train": len(self.space.task.features), **others}

    def float_on_device(self) -> DeviceMeasurement | None:
        """Nothing compares with trees in floats."""
        return None

    def check_on_device(self, trial: Trial, levels: tuple[str, ...] = ()) -> DeviceCheck | None:
        """The trial's program on the device that was asked for, at the request's level first; None without a device."""
        device = self.device
        if device is None:
            return None
        predicted = trial.measurement.metrics.get("cycles")
        wanted = f"-{self.options.level}"
        builds = [(level, PLAIN) for level in (wanted, *(other for other in levels if other != wanted))]
        return check_builds(device, predicted, builds, lambda build: self._measured(trial.assignment, device, build[0]))

    def _measured(self, assignment: Assignment, device: Device, level: str) -> DeviceMeasurement:
        plan = self.space.plan(assignment)
        inputs = plan.forest.quantise(self.space.task.features[:DEVICE_SAMPLES])
        artefact = of_emitted(emit_forest(plan))
        found = measure_artefact(device, artefact, inputs.astype(artefact.input_type), level)
        wrong = np.flatnonzero((found.run.outputs != plan.forest.outputs(inputs)).any(axis=1))
        if len(wrong):
            raise DivergenceError(f"Sample {wrong[0]} has another result on {device.name} than in the search.")
        return found


def _float_quality(task: ForestTask) -> Metrics:
    if task.forest.class_count is None:
        scores = task.forest.scores(task.features)
        values = scores if task.targets is None else task.targets.reshape(len(scores), -1)
        return {"mean_absolute_error": float(np.abs(scores - values).mean())}
    labels = task.forest.labels(task.features)
    wrong = 0 if task.targets is None else int((labels != task.targets).sum())
    return {"accuracy_percent": 100.0 * (1 - wrong / len(labels)), "disagreements": 0.0}


def resolve_input(text: str | None) -> Path:
    """An ONNX file, or that of a bundled forest by its name. InputError when it is neither."""
    path = Path(text or "")
    if text is not None and not path.exists() and text in forest_names():
        return forest_path(text)
    if text is None or not path.is_file():
        found = (
            "none"
            if text is None
            else "a folder"
            if path.is_dir()
            else f"no such file{did_you_mean(text, forest_names())}"
        )
        bundled = ", ".join(forest_names())
        expected = f"an ONNX file of a tree ensemble, or the bundled {bundled}"
        raise InputError(text or "--input", expected=expected, found=found)
    return path.resolve()


def input_names() -> tuple[str, ...]:
    """The bundled forests."""
    return forest_names()


def read_options(space: str, asked: CommandOptions) -> dict[str, Any]:
    """`TreeOptions` as JSON. ValueError for one that cannot be used."""
    if set(asked.limits) - set(METRICS):
        raise ValueError(f"The space {space} keeps every class: expected limits on {', '.join(METRICS)}.")
    timed = [name for name in ("cycles", "latency") if name in asked.limits]
    if timed and asked.device is None:
        raise ValueError(f"--limit {timed[0]} depends on the processor: expected --device too, found none.")
    limits = {METRICS[name]: amount for name, amount in asked.limits.items()}
    if asked.device is not None:
        limits.setdefault("total_ram_bytes", asked.device["ram_bytes"])
    data = asked.given.get("data")
    given = {**asked.given, **({} if data is None else {"data": str(Path(data).resolve())})}
    options = TreeOptions(**given, objective=asked.objective or "flash", limits=limits, device=asked.device)
    return dataclasses.asdict(options)


def command_options(options: Mapping[str, Any]) -> CommandOptions:
    """What `read_options` has read, under the command's names."""
    names = {metric: name for name, metric in METRICS.items()}
    limits = {names[metric]: amount for metric, amount in options.get("limits", {}).items()}
    given = {name: value for name, value in options.items() if name not in ("limits", "objective", "device")}
    return CommandOptions(given, limits, options.get("objective"), options.get("device"))


def libraries(request: TuneRequest) -> tuple[str, ...]:
    """What reads a model."""
    return ("onnx",)


def build_problem(request: TuneRequest) -> ForestProblem:
    """Load the trees and their samples, and make the space. InputError for files that cannot be used."""
    options = stored_fields(TreeOptions, request.options, "request")
    data = forest_samples(Path(request.input)) if options.data is None else Path(options.data)
    if data is None:
        expected = "--data FILE with samples for it (.npz with X and y, .npy or .csv)"
        raise InputError(request.input, expected=expected, found="a model without any")
    forest = read_forest(Path(request.input))
    samples = read_samples(data, (1, forest.feature_count), options.label)
    train = _task(forest, samples.train, data)
    test = None if samples.test is None else _task(forest, samples.test, data)
    metric = {"flash": "flash_bytes", "latency": "cycles"}[options.objective]
    board = options.board
    processor = "avr" if board is None else architecture_of(board.processor).name
    clock = {} if board is None else {"clock_hz": board.clock_hz}
    limits = {name: float(amount) for name, amount in options.limits.items()}
    return ForestProblem(request, ForestSpace(train, ForestOptions(metric, limits, processor, **clock)), test)


def _task(forest: Forest, part: SamplePart, path: Path) -> ForestTask:
    """The samples as 32-bit floats, as runtimes take them, with their targets."""
    features = part.features.astype(np.float32).astype(np.float64)
    targets = part.targets
    if targets is not None and forest.class_count is not None:
        targets = class_places(part, forest.classes, forest.class_count, path).astype(np.float64)
    return ForestTask(forest, features, targets)
