"""A model bundle with a space over its formats, and the options that were asked: what a fixed-point problem consists of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from kilotune.codegen.bundle import Bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.emit.levels import LEVELS
from kilotune.codegen.emit.shape import AUTO, COMPACT, PLAIN, SHAPES
from kilotune.codegen.emit.targets.target import ASKS, HANDED, STEPPED
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.registry import code_shapes
from kilotune.evaluators.cost_model import Timing
from kilotune.evaluators.device import Device
from kilotune.evaluators.devices import cost_table, device_from_json
from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.evaluators.fixed_point.fewest_flips import FewestFlips, fewest_flips
from kilotune.evaluators.fixed_point.fresh_inputs import (
    Finalist,
    PairedFlips,
    paired_errors,
    paired_flips,
    sample_errors,
)
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.requests.request import TuneRequest, stored_fields
from kilotune.search.space import Assignment, Trial
from kilotune.spaces.objectives import DEFAULT, LINKED
from kilotune.spaces.seedot.space import SeeDotSpace
from kilotune.spaces.shiftry.fitted_space import CODES, TRAINED, FittedSpace, is_trained
from kilotune.spaces.shiftry.pruned_models import PrunedModel
from kilotune.spaces.shiftry.pruned_space import ALL, UNITS, PrunedSpace
from kilotune.spaces.shiftry.quantised_space import QuantisedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace

ACCUMULATORS = MappingProxyType({"auto": Accumulator.DOUBLE, "16": Accumulator.NARROW, "32": Accumulator.WIDE})
"""By the width that --accumulator-bits says."""

ANY = "any"
"""What --rounding and --accumulator-bits say where the search decides, which begins with what the papers have; and --level and --shape
where the best program is built in several ways and the best of these is taken."""

FASTEST = "latency"
"""The objective that asks for the fastest code shape too."""


@dataclass(frozen=True)
class ModelOptions:
    """What the command line says of a fixed-point program. `device`: as `evaluators.devices.Device.as_json` writes it;
    `validation`: the share of the training samples that the search does not see. `narrow`, `truer`, `finer`, `codebook`, `offsets`, `wide`
    and `front`: as `ShiftryOptions` has them; `fitted` and `trained`: whether codes may be fitted, and those of what is delivered trained
    (`FittedSpace`); `equalise`: whether
    layers are balanced first (`codegen.equalisation`); `pruned`: whether units of layers may be left out (`PrunedSpace`); studies from
    before they were there
    have none of them. `seedot_drop` and `seedot_loss`: what --drop and --loss say to seedot, which has no permitted loss of its own;
    None where they say nothing. `data` (an absolute path), `label` and `returns`: of a model of another tool, see `fixed_point.source`.
    `metric`: what accuracy is counted in, of `ClassScore`. `streaming`: the program is called with a frame of its input at a time;
    `hop`: and then goes on, with a result after so many further frames. `overwrite_input`: the sample lies among the temporaries.
    `keep_quantisation`: of a quantised file the integers are kept (`codegen.ir.requantisation`)."""

    flash_limit_bytes: int | None = None
    ram_limit_bytes: int | None = None
    accuracy_drop: float = 2.0
    permitted_loss: float = 0.1
    rounding: str = Rounding.TOWARD_ZERO.value
    accumulator: str = Accumulator.DOUBLE.value
    in_place: bool = True
    level: str = "Os"
    shape: str = AUTO
    device: Mapping[str, Any] | None = None
    cycles_limit: float | None = None
    latency_limit_ms: float | None = None
    objective: str = DEFAULT
    further_limits: Mapping[str, Any] = field(default_factory=dict)
    validation: float = 0.0
    permitted_flips: float | None = None
    narrow: bool = False
    truer: bool = False
    finer: bool = False
    codebook: bool = False
    offsets: bool = False
    wide: bool = False
    fitted: bool = False
    trained: bool = False
    equalise: bool = False
    pruned: bool = False
    seedot_drop: float | None = None
    seedot_loss: float | None = None
    front: tuple[str, ...] = ()
    data: str | None = None
    label: str | None = None
    returns: str | None = None
    metric: str = ClassScore.ACCURACY.value
    streaming: bool = False
    keep_quantisation: bool = False
    hop: int = 0
    overwrite_input: bool = False

    @property
    def board(self) -> Device | None:
        """The device that the program is for."""
        return None if self.device is None else device_from_json(self.device, "the stored device")

    @property
    def input_way(self) -> str:
        """How the search's programs get their input, in words of `codegen.emit.targets.target`."""
        return STEPPED if self.streaming else ASKS if self.overwrite_input else HANDED

    @property
    def asks_for_linked(self) -> bool:
        """Whether the flash of whole programs is limited, or what a front is against."""
        return LINKED in self.further_limits or LINKED in self.front

    @property
    def timing(self) -> Timing | None:
        """What predicts cycles on the device; None without one, or without a table for it."""
        board = self.board
        table = None if board is None else cost_table(board)
        shape = SHAPES[self.shape_name]
        return None if board is None or table is None else Timing(table, board.clock_hz, shape)

    @property
    def shape_name(self) -> str:
        """How the inner loops of its programs are written, and where that is chosen in the end, how the search takes them to be: a name of
        `SHAPES`. Of the fastest code where time is minimised; where the build is chosen also where it is limited, and of the smallest, if
        the processor may gain by that, where linked flash is what is asked about."""
        if self.shape not in (AUTO, ANY):
            return self.shape
        known = () if self.board is None else code_shapes(self.board.processor)
        if known and (self.objective == FASTEST or (self.shape == ANY and self.limits_time)):
            return known[0]
        return COMPACT if COMPACT in known and self.shape == ANY and self.asks_for_linked else PLAIN

    @property
    def limits_time(self) -> bool:
        """Whether there is a limit on cycles or time, or what a front is against."""
        limited = self.cycles_limit is not None or self.latency_limit_ms is not None
        return limited or not {"cycles", "latency"}.isdisjoint(self.front)

    @property
    def level_name(self) -> str:
        """At which -O level of the device's compiler programs are built before any other: a name of `LEVELS`."""
        return LEVELS[0] if self.level == ANY else self.level

    @property
    def chooses_build(self) -> bool:
        """Whether programs are built in several ways, of which the best is taken."""
        return self.board is not None and ANY in (self.level, self.shape)


