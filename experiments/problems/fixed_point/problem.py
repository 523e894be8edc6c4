"""The spaces `seedot` and `shiftry` at the front door: from a model bundle to a problem, and from a candidate to its program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kilotune.codegen.bundle import Bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.equalisation import equalised
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.language.parser import LIBRARIES
from kilotune.codegen.relative_exponents import relative_where_lost
from kilotune.evaluators.architectures.registry import project_target
from kilotune.evaluators.code_size import CodeSize
from kilotune.evaluators.constraint_solver import LIBRARY
from kilotune.evaluators.device import Device
from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Task
from kilotune.evaluators.on_device import DeviceMeasurement
from kilotune.experiments.models.catalogue import model_names, resolve_model
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.fixed_point.device_runs import check_program, measure_float
from kilotune.experiments.problems.fixed_point.export import check_export, export_program
from kilotune.experiments.problems.fixed_point.frames import as_given
from kilotune.experiments.problems.fixed_point.holding_out import hold_out, too_few
from kilotune.experiments.problems.fixed_point.largest_arrays import flash_limit, limit_on_arrays
from kilotune.experiments.problems.fixed_point.linking import FormatsKnowingCode, linked_flash_bytes
from kilotune.experiments.problems.fixed_point.model import (
    ANY,
    ModelOptions,
    TunedModel,
    TunedSpace,
    task_of,
)
from kilotune.experiments.problems.fixed_point.new_samples import flips_advised, room_left
from kilotune.experiments.problems.fixed_point.options import LIMIT_OPTIONS
from kilotune.experiments.problems.fixed_point.options import command_options as command_options
from kilotune.experiments.problems.fixed_point.options import read_options as read_options
from kilotune.experiments.problems.fixed_point.profiling import profile_program
from kilotune.experiments.problems.fixed_point.source import check_size, is_trained_model, load_source
from kilotune.experiments.problems.program_profile import ProgramProfile
from kilotune.experiments.requests.request import TuneRequest, stored_fields, whole_bytes
from kilotune.search.space import Assignment, Metrics, Trial
from kilotune.spaces.limits import FixedPointOptions
from kilotune.spaces.objectives import DEFAULT, LINKED
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, ROUNDED, TRAINED, FittedSpace, is_trained
from kilotune.spaces.shiftry.models_in_turns import WHOLE_FIRST
from kilotune.spaces.shiftry.program_decisions import ROUNDING
from kilotune.spaces.shiftry.pruned_models import can_be_smaller
from kilotune.spaces.shiftry.pruned_space import ALL, UNITS, PrunedSpace
from kilotune.spaces.shiftry.quantised_space import QuantisedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace

COMPILED = (
    "kilotune.evaluators.fixed_point.kernel:load_kernel()",
    "kilotune.evaluators.fixed_point.first_fit:load_first_fit()",
)
"""What loads the C code of a search, compiled once a machine."""

OF_ALL_ROUNDINGS = "kilotune.evaluators.fixed_point.kernel:load_all_roundings()"
"""What loads it for all roundings, where programs do not round as the papers' do."""

OF_32_BITS = "kilotune.evaluators.fixed_point.kernel:load_wide_kernel()"
"""What loads it for programs that have 32 bits somewhere."""


