"""From lowered candidates to metrics: run on a data set, compare with the float program and the labels, count bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.streaming import COUNTER_BYTES, streamed
from kilotune.codegen.emit.unpacking_size import UnpackingSize
from kilotune.codegen.fixed.footprint import Footprint, Refine
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.float_evaluator import FloatRun
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps
from kilotune.codegen.profile import Profiler
from kilotune.codegen.unit_pruning import FloatModel
from kilotune.evaluators.code_size import kinds_of
from kilotune.evaluators.cost_model import CostModel, Timing
from kilotune.evaluators.fixed_point.class_scores import ClassScore, KnownLabels, count_by_row
from kilotune.evaluators.fixed_point.compiled_steps import work_of
from kilotune.evaluators.fixed_point.counted_race import CountedRace
from kilotune.evaluators.fixed_point.fidelity import (
    expected_error,
    expected_flips,
    margin_errors,
    relative_margin_errors,
)
from kilotune.evaluators.fixed_point.first_fit import compiled_first_fit
from kilotune.evaluators.fixed_point.margins import Contest, MarginSums, float_contest
from kilotune.evaluators.fixed_point.race import LabelRace, by_candidate, censored
from kilotune.evaluators.fixed_point.sample_blocks import WORTH_RACING
from kilotune.evaluators.fixed_point.similar_inputs import inputs_for_margins
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from kilotune.search.fingerprint import fingerprint
from kilotune.search.racing import Hurdle
from kilotune.search.space import Measurement, Metrics

DerivedMetric = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""A metric [candidates] from arrays of the others, by name."""

NO_METRICS: Mapping[str, DerivedMetric] = MappingProxyType({})

SEMANTICS = 4
"""Version of what fixed-point programs compute and how they are measured; part of every fingerprint. 2: `expected_flips` and
`expected_error` are measured, by which spaces rank; 3: features beyond the range of the input are its ends, not wrapped around; 4: flips
are expected by the margins of inputs like the training samples, not by those of these samples themselves."""

NON_ZEROS_COUNTED = 1
"""Added for programs with sparse matrices, of whose products only those of non-zeros count as executed."""


