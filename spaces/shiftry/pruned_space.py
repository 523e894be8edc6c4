"""Shiftry's problem with one decision before all formats: which units and choices are left out of the float model.

The smaller models lie on one way, each a tenth smaller than the one before (`pruned_models`). So the decision is how far to go on it. Each
of them is a program of its own with formats of its own, all of which are compared with the whole model. Searches that need independent
decisions look at the whole model (the flat view); the search for a front goes on with those models whose programs are on it, and under
limits `refine` goes on in the model in which its opening has found the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypeVar

from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.placement import PlacedVariables
from kilotune.codegen.profile import Profile
from kilotune.codegen.unit_pruning import FloatModel
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Task
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatView
from kilotune.search.front import Ranking
from kilotune.search.racing import Hurdle
from kilotune.search.space import (
    Assignment,
    Constraint,
    Decision,
    Measurement,
    Metrics,
    Objective,
    Option,
    Procedure,
    Space,
    State,
    answered,
)
from kilotune.search.work_memory import WorkMemory
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_front import Promising, search_fitted_front
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, FittedSpace
from kilotune.spaces.shiftry.front_search import search_front
from kilotune.spaces.shiftry.known_candidates import FrontQuestion
from kilotune.spaces.shiftry.limited_search import search_within_limits
from kilotune.spaces.shiftry.models_in_turns import FIRST, best_of_models, fronts_in_turns
from kilotune.spaces.shiftry.offered_models import OfferedModels
from kilotune.spaces.shiftry.pruned_models import PrunedModel, can_be_smaller, pruned_models
from kilotune.spaces.shiftry.space import ShiftrySpace

UNITS = "units of layers"
"""The decision. No variable has a name with spaces."""

ALL = "all"
"""The option of the whole model."""

SEMANTICS = 3
"""Version of which units are left out and what weights are then, part of the fingerprint."""

TunedFormats = ShiftrySpace | FittedSpace

FoundT = TypeVar("FoundT")


@dataclass(frozen=True)
class PrunedState:
    """The answers so far: none, or which model, and then that model's."""

    space: PrunedSpace
    option: Option | None = None
    of_model: State | None = None

    @property
    def decision(self) -> Decision | None:
        """The next one."""
        return self.space.units if self.of_model is None else self.of_model.decision

    @property
    def assignment(self) -> Assignment:
        """The answers."""
        if self.of_model is None or self.option is None:
            return {}
        return {UNITS: self.option, **self.of_model.assignment}

    def take(self, option: Option) -> PrunedState:
        """Answer the next one. ValueError when it is not one of the options."""
        if self.of_model is None:
            answered(self.space.units, option)
            return PrunedState(self.space, option, self.space.of_units(option).start())
        return PrunedState(self.space, self.option, self.of_model.take(option))

    def bound(self) -> float:
        """A loss of the first objective that no completion beats."""
        return -float("inf") if self.of_model is None else self.of_model.bound()