@dataclass(frozen=True)
class ModelProblem(TunedModel):
    """A space, the model that it decides about, and what the float model reaches. `held_out`: training samples that the space does not
    see. `equalised_channels`: of the model's parameters, which are those that the space has; None where that was not asked for.
    `without_scores`: of how many training samples all exponentials would be 0, were they not taken relative to the largest one."""

    held_out: Dataset | None = None
    equalised_channels: int | None = None
    without_scores: int = 0

    @property
    def name(self) -> str:
        """The model's."""
        return self.bundle.name

    @property
    def measured_by(self) -> str:
        """The simulator."""
        return self.space.evaluator.simulator.description

    @property
    def device(self) -> Device | None:
        """The board that the program is for."""
        return self.options.board

    @property
    def linked_limit_bytes(self) -> int | None:
        """The limit on the flash of the whole program."""
        return whole_bytes(self.options.further_limits.get(LINKED))

    def linked_bytes(self, trial: Trial) -> int:
        """Flash of the trial's whole program, as it is linked for the device."""
        return linked_flash_bytes(self.of_candidate(trial.assignment), trial.assignment)

    @property
    def may_limit_linked(self) -> bool:
        """Whether the search decides formats, by which the estimate of linked bytes goes."""
        return self.request.space == "shiftry" and not self.options.keep_quantisation

    def within_linked(self, limit_bytes: int) -> ModelProblem:
        """This problem, with whole programs of at most so many bytes: what code takes near them is learnt anew."""
        limits = dict(self.options.further_limits) | {LINKED: limit_bytes}
        options = dict(self.request.options) | {"further_limits": limits}
        return build_problem(dataclasses.replace(self.request, options=options))

    def within_memory(self, limit_bytes: int) -> ModelProblem:
        """This problem, for the most precise program of at most so many bytes of flash and RAM together."""
        limits = dict(self.options.further_limits) | {DEFAULT: limit_bytes}
        options = dict(self.request.options) | {"further_limits": limits}
        return build_problem(dataclasses.replace(self.request, options=options))

    @property
    def finishes_finalists(self) -> bool:
        """Whether codes may be fitted."""
        return self.options.fitted

    def check_output(self, folder: Path) -> None:
        """The folder must be new, empty, or of an earlier export."""
        check_export(self, folder, project_target(self.usual_target))

    @property
    def usual_target(self) -> str:
        """C for the host; with --streaming called with a frame at a time, with --overwrite-input asking for the sample."""
        return "c-steps" if self.options.streaming else "c-frames" if self.options.overwrite_input else "c"

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """The program in C, for the host."""
        own = self.of_candidate(trial.assignment)
        return export_program(own, trial, folder, self.usual_target, None, profile_program(own, trial, measured=False))

    def export_for(self, trial: Trial, folder: Path, target: str, level: str | None) -> dict[str, str]:
        """The program as a project for a target; see `export_program`."""
        own = self.of_candidate(trial.assignment)
        given = own.given_input(project_target(target).input_way)
        return export_program(own, trial, folder, target, level, given.layer_profile(trial, level))

    def layer_profile(self, trial: Trial, level: str | None, measured: bool = True) -> ProgramProfile:
        """See `profile_program`."""
        return profile_program(self.of_candidate(trial.assignment).at_level(level), trial, measured)

    def details(self, trial: Trial) -> dict[str, Any]:
        """How the program divides, how much room for new samples is stated, and how many channels were equalised, where that was asked
        for."""
        equalised = {} if self.equalised_channels is None else {"equalised_channels": self.equalised_channels}
        room = room_left(self, trial, self.held_out)
        return {"rounding": self._rounding(trial), **({} if room is None else room.as_json()), **equalised}

    def lines(self, trial: Trial) -> list[str]:
        """How the program divides, where that was decided, what errors are counted in, where that is not the real values' unit, whether
        too few samples were left to the search, whether new samples may lose more than training samples, and what became of what was
        asked for: units left out, codes fitted, channels equalised.
        """
        lines = [f"Divisions round: {self._rounding(trial)}."] if ROUNDING in trial.assignment else []
        room, flips = room_left(self, trial, self.held_out), flips_advised(self, trial)
        lines += [said for said in (self._too_few_samples(), flips, room.sentence() if room else None) if said]
        lines += [self._relative_exponents()] if self.without_scores else []
        lines += [self._units_left(trial)] if self.options.pruned else []
        lines += [_codes_of(self.options, trial)] if self.options.fitted or self.options.trained else []
        grid = self.bundle.result_grid
        if grid is not None:
            lines.append(f"Errors are counted in steps of the file's results; a step is {grid.step:g}.")
        if self.equalised_channels is not None:
            lines.append(
                f"Channels equalised: {self.equalised_channels}."
                if self.equalised_channels
                else "Channels equalised: none, as between two layers there is always a function that does not scale along."
            )
        return lines

    def _too_few_samples(self) -> str | None:
        if self.held_out is None:
            return None
        counts = self.sample_counts()
        return too_few(self.options.validation, counts["train"], counts["validation"], self.bundle.class_count)

    def _relative_exponents(self) -> str:
        count = len(self.space.task.features)
        return (
            "Exponents are less the largest of a sample, which multiplies all scores by one number: of"
            f" {self.without_scores} of {count} training samples all exponentials were 0 in 16 bits."
        )

    def _units_left(self, trial: Trial) -> str:
        left = str(trial.assignment.get(UNITS, ALL))
        if left != ALL:
            return f"Units left: {left}."
        if not can_be_smaller(self.bundle.program):
            return "Units left: all, as this model has no hidden units or choices that may be left out."
        needed = "front" if self.options.front else "refine"
        if self.request.strategy != needed:
            return f"Units left: all, as the strategy {self.request.strategy} leaves none out; {needed} does."
        behind = (
            f"{WHOLE_FIRST} candidates of the whole one" if self.options.front else "the whole one's first candidates"
        )
        return f"Units left: all; no smaller model that was tried is better. They are tried after {behind}."

    def _rounding(self, trial: Trial) -> str:
        return str(trial.assignment.get(ROUNDING, self.options.rounding))

    def check_on_device(self, trial: Trial, levels: tuple[str, ...] = ()) -> DeviceCheck | None:
        """The trial's program on the board that was asked for; see `check_program`."""
        return check_program(self.of_candidate(trial.assignment), trial, levels)

    def float_on_device(self) -> DeviceMeasurement | None:
        """The float build of the same program there; see `measure_float`."""
        return measure_float(self)

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """A candidate on the test data, which no search sees; None without test data."""
        return self._measured_on(self.bundle.test, assignment)

    def validation_metrics(self, candidates: Sequence[Assignment]) -> list[Metrics] | None:
        """Candidates on the training samples that were held out of the search; None where none were."""
        measured = [self._measured_on(self.held_out, candidate) for candidate in candidates]
        return None if self.held_out is None else [metrics for metrics in measured if metrics is not None]

    def _measured_on(self, data: Dataset | None, candidate: Assignment) -> Metrics | None:
        own = self.of_candidate(candidate)
        evaluator = own._evaluator(data)
        return None if evaluator is None else evaluator.measure(own.lower(candidate))[0]

    def float_metrics(self) -> dict[str, Metrics]:
        """The float model on the training samples of the search, those held out of it, and the test data."""
        others = {"validation": self._evaluator(self.held_out), "test": self._evaluator(self.bundle.test)}
        measured = {part: evaluator.float_metrics for part, evaluator in others.items() if evaluator is not None}
        return {"train": self.space.evaluator.float_metrics, **measured}

    def sample_counts(self) -> dict[str, int]:
        """Samples by part of the data."""
        parts = {"validation": self.held_out, "test": self.bundle.test}
        others = {part: len(data.features) for part, data in parts.items() if data is not None}
        return {"train": len(self.space.task.features), **others}

    def _evaluator(self, data: Dataset | None) -> FixedPointEvaluator | None:
        return None if data is None else self.space.evaluator.on(task_of(self.bundle, data, self.space.task.score))