TunedSpace = SeeDotSpace | ShiftrySpace | FittedSpace | PrunedSpace | QuantisedSpace


@dataclass(frozen=True)
class TunedModel:
    """A space, and the model that it decides about. `check`: a run of the candidate to be exported on the device, where there was one.
    `exported_way`: how exported programs get their input, where that is another way than the search's (`ModelOptions.input_way`).
    `built_level`, `built_shape`: how programs are built, where that is not as the search takes them to be. `pruned`: what was left out of
    the model, where that is a smaller one."""

    request: TuneRequest
    bundle: Bundle
    space: TunedSpace
    check: DeviceCheck | None = field(default=None, kw_only=True)
    exported_way: str | None = field(default=None, kw_only=True)
    built_level: str | None = field(default=None, kw_only=True)
    built_shape: str | None = field(default=None, kw_only=True)
    pruned: PrunedModel | None = field(default=None, kw_only=True)

    def knowing_run(self, check: DeviceCheck | None) -> Self:
        """This problem, whose exports state what the device made of the candidate."""
        return dataclasses.replace(self, check=check)

    def at_level(self, level: str | None) -> Self:
        """This problem with programs built at that level (such as `Os`), or at its own."""
        return self if level is None else dataclasses.replace(self, built_level=level, check=None)

    def shaped(self, shape: str) -> Self:
        """This problem with the inner loops of its programs written in that shape."""
        return dataclasses.replace(self, built_shape=shape, check=None)

    @property
    def chooses_build(self) -> bool:
        """Whether of each program the best of several builds is taken."""
        return self.options.chooses_build

    def built(self, level: str, shape: str) -> Self:
        """This problem, with programs of that -O level and code shape."""
        return self.at_level(level).shaped(shape)

    @property
    def level(self) -> str:
        """The -O level at which its programs are built."""
        return self.built_level or self.options.level_name

    @property
    def shape(self) -> str:
        """How the inner loops of its programs are written, a name of `SHAPES`."""
        return self.built_shape or self.options.shape_name

    @property
    def timing(self) -> Timing | None:
        """What predicts cycles of its programs in their shape; None without a device or a table for it."""
        timing = self.options.timing
        return None if timing is None else dataclasses.replace(timing, shape=SHAPES[self.shape])

    def given_input(self, way: str) -> Self:
        """This problem, whose programs get their input in that way."""
        if way == self.input_way:
            return self
        return dataclasses.replace(self, exported_way=way, check=None)

    @property
    def input_way(self) -> str:
        """How its programs get their input."""
        return self.exported_way or self.options.input_way

    @property
    def options(self) -> ModelOptions:
        """What was asked."""
        return stored_fields(ModelOptions, self.request.options, "request")

    def of_candidate(self, assignment: Assignment) -> Self:
        """The problem of the model that a candidate has: this one, or a smaller one."""
        if not isinstance(self.space, PrunedSpace):
            return self
        space = self.space.of_candidate(assignment)
        bundle = dataclasses.replace(self.bundle, program=space.task.program, parameters=space.task.parameters)
        option = assignment.get(UNITS, ALL)
        pruned = None if option == ALL else self.space.model_of(option)
        return dataclasses.replace(self, bundle=bundle, space=space, pruned=pruned)

    def lower(self, assignment: Assignment) -> FixedBatch:
        """The fixed-point program of a candidate."""
        return self.space.lower(assignment) if isinstance(self.space, SeeDotSpace) else self.space.lower([assignment])

    def paired_flips(self, first: Trial, second: Trial) -> PairedFlips | None:
        """Whose class two candidates change on the same made-up inputs (`evaluators.fixed_point.fresh_inputs`)."""
        return paired_flips(*map(self._finalist, (first, second)))

    def fewest_flips(self, trials: Sequence[Trial]) -> FewestFlips | None:
        """Which candidate is likely to change the fewest classes of new inputs (`evaluators.fixed_point.fewest_flips`)."""
        return fewest_flips([self._finalist(trial) for trial in trials], [t.metrics["expected_flips"] for t in trials])

    def paired_errors(self, first: Trial, second: Trial) -> PairedFlips | None:
        """To how many of the same made-up inputs two candidates give another class than the label of the sample that they are like."""
        return paired_errors(*map(self._finalist, (first, second)))

    def sample_errors(self, first: Trial, second: Trial) -> PairedFlips:
        """To how many training samples two candidates give another class than the label."""
        return sample_errors(*map(self._finalist, (first, second)))

    @property
    def trains_delivered(self) -> bool:
        """Whether codes of what is delivered may be trained."""
        return self.options.trained

    def trained(self, assignment: Assignment) -> Assignment:
        """The candidate of the same formats with trained codes."""
        return {**assignment, CODES: TRAINED}

    def is_trained(self, assignment: Assignment) -> bool:
        """Whether a candidate's codes are trained."""
        return is_trained(assignment)

    def trained_within(self, assignment: Assignment, seconds: float) -> Assignment:
        """See `FittedSpace.trained_within`."""
        return self._training_of(assignment).trained_within(assignment, seconds)

    def why_untrained(self, assignment: Assignment) -> str | None:
        """See `FittedSpace.why_untrained`."""
        return self._training_of(assignment).why_untrained(assignment)

    def unseen_errors(self, first: Trial, second: Trial) -> PairedFlips | None:
        """See `FittedSpace.unseen_errors`."""
        return self._training_of(second.assignment).unseen_errors(self.lower(first.assignment), second.assignment)

    def _training_of(self, assignment: Assignment) -> FittedSpace:
        space = self.of_candidate(assignment).space
        assert isinstance(space, FittedSpace)
        return space

    def _finalist(self, trial: Trial) -> Finalist:
        """Its program, and what measures it."""
        return Finalist(self.of_candidate(trial.assignment).space.evaluator, self.lower(trial.assignment))


def task_of(
    bundle: Bundle,
    data: Dataset | None,
    score: ClassScore = ClassScore.ACCURACY,
    *,
    streaming: bool = False,
    overwritten: bool = False,
) -> Task:
    """The bundle's program on one part of its data; `streaming` and `overwritten` as in `Task`."""
    program, parameters = bundle.program, bundle.parameters
    if data is None:  # a program of constants only: one run on no features
        return Task(program, parameters, np.zeros((1, 0)), None, streaming=streaming)
    targets = data.targets.astype(np.float64)
    return Task(program, parameters, data.features, targets, score, streaming, overwritten)