class PrunedSpace:
    """Which units first, then the formats of that model. A candidate that does not say so has all units."""

    name = "shiftry"
    prefers_flat = True
    why_no_model = "of models with fewer units: leave --pruned out, or choose another strategy"

    def __init__(self, whole: TunedFormats, formats_of: Callable[[Task], TunedFormats]) -> None:
        """`whole`: the problem of the whole model; `formats_of`: that of a smaller one."""
        self.whole, self._formats_of = whole, formats_of
        self._spaces: dict[Option, TunedFormats] = {ALL: whole}
        self._offered = OfferedModels(self._way)

    @property
    def work_memory(self) -> WorkMemory:
        """That of the flat view."""
        return self.whole.work_memory

    @work_memory.setter
    def work_memory(self, memory: WorkMemory) -> None:
        self.whole.work_memory = memory

    @property
    def task(self) -> Task:
        """The whole model and its data."""
        return self.whole.task

    @property
    def options(self) -> ShiftryOptions:
        """What was asked."""
        return self.whole.options

    @property
    def evaluator(self) -> FixedPointEvaluator:
        """What measures candidates of the whole model."""
        return self.whole.evaluator

    @property
    def profile(self) -> Profile:
        """What the whole model's values are like."""
        return self.whole.profile

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Those of the whole model."""
        return self.whole.objectives

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Those of the whole model."""
        return self.whole.constraints

    @property
    def reference_point(self) -> tuple[float, ...] | None:
        """That of the whole model."""
        return self.whole.reference_point

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the task and the options."""
        return fingerprint("shiftry with fewer units", SEMANTICS, self.whole.fingerprint)

    @property
    def models(self) -> dict[Option, PrunedModel]:
        """The smaller models that are offered, by option, the largest first: those that in floats are as precise as the front goes; under
        limits any."""
        return {one.name: one for one in self._offered}

    def _way(self) -> Iterator[PrunedModel]:
        formats = _formats(self.whole)
        most = formats.most_imprecise / (len(self.task.features) if formats.classifies else 1)
        if self.options.precision_leads:  # whatever is most precise within the limits is wanted
            most = math.inf
        return pruned_models(self.task, most, self.work_memory, (SEMANTICS, self.whole.fingerprint))

    def model_of(self, option: Option) -> PrunedModel:
        """The smaller model of an option. KeyError for none that is offered."""
        for one in self._offered:
            if one.name == option:
                return one
        raise KeyError(option)

    @cached_property
    def units(self) -> Decision:
        """The decision."""
        return Decision(UNITS, (ALL, *self.models))

    def of_units(self, option: Option) -> TunedFormats:
        """The problem of the model with these units. KeyError for none that is offered."""
        if option not in self._spaces:
            model = self.model_of(option).model
            whole = FloatModel(self.task.program, self.task.parameters)
            task = replace(self.task, program=model.program, parameters=model.parameters, whole=whole)
            self._spaces[option] = self._formats_of(task)
        return self._spaces[option]

    def of_candidate(self, candidate: Assignment) -> TunedFormats:
        """The problem of a candidate's model."""
        return self.of_units(candidate.get(UNITS, ALL))

    def start(self) -> PrunedState:
        """Nothing decided."""
        return PrunedState(self)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a candidate in the order in which they were asked."""
        space = self.of_candidate(answers)
        rest = {name: option for name, option in answers.items() if name != UNITS}
        if isinstance(space, FittedSpace):
            rest = space.in_order(rest)
        else:
            rest = {decision.name: rest[decision.name] for decision in space.decisions}
        return {UNITS: answers[UNITS], **rest} if UNITS in answers else rest

    def flat_view(self) -> ShiftrySpace:
        """The candidates of the whole model with rounded codes."""
        return _formats(self.whole)

    def flat_view_of(self, candidate: Assignment) -> Space:
        """The candidates of a candidate's model with rounded codes."""
        if UNITS not in candidate:
            return self.flat_view()
        formats = _formats(self.of_candidate(candidate))
        units = Decision(UNITS, (candidate[UNITS],))
        return FlatView(self, (units, *formats.decisions), -math.inf)

    def finished(self, candidate: Assignment, measurement: Measurement) -> Assignment | None:
        """The candidate with fitted codes, where these may be; see `FittedSpace.finished`."""
        space = self.of_candidate(candidate)
        if not isinstance(space, FittedSpace):
            return None
        return space.finished(candidate, measurement)

    def fallback(self) -> Assignment | None:
        """That of the whole model."""
        return self.whole.fallback()

    def procedure(self) -> Procedure:
        """The paper's, on the whole model."""
        return self.whole.procedure()

    def core(self) -> dict[str, list[Option]] | None:
        """That of the flat view."""
        return self.whole.core()

    def lower(self, batch: Sequence[Assignment]) -> FixedBatch:
        """The fixed-point programs of complete assignments of one model. ValueError for those of several."""
        if len({candidate.get(UNITS, ALL) for candidate in batch}) > 1:
            raise ValueError("Programs with other units are other programs: expected candidates of one model.")
        return (self.of_candidate(batch[0]) if batch else self.whole).lower(batch)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics on the training data."""
        return self._by_model(batch, lambda space, part: space.evaluate(part))

    @property
    def races(self) -> bool:
        """Whether some candidates are worth stopping: programs with fewer units are less work than those with all."""
        return self.whole.races

    @property
    def races_who_is_asked_again(self) -> bool:
        """Whether some are that may be asked for once more."""
        return self.whole.races_who_is_asked_again

    def evaluate_against(self, batch: Sequence[Assignment], hurdle: Hurdle) -> list[Measurement]:
        """As `evaluate`; rounded candidates of classifiers that are out by `hurdle` are censored."""
        return self._by_model(batch, lambda space, part: space.evaluate_against(part, hurdle))

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        """What is known of candidates without running them on any sample."""
        return self._by_model(batch, lambda space, part: space.costs(part))

    def placed(self, assignment: Assignment) -> PlacedVariables:
        """Where the temporaries of a candidate lie."""
        return self.of_candidate(assignment).placed(assignment)

    def _by_model(
        self, batch: Sequence[Assignment], found_of: Callable[[TunedFormats, list[Assignment]], list[FoundT]]
    ) -> list[FoundT]:
        places: dict[Option, list[int]] = {}
        for place, candidate in enumerate(batch):
            places.setdefault(candidate.get(UNITS, ALL), []).append(place)
        found: dict[int, FoundT] = {}
        for option, alike in places.items():
            found |= zip(alike, found_of(self.of_units(option), [batch[place] for place in alike]), strict=True)
        return [found[place] for place in range(len(batch))]

    def front_search(self, seed: int) -> Procedure:
        """The fronts of all models in turns, as one front; with fitted codes between them where these may be."""
        asked = FrontQuestion.whole(self.objectives, self.reference_point)
        rounded = self._rounded_fronts(asked, seed)
        if not isinstance(self.whole, FittedSpace) or FITTED not in self.whole.ways:
            return rounded
        return search_fitted_front(
            Promising(Ranking.of(self), asked.reference),
            rounded,
            lambda one: {**one, CODES: FITTED},
            self.whole.candidates_a_fit,
        )

    def _rounded_fronts(self, asked: FrontQuestion, seed: int) -> Procedure:
        def search_of(option: Option) -> Procedure:
            return search_front(_formats(self.of_units(option)), asked, seed)

        return fronts_in_turns(Ranking.of(self), asked.reference, self._in_order_of_size(), search_of, _with_units)

    def opening(self, seed: int) -> Procedure | None:
        """Under limits: the search for what is best within them, in one model after the other; see `spaces.shiftry.models_in_turns`."""
        formats = _formats(self.whole)
        if not can_be_smaller(self.task.program) or not self.options.precision_leads:
            return formats.opening(seed)
        if not formats.limits_are_costs:
            return None

        def search_of(option: Option) -> Procedure:
            return search_within_limits(_formats(self.of_units(option)), seed)

        def first_of(option: Option) -> int:
            return FIRST + sum(len(decision.options) for decision in _formats(self.of_units(option)).decisions)

        return best_of_models(Ranking.of(self), self._in_order_of_size(), search_of, first_of, _with_units)

    def _in_order_of_size(self) -> Iterator[Option]:
        """The models, the largest first, each made when it is asked for."""
        return chain((ALL,), (one.name for one in self._offered))


def _with_units(option: Option, candidate: Assignment) -> Assignment:
    """A candidate of the model of an option, as one of this space. That of the whole model is the flat view's, as it stands."""
    return candidate if option == ALL else {UNITS: option, **candidate}


def _formats(space: TunedFormats) -> ShiftrySpace:
    """The problem with rounded codes."""
    return space.formats if isinstance(space, FittedSpace) else space