def _codes_of(options: ModelOptions, trial: Trial) -> str:
    codes = trial.assignment.get(CODES, ROUNDED)
    if is_trained(trial.assignment):
        return f"Codes of weights: {codes} with the labels, so classes need not be the float model's."
    if codes == FITTED:
        return "Codes of weights: fitted, so that margins between classes are nearest to the float model's."
    if not options.fitted:
        return "Codes of weights: rounded; trained ones were not better, or there was no time to train them."
    return "Codes of weights: rounded; no fit was better, or the search had not settled at what to fit (more trials let it)."


def resolve_input(text: str | None) -> Path:
    """A folder, a file, or the name of a bundled model. InputError when it is none of them."""
    return resolve_model(text)


def input_names() -> tuple[str, ...]:
    """The bundled models."""
    return model_names()


def libraries(request: TuneRequest) -> tuple[str, ...]:
    """What reads a model, what executes candidates, and the solver that places variables within a limit on RAM."""
    named = (*(("onnx", "tflite") if is_trained_model(Path(request.input)) else LIBRARIES), *COMPILED)
    if request.options.get("rounding", Rounding.TOWARD_ZERO.value) != Rounding.TOWARD_ZERO.value:
        named = (*named, OF_ALL_ROUNDINGS)
    if request.space == SeeDotSpace.name or request.options.get("wide"):
        named = (*named, OF_32_BITS)
    return named if request.options.get("ram_limit_bytes") is None else (*named, LIBRARY)


def build_problem(request: TuneRequest) -> ModelProblem:
    """Load the model and make the space. InputError for a model that cannot be used."""
    return build_telling(request, lambda _: None)


