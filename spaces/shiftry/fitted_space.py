"""Shiftry's problem with one more decision: whether the codes of weights are those that each is rounded to, fitted to the program, or
trained with the labels.

Fitting takes seconds for a candidate (`fitted_codes`), training some more (`trained_codes`), measuring one without either less than a
millisecond. So they are for a few good candidates: searches look at formats (the flat view), `refine` has those fitted that it settles at,
and what is delivered in the end may be trained.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.placement import PlacedVariables
from kilotune.codegen.profile import Profile
from kilotune.evaluators.executors.cache import EvaluationCache, code_version
from kilotune.evaluators.fixed_point.fresh_inputs import FreshInputs, PairedFlips, paired
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Task
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatState
from kilotune.search.front import Ranking
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Metrics, Objective, Option, Procedure
from kilotune.search.statistics import SIGNIFICANCE, sign_test_p
from kilotune.search.work_memory import WorkMemory
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_codes import CodeFitting, with_encodings
from kilotune.spaces.shiftry.fitted_front import Promising, search_fitted_front
from kilotune.spaces.shiftry.kept_codes import packed, unpacked
from kilotune.spaces.shiftry.known_candidates import FrontQuestion
from kilotune.spaces.shiftry.space import ShiftrySpace
from kilotune.spaces.shiftry.trained_codes import LEAST_STEPS, STEPS_OF_HALVES, CodeTraining, why_not_trained

CODES = "codes of weights"
"""The decision. No variable has a name with spaces."""

ROUNDED, FITTED, TRAINED = "rounded", "fitted", "trained"

SHORTER = MappingProxyType({f"{TRAINED} in {steps} steps": steps for steps in (4000, 2000, 1000, LEAST_STEPS)})
"""Trainings that take less time than a whole one, the longest first, and their steps. They are candidates of their own, so that a candidate
has the same codes whatever time there is when these are made again."""

SEMANTICS = 4
"""Version of how codes are fitted and what is then measured, part of the fingerprint. 2: codes go on from where
they end on either side of their weights; 3: flips are expected by what happens on inputs that they are not fitted to, too; 4: fitted are
the margins, on inputs with small ones, instead of the flips to be expected."""

TRAINING_SEMANTICS = 2
"""Version of how codes are trained, part of the fingerprint where they are. 2: where a trained candidate is less right than the float
model, single codes are moved."""


class FittedSpace:
    """Formats first, then whether codes are fitted or trained. A candidate that does not say so has rounded ones."""

    name = "shiftry"
    prefers_flat = True
    why_no_model = "of codes that are fitted or trained: leave --fitted and --trained out, or choose another strategy"

    def __init__(self, formats: ShiftrySpace, ways: Sequence[str] = (FITTED,)) -> None:
        """`formats`: the problem with rounded codes; `ways`: what else codes may be, of FITTED and TRAINED. ValueError where they cannot be
        trained."""
        reason = why_not_trained(formats.task) if TRAINED in ways else None
        if reason is not None:
            raise ValueError(
                f"--trained: expected a model whose codes can be trained, found {formats.task.program.name}: {reason}."
            )
        self.formats, self.ways = formats, tuple(ways)
        self._makers: Mapping[str, CodeFitting | CodeTraining] = {
            FITTED: CodeFitting(formats),
            TRAINED: CodeTraining(formats),
        }
        self._fresh = FreshInputs(formats.evaluator)
        self._known: dict[tuple[Option, ...], FixedBatch] = {}

    @property
    def work_memory(self) -> WorkMemory:
        """That of the flat view, which does the searching."""
        return self.formats.work_memory

    @work_memory.setter
    def work_memory(self, memory: WorkMemory) -> None:
        self.formats.work_memory = memory

    @property
    def task(self) -> Task:
        """The program and its data."""
        return self.formats.task

    @property
    def options(self) -> ShiftryOptions:
        """What was asked."""
        return self.formats.options

    @property
    def evaluator(self) -> FixedPointEvaluator:
        """What measures candidates."""
        return self.formats.evaluator

    @property
    def profile(self) -> Profile:
        """What the float program's values are like."""
        return self.formats.profile

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Those of the problem without fitting."""
        return self.formats.objectives

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Those of the problem without fitting."""
        return self.formats.constraints

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the task and the options."""
        trained = () if TRAINED not in self.ways else (self.ways, TRAINING_SEMANTICS)
        return fingerprint("shiftry with fitted codes", SEMANTICS, self.formats.fingerprint, *trained)

    def start(self) -> FlatState:
        """Nothing decided."""
        shorter = SHORTER if TRAINED in self.ways else ()
        decisions = (*self.formats.decisions, Decision(CODES, (ROUNDED, *self.ways, *shorter)))
        return FlatState(decisions, self.formats.least_loss)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a candidate in the order in which they were asked."""
        ordered = {decision.name: answers[decision.name] for decision in self.formats.decisions}
        return {**ordered, CODES: answers[CODES]} if CODES in answers else ordered

    def flat_view(self) -> ShiftrySpace:
        """The candidates with rounded codes."""
        return self.formats

    def finished(self, candidate: Assignment, measurement: Measurement) -> Assignment | None:
        """The candidate with fitted codes; None where none are, and for one that breaks a limit on what they do not change, by the
        measurement, which may know more of it than is estimated."""
        if FITTED not in self.ways:
            return None
        costs = self.costs([candidate])[0]
        costs = {name: measurement.metrics.get(name, cost) for name, cost in costs.items()}
        if any(limit.metric in costs and limit.violation(costs) > 0.0 for limit in self.constraints):
            return None
        return {**candidate, CODES: FITTED}

    def fallback(self) -> Assignment | None:
        """That of the candidates with rounded codes."""
        return self.formats.fallback()

    def procedure(self) -> Procedure:
        """The paper's, which rounds."""
        return self.formats.procedure()

    @property
    def reference_point(self) -> tuple[float, ...] | None:
        """That of the flat view."""
        return self.formats.reference_point

    def front_search(self, seed: int) -> Procedure:
        """The front of rounded candidates, and between them those fitted that promise most; see `spaces.shiftry.fitted_front`."""
        rounded = self.formats.front_search(seed)
        if FITTED not in self.ways:
            return rounded
        asked = FrontQuestion.whole(self.objectives, self.reference_point)
        known = Promising(Ranking.of(self), asked.reference)
        return search_fitted_front(known, rounded, lambda one: {**one, CODES: FITTED}, self.candidates_a_fit)

    @property
    def candidates_a_fit(self) -> float:
        """About as many rounded candidates as are measured while one is fitted."""
        fitting = self._makers[FITTED]
        assert isinstance(fitting, CodeFitting)
        return fitting.candidates_a_fit

    def core(self) -> dict[str, list[Option]] | None:
        """That of the flat view."""
        return self.formats.core()

    def lower(self, batch: Sequence[Assignment]) -> FixedBatch:
        """The fixed-point programs of complete assignments: of several ones rounded ones only. ValueError for others."""
        if len(batch) == 1 and _has_own_codes(batch[0]):
            return self._with_own_codes(batch[0], recalled=True)
        if any(map(_has_own_codes, batch)):
            raise ValueError("Programs with codes of their own have encodings of their own: expected one at a time.")
        return self.formats.lower([_formats_of(candidate) for candidate in batch])

    def _with_own_codes(self, candidate: Assignment, recalled: bool) -> FixedBatch:
        """`recalled`: codes that another process has made are taken from the cache. Not in a search, whose time is compared."""
        formats, way = _formats_of(candidate), str(candidate[CODES])
        key = (way, *(formats[decision.name] for decision in self.formats.decisions))
        if key not in self._known:
            rounded = self.formats.lower([formats])
            self._known[key] = with_encodings(rounded, [self._encodings(rounded, key, recalled)])
        return self._known[key]

    def _encodings(self, rounded: FixedBatch, key: tuple[Option, ...], recalled: bool) -> dict[int, ParameterEncoding]:
        """`key`: the way, and the formats."""
        way = str(key[0])
        maker = self._makers[TRAINED if way in SHORTER else way]
        name = fingerprint(
            "codes of their own", SEMANTICS, TRAINING_SEMANTICS, self._code, self.formats.fingerprint, key
        )
        with contextlib.closing(EvaluationCache()) as cache:
            known = unpacked(cache.artefact(name), maker.given(rounded)) if recalled else None
            if known is None:
                known = self._training.encodings(rounded, SHORTER[way]) if way in SHORTER else maker.encodings(rounded)
                cache.keep_artefact(name, packed(known))
        return known

    @property
    def _training(self) -> CodeTraining:
        training = self._makers[TRAINED]
        assert isinstance(training, CodeTraining)
        return training

    def why_untrained(self, candidate: Assignment) -> str | None:
        """Why a candidate's codes cannot be trained, as the end of a sentence; None where they can."""
        return self._training.why_not(self._rounded(candidate))

    def trained_within(self, candidate: Assignment, seconds: float) -> Assignment:
        """A candidate with trained codes: in as many steps as likely end in so many seconds, LEAST_STEPS at the least. The candidate itself
        where it has been trained in as many or more."""
        rounded, whole = self._rounded(candidate), {**candidate, CODES: TRAINED}
        if candidate == whole or math.isinf(seconds):
            return whole
        each, most = self._training.seconds_a_step(rounded), self._training.affordable(rounded)
        fits = [way for way, steps in ((TRAINED, most), *SHORTER.items()) if _steps_of_all(steps) * each <= seconds]
        way = fits[0] if fits else list(SHORTER)[-1]
        if SHORTER.get(str(candidate.get(CODES)), 0) >= SHORTER.get(way, most):
            return candidate
        return {**candidate, CODES: way if SHORTER.get(way, most) < most else TRAINED}

    def unseen_errors(self, before: FixedBatch, trained: Assignment) -> PairedFlips | None:
        """To how many samples a program gives another class than the label, and to how many the candidate does when it is trained with the
        other half of the samples: whether what training has learnt holds for samples that it has not seen. None where that is no question:
        the trained candidate is not right on more samples than the float model, beyond chance, so that it has learnt no more by heart; or
        that model has been trained with the samples itself, so that it is no more to be trusted on them."""
        task = self.task
        assert task.targets is not None
        labels, classes = task.targets, self.evaluator.simulator.run(self.lower([trained]))[0, :, 0]
        by_float = self.evaluator.float_outputs[:, 0] != labels
        alone, float_alone = (classes != labels) & ~by_float, by_float & (classes == labels)
        if len(labels) < 2 or sign_test_p(int(alone.sum()), int(float_alone.sum())) >= SIGNIFICANCE:
            return None
        if self._training.has_met_samples:
            return None
        wrong = self.evaluator.simulator.run(before)[0, :, 0] != labels
        return paired(len(labels), wrong, self._training.classes_by_halves(self._rounded(trained)) != labels)

    def _rounded(self, candidate: Assignment) -> FixedBatch:
        return self.formats.lower([_formats_of(candidate)])

    @cached_property
    def _code(self) -> str:
        return code_version(self)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics on the training data."""
        return self._measured(batch, None)

    @property
    def races(self) -> bool:
        """Whether some candidates are worth stopping."""
        return self.formats.races

    @property
    def races_who_is_asked_again(self) -> bool:
        """Whether some are that may be asked for once more."""
        return self.formats.races_who_is_asked_again

    def evaluate_against(self, batch: Sequence[Assignment], hurdle: Hurdle) -> list[Measurement]:
        """As `evaluate`; rounded candidates of classifiers that are out by `hurdle` are censored."""
        return self._measured(batch, hurdle)

    def _measured(self, batch: Sequence[Assignment], hurdle: Hurdle | None) -> list[Measurement]:
        plain = [_formats_of(candidate) for candidate in batch if not _has_own_codes(candidate)]
        found = iter(self.formats.evaluate(plain) if hurdle is None else self.formats.evaluate_against(plain, hurdle))
        return [
            Measurement(self._metrics(self._with_own_codes(candidate, recalled=False)))
            if _has_own_codes(candidate)
            else next(found)
            for candidate in batch
        ]

    def _metrics(self, fitted: FixedBatch) -> Metrics:
        """What a candidate with codes of its own is like, whose errors on the training samples are smaller than elsewhere."""
        metrics = self.evaluator.measure(fitted)[0]
        if "expected_flips" not in metrics:
            return metrics
        (fresh,) = self._fresh.expected_flips(fitted)
        return {**metrics, "expected_flips": max(metrics["expected_flips"], fresh)}

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        """What is known of candidates without running them on any sample, which their codes do not change."""
        return self.formats.costs([_formats_of(candidate) for candidate in batch])

    def placed(self, assignment: Assignment) -> PlacedVariables:
        """Where the temporaries of a candidate lie."""
        return self.formats.placed(_formats_of(assignment))


def is_trained(candidate: Assignment) -> bool:
    """Whether its codes are trained."""
    return candidate.get(CODES) in (TRAINED, *SHORTER)


def _steps_of_all(steps: int) -> int:
    """Steps of all trainings of a candidate in so many: two, where much noise loses training accuracy, and two with half of the samples."""
    return 2 * steps + 2 * min(STEPS_OF_HALVES, steps)


def _has_own_codes(candidate: Assignment) -> bool:
    return candidate.get(CODES, ROUNDED) != ROUNDED


def _formats_of(candidate: Assignment) -> dict[str, Option]:
    return {name: option for name, option in candidate.items() if name != CODES}