@dataclass(frozen=True)
class Task:
    """A program with its data: `features` [samples, features]; `targets` [samples]: labels, real targets, or None; `score`: what the
    accuracy of a classifier is counted in; `streaming`: on the device it is called with a frame of its input at a time; `overwritten`: it
    asks for the sample, which lies among its temporaries; `whole`: the model that it was made of by leaving units out, which it is compared
    with; None where that is the program itself."""

    program: ir.Program
    parameters: Mapping[str, FloatArray]
    features: FloatArray
    targets: npt.NDArray[np.float64] | None
    score: ClassScore = ClassScore.ACCURACY
    streaming: bool = False
    overwritten: bool = False
    whole: FloatModel | None = None

    @property
    def compared_with(self) -> FloatModel:
        """The float program that a candidate is expected to agree with."""
        return self.whole or FloatModel(self.program, self.parameters)

    def input_bytes(self, bits: IntArray) -> IntArray:
        """RAM [N] that the input takes on the device, of candidates with `bits` [N] for it: the sample; in frames, one of them and their
        count; nothing beside the temporaries where it is one of them. ValueError, a sentence, for a streaming program that is no loop over
        frames."""
        return self._values_held * bits // 8 + COUNTER_BYTES * self.streaming

    @cached_property
    def _values_held(self) -> int:
        if self.streaming:
            return streamed(self.program, pushed=True)[1].features
        given = None if self.overwritten else self.program.input
        return given.size if given else 0

    @property
    def expected_results(self) -> npt.NDArray[np.float64] | None:
        """The targets, where they are what the program is to return: of several results a sample they are not."""
        return self.targets if self.program.result.size == 1 else None

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the program, its parameters and the data, wherever they were read from."""
        used = {name: self.parameters[name] for name in sorted(self.parameters)}
        scores = [] if self.score is ClassScore.ACCURACY else [self.score.value]
        streams = [*(["streaming"] if self.streaming else []), *(["overwritten"] if self.overwritten else [])]
        whole = [] if self.whole is None else [self.whole.program, dict(sorted(self.whole.parameters.items()))]
        parts = (self.program, used, self.features, self.expected_results, *scores, *streams, *whole)
        semantics = SEMANTICS + NON_ZEROS_COUNTED * any(variable.sparse for variable in self.program.variables)
        return fingerprint("fixed-point task", semantics, *parts)


def precision_metric(program: ir.Program) -> str:
    """The metric, a loss, that says how precise candidates of a program are, also on inputs that were not measured."""
    return "expected_flips" if program.result_kind is ir.ResultKind.CLASS else "expected_error"


MARGIN_ERROR = "margin_error"
"""How far a classifier's margins are off, as a share of the float program's: what is left to tell candidates apart that flip nothing."""

MOST_MEASURED_BYTES = 512 << 20
"""How much candidates that are measured together may need for themselves."""


class FixedPointEvaluator:
    """Measures candidates of one program on one data set.

    Metrics of a classifier: `accuracy_percent`, and the task's score where that is another one; `disagreements` with the float
    program, and `disagreements_where_right`, counting only samples that the float program classifies correctly; `expected_flips`, how
    many disagreements there would be on
    other samples of the kind (`fidelity`); with `margin_errors` also `margin_error`. Of a numerical model: `precision_loss`, the
    largest absolute difference from the float outputs (Shiftry Section 3), `expected_error`, their root mean square with its
    uncertainty (`fidelity`), and `mean_absolute_error` against the targets where there are any, of a program with one
    result. Of both: `flash_bytes`,
    `ram_bytes`, `memory_bytes` (their sum), `input_bytes` (`Task.input_bytes`, which no other metric has), `demoted` (8-bit
    variables), and executed `multiplies_W` and `adds_W` by width, of sparse matrices those of non-zeros. With `timing` also `cycles` and
    `latency_ms`, as its cost table predicts them, `linked_bytes` where it knows what code takes, and those
    that `derived` computes from them. `in_place` lets results overwrite
    operands that die, `refine` improves placements (`codegen.fixed.footprint`). `profiler` observes the run of the float program.
    `trained_on`: whether the model was trained on this data, so that its margins there are wider than on new samples: then flips are
    expected by the margins of inputs that are like the samples (`similar_inputs`).
    """

    def __init__(
        self,
        task: Task,
        backend: Backend = Backend.AUTO,
        in_place: bool = True,
        refine: Refine | None = None,
        timing: Timing | None = None,
        derived: Mapping[str, DerivedMetric] = NO_METRICS,
        *,
        margin_errors: bool = False,
        profiler: Profiler | None = None,
        trained_on: bool = True,
    ) -> None:
        self.task = task
        self._backend = backend
        self.timing, self._derived = timing, dict(derived)
        self._asked_for_margin_errors = margin_errors
        self._costs = None
        if timing is not None:
            self._costs = CostModel(task.program, task.parameters, timing.table, timing.shape)
        simulator = Simulator(task.program, task.parameters, task.features, backend)
        observe = None if profiler is None else profiler.observe
        float_run, self._contest = float_contest(task.program, task.parameters, task.features, simulator.steps, observe)
        if task.whole is not None:
            float_run, self._contest = _of_whole_model(task.whole, task.features, self._contest)
        if trained_on and self._contest is not None:
            self._contest = _seen_from_outside(self._contest, task, simulator.steps)
        self.float_outputs = float_run.outputs
        self.simulator = simulator.of_contest(self._contest)
        placing, steps = compiled_first_fit, simulator.steps
        self.footprint = Footprint(
            task.program, task.parameters, in_place, refine, placing, steps, with_input=task.overwritten
        )
        self.unpacking = UnpackingSize(task.program)
        names = [v.name for v in task.program.variables]
        given = task.program.input
        self._input = names.index(given.name) if given else 0
        self._result = names.index(task.program.result.variable)
        self._scored = 0 if self._contest is None else names.index(self._contest.variable)
        labels = ir.label_variables(task.program)
        self._scaled = np.array([name not in labels for name in names], dtype=np.int64)

    def on(self, task: Task, *, margin_errors: bool = False) -> FixedPointEvaluator:
        """An evaluator of this program on other data, which the model was not trained on."""
        return FixedPointEvaluator(
            replace(task, overwritten=self.task.overwritten, whole=self.task.whole),
            self._backend,
            self.footprint.in_place,
            self.footprint.refine,
            margin_errors=margin_errors,
            trained_on=False,
        )

    @property
    def float_margins(self) -> FloatArray | None:
        """By how much the float program's class beats its rival [samples] (`margins`); None where nothing is contested."""
        return None if self._contest is None else self._contest.margins

    def afresh(self) -> FixedPointEvaluator:
        """One that measures the same, and keeps what it makes of candidates' data for itself: it goes when that one goes."""
        made = copy.copy(self)
        made.simulator = self.simulator.of_contest(self._contest)
        return made

    @property
    def float_metrics(self) -> Metrics:
        """What the float program itself reaches on this data set."""
        if self._classifies:
            assert self.task.targets is not None
            labels = self.float_outputs[:, 0].astype(np.int64)[None]
            return {name: float(values[0]) for name, values in self._scores(labels).items()}
        wanted = self.task.expected_results
        if wanted is None:
            return {}
        return {"mean_absolute_error": float(np.abs(self.float_outputs[:, 0] - wanted).mean())}

    def measure(self, batch: FixedBatch) -> list[Metrics]:
        """Metrics of every candidate of the batch, in order."""
        parts = batch.parts(self._most_together)
        if len(parts) > 1:
            return [metrics for part in parts for metrics in self.measure(part)]
        quality = self._class_quality(batch) if self._classifies else self._numerical_quality(batch)
        return by_candidate(self._with_derived(quality | self._costs_of(batch)))

    def measure_against(self, batch: FixedBatch, hurdle: Hurdle) -> list[Measurement]:
        """As `measure`, but candidates of a classifier that are out by `hurdle` before their last sample are censored there."""
        parts = batch.parts(self._most_together)
        if len(parts) > 1:
            return [measurement for part in parts for measurement in self.measure_against(part, hurdle)]
        targets, scales = self.task.targets, batch.scales[:, self._scored].tolist()
        races = self._classifies and self.simulator.own_work(batch) >= WORTH_RACING
        counts = self._classifies and hurdle.is_last and self.simulator.counts_labels(batch)
        if targets is None or not (races or counts):
            return [Measurement(metrics) for metrics in self.measure(batch)]
        costs = self._costs_of(batch)
        least = dict.fromkeys((MARGIN_ERROR,) if self.shows_margin_errors else (), np.zeros(len(batch)))
        exact = self._with_derived(costs | least)
        running = self.simulator.prepare(batch) if races else None
        if running is not None:
            tails = self.simulator.least_tail_sums
            race = LabelRace(self.float_outputs[:, 0], targets, self.task.score, self._contest, tails)
            out = race.run(running, scales, by_candidate(exact), hurdle)
        else:
            running, out = self._counted_race.run(self.simulator, batch, exact, hurdle)
        left = [i for i in range(len(batch)) if i not in out]
        measured: dict[int, Metrics] = {}
        if left:
            outputs, sums = running.outputs_of(left), running.margin_sums(left)
            columns = self._label_quality(outputs, sums, [scales[i] for i in left])
            columns |= costs if not out else {name: column.take(left) for name, column in costs.items()}
            measured = dict(zip(left, by_candidate(self._with_derived(columns)), strict=True))
        samples = len(self.task.features)
        return [Measurement(measured[i]) if i in measured else censored(*out[i], samples) for i in range(len(batch))]

    @cached_property
    def may_race(self) -> bool:
        """Whether `measure_against` ever censors a candidate."""
        return self.may_look or (self._classifies and self.simulator.may_count_labels)

    @cached_property
    def may_look(self) -> bool:
        """Whether it does so behind hurdles that are not the last: not where a whole one is less work than what is worth racing."""
        work = len(self.task.features) * work_of(self.simulator.steps.body)
        return self._classifies and work >= WORTH_RACING

    @property
    def additive_error(self) -> str:
        """The metric that is nearest to a root mean square, whose squares add up where errors do not depend on one another. For
        classifiers it takes `margin_errors`."""
        if not self._classifies:
            return "expected_error"
        return MARGIN_ERROR if self.shows_margin_errors else "expected_flips"

    @property
    def shows_margin_errors(self) -> bool:
        """Whether candidates have `margin_error`: it was asked for, and there are margins."""
        return self._asked_for_margin_errors and self._contest is not None

    def costs(self, batch: FixedBatch) -> list[Metrics]:
        """What is known of every candidate before it meets a sample, derived metrics included."""
        return by_candidate(self._with_derived(self._costs_of(batch)))

    def code_kinds(self, batch: FixedBatch) -> IntArray:
        """How much code of each of `code_size.KINDS` candidates have [candidates, kinds]. ValueError without `timing`."""
        if self._costs is None:
            raise ValueError("Without a device's cost table it is not known what code does.")
        return kinds_of(self._costs.terms(batch))

    def _costs_of(self, batch: FixedBatch) -> dict[str, np.ndarray]:
        """What is known of candidates before they meet a sample."""
        bits = batch.bits.astype(np.int64)
        flash = self.footprint.flash_bytes(batch.stored_bits, self.footprint.table_bytes(batch))
        if batch.encodings:
            flash += self.footprint.beside_bytes(batch) + self.unpacking.code_bytes(batch)
        scratch = self.footprint.scratch_bytes(batch)
        if self._costs is not None:
            scratch = np.maximum(scratch, self._costs.scratch_bytes(batch))
        ram = self.footprint.ram_bytes(bits) + scratch
        columns = {
            "flash_bytes": flash,
            "ram_bytes": ram,
            "memory_bytes": flash + ram,
            "input_bytes": self.task.input_bytes(bits[:, self._input]),
            "demoted": (bits == 8) @ self._scaled,
            **self.footprint.operation_counts(batch),
        }
        if self.timing is not None and self._costs is not None:
            terms = self._costs.terms(batch)
            cycles = np.rint(self._costs.cycles_of(terms))
            columns |= {"cycles": cycles, "latency_ms": 1000.0 * cycles / self.timing.clock_hz}
            if self.timing.code is not None:
                columns["linked_bytes"] = flash + self.timing.code.code_bytes(self.task.program, bits, kinds_of(terms))
        return columns

    def _with_derived(self, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return columns | {name: computed(columns) for name, computed in self._derived.items()}

    @property
    def _most_together(self) -> int:
        """How many candidates memory has room for, with features in the format of each, outputs, and their differences."""
        samples, features = (int(extent) for extent in self.task.features.shape)
        return max(1, MOST_MEASURED_BYTES // (2 * samples * features + 4 * 8 * samples * self.task.program.result.size))

    def _class_quality(self, batch: FixedBatch) -> dict[str, np.ndarray]:
        scales = batch.scales[:, self._scored].tolist()
        if self._contest is None:
            return self._label_quality(self.simulator.run(batch), [], scales)
        return self._label_quality(*self.simulator.run_contest(batch), scales)

    def _label_quality(
        self, outputs: npt.NDArray[np.signedinteger], sums: Sequence[MarginSums], scales: Sequence[int]
    ) -> dict[str, np.ndarray]:
        """The metrics of outputs [candidates, samples, 1], the contest's sums, if there is one, and the scales of the scores."""
        labels, known = outputs[:, :, 0], self._known_labels
        wrong = labels != known.of_float
        disagreements = count_by_row(wrong)
        flips, further = disagreements.astype(np.float64), {}
        if self._contest is not None:
            errors = [margin_errors(self._contest, *pair) for pair in zip(sums, scales, strict=True)]
            flips = expected_flips(self.simulator.tail_sums(errors), disagreements)
            if self.shows_margin_errors:
                further[MARGIN_ERROR] = relative_margin_errors(self._contest, errors)
        return {
            **further,
            **self._scores(labels),
            "disagreements": disagreements,
            "disagreements_where_right": count_by_row(wrong & known.float_is_right),
            "expected_flips": flips,
        }

    def _scores(self, labels: npt.NDArray[np.signedinteger]) -> dict[str, np.ndarray]:
        """Accuracy, and what is asked for instead of it."""
        scores = dict.fromkeys((ClassScore.ACCURACY, self.task.score))
        return {score.metric: score.percent(labels, self._known_labels.targets) for score in scores}

    @cached_property
    def _known_labels(self) -> KnownLabels:
        assert self.task.targets is not None
        return KnownLabels.of(self.float_outputs[:, 0], self.task.targets)

    @cached_property
    def _counted_race(self) -> CountedRace:
        return CountedRace(self._known_labels, self.task.score)

    def _numerical_quality(self, batch: FixedBatch) -> dict[str, np.ndarray]:
        values = _reals(self.simulator.run(batch), batch, self._result)
        errors = values - self.float_outputs[None]
        quality = {"precision_loss": np.abs(errors).max(axis=(1, 2)), "expected_error": expected_error(errors)}
        if self.task.expected_results is not None:
            quality["mean_absolute_error"] = np.abs(values[:, :, 0] - self.task.expected_results).mean(axis=1)
        return quality

    @property
    def _classifies(self) -> bool:
        return self.task.program.result_kind is ir.ResultKind.CLASS


def _of_whole_model(whole: FloatModel, features: FloatArray, own: Contest | None) -> tuple[FloatRun, Contest | None]:
    """The run of the model that a program was made of, and its contest as the program decides it, whose scores are the same elements.
    `own`: the program's own contest."""
    run, contest = float_contest(whole.program, whole.parameters, features, loop_steps(whole.program))
    if contest is None or own is None:
        return run, contest
    return run, replace(contest, step=own.step, variable=own.variable)


def _seen_from_outside(contest: Contest, task: Task, steps: LoopedSteps) -> Contest:
    """The contest with the margins of inputs that the model was not trained on."""
    inputs, compared = inputs_for_margins(task.features, steps.elements_touched), task.compared_with
    steps = steps if task.whole is None else loop_steps(compared.program)
    with np.errstate(all="ignore"):  # noise may bring a program where no sample does; such margins count as wide
        unseen = float_contest(compared.program, compared.parameters, inputs, steps)[1]
    return contest if unseen is None else replace(contest, unseen=unseen.margins)


def _reals(integers: IntArray, batch: FixedBatch, column: int) -> FloatArray:
    """What integers [candidates, ...] stand for at each candidate's scale of the variable in that column."""
    scales = batch.scales[:, column].astype(np.float64)
    return np.asarray(integers / np.exp2(scales).reshape(-1, *[1] * (integers.ndim - 1)))