def build_telling(request: TuneRequest, tell: Callable[[str], None]) -> ModelProblem:
    """As `build_problem`; `tell` is told how far it has come where that takes its time."""
    options = stored_fields(ModelOptions, request.options, "request")
    check_size(Path(request.input), options.board, options.narrow or options.codebook)
    bundle = load_source(
        Path(request.input),
        options.data,
        options.label,
        options.returns,
        keep_quantisation=options.keep_quantisation,
    )
    if options.trained and bundle.train is not None and not bundle.train.labelled:
        raise ValueError(
            f"--trained: expected samples with labels, found none in {options.data}: the model's own classes teach it nothing."
        )
    bundle = as_given(bundle, options)
    channels = None
    if options.equalise:
        balanced = equalised(bundle.program, bundle.parameters)
        bundle, channels = dataclasses.replace(bundle, parameters=balanced.parameters), balanced.channels
    searched, held_out = _parts(bundle, options.validation, request.seed)
    score = ClassScore(options.metric)
    if score is not ClassScore.ACCURACY and bundle.class_count is None:
        raise ValueError(
            f"--metric {score.value}: expected a model that returns a class, found one that returns numbers."
        )
    given = {"streaming": options.streaming, "overwritten": options.overwrite_input}
    task = task_of(bundle, searched, score, **given)
    program, without_scores = relative_where_lost(task.program, task.parameters, task.features)
    bundle, task = dataclasses.replace(bundle, program=program), dataclasses.replace(task, program=program)
    space = _space_on_device(request, bundle, task, options, tell)
    return ModelProblem(request, bundle, space, held_out, channels, without_scores)


def _space_on_device(
    request: TuneRequest, bundle: Bundle, task: Task, options: ModelOptions, tell: Callable[[str], None]
) -> TunedSpace:
    """The space, which knows what code takes on the device where that is asked for: some candidates are linked. InputError where they
    cannot be."""
    if request.space == SeeDotSpace.name or options.keep_quantisation:
        return _file_or_seedot_space(request.space, task, options)
    if not options.asks_for_linked:
        formats_of = partial(_formats, options=options)
        return PrunedSpace(formats_of(task), formats_of) if options.pruned else formats_of(task)
    knowing = FormatsKnowingCode.learnt(request, bundle, task, options, _formats, tell)
    whole = knowing.whole(task)
    return PrunedSpace(whole, knowing.smaller) if options.pruned else whole


def _file_or_seedot_space(name: str, task: Task, options: ModelOptions) -> SeeDotSpace | QuantisedSpace:
    """The space seedot, or that of a file whose integers are kept."""
    decided = _decided(task, options, None)
    if options.keep_quantisation:
        return QuantisedSpace(task, FixedPointOptions(**decided))
    return SeeDotSpace(
        task, SeeDotOptions(**decided, permitted_drop=options.seedot_drop, permitted_loss=options.seedot_loss)
    )


def _decided(task: Task, options: ModelOptions, code: CodeSize | None) -> dict[str, Any]:
    """What was asked of any space, as fields of `FixedPointOptions`. `code`: what code takes on the device. InputError for a parameter
    that the device's compiler allows in no format."""
    timing = options.timing
    return {
        **{option: getattr(options, option) for option in LIMIT_OPTIONS.values()},
        "flash_limit_bytes": flash_limit(task, options),
        "further_limits": options.further_limits,
        "rounding": Rounding.TOWARD_ZERO if options.rounding == ANY else Rounding(options.rounding),
        "accumulator": Accumulator.DOUBLE if options.accumulator == ANY else Accumulator(options.accumulator),
        "in_place": options.in_place,
        "timing": timing if timing is None else dataclasses.replace(timing, code=code),
        "objective": options.objective,
        "most_array_bytes": limit_on_arrays(task, options),
    }


def _formats(task: Task, options: ModelOptions, code: CodeSize | None = None) -> ShiftrySpace | FittedSpace:
    """The space shiftry of a task's formats with what was asked. `code`: as `_decided`."""
    decided = _decided(task, options, code)
    decided |= {"any_rounding": options.rounding == ANY, "any_accumulator": options.accumulator == ANY}
    own = (
        "accuracy_drop",
        "permitted_loss",
        "permitted_flips",
        "narrow",
        "truer",
        "finer",
        "codebook",
        "offsets",
        "wide",
    )
    decided |= {option: getattr(options, option) for option in own} | {"front": tuple(options.front)}
    formats = ShiftrySpace(task, ShiftryOptions(**decided))
    ways = [way for way, asked in ((FITTED, options.fitted), (TRAINED, options.trained)) if asked]
    return FittedSpace(formats, ways) if ways else formats


def _parts(bundle: Bundle, share: float, seed: int) -> tuple[Dataset | None, Dataset | None]:
    """The training samples that the search sees, and those that it does not. ValueError where there are too few."""
    if not share:
        return bundle.train, None
    if bundle.train is None:
        raise ValueError(
            f"--validation {share:g}: expected a model with training samples, found none in {bundle.name}."
        )
    return hold_out(bundle.train, share, seed, bundle.class_count is not None)
