"""Smaller models of a task: unit after unit is left out, whichever is missed least for what it takes.

Of every layer the unit that its readers miss least, if their weights are fitted anew (`codegen.unit_pruning`), is tried on the whole
program; the one is left out that adds least to the squared error of the margins (of a numerical model, of the results) for each number
that need not be stored. Where a model is a tenth smaller than the last one that was offered, all its weights are brought closer to what the
whole model does (`closeness`), it is offered, and leaving out goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.branch_pruning import branches, without_choice
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.shared_axes import LOOP
from kilotune.codegen.unit_pruning import FloatModel, SmallerModel, UnitGroup, UnitPruning, unit_groups
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.fixed_point.similar_inputs import inputs_for_margins
from kilotune.search.work_memory import NoMemory, WorkMemory
from kilotune.spaces.shiftry.closeness import MOST_STEPS, Closeness, brought_closer
from kilotune.spaces.shiftry.kept_models import model_as_json, model_from_json

LEARNT_SEED, JUDGED_SEED = 3, 4
"""Inputs that weights are fitted to, and those by which it is decided how far. Others than candidates are measured on."""

LEARNT = 2
"""Inputs that weights are fitted to, for each by which it is decided how far."""

NOISE = 0.6
"""Standard deviations of a feature that such inputs are away from samples. With 0.3, or between a sample and its neighbours, as the inputs
are on which candidates are measured, smaller models agree less on test samples; with 1 they agree no more."""

SMALLER = 0.9
"""The share of the last offered model's numbers that the next one has at most."""

MOST_MODELS = 8
"""Models that are offered."""


@dataclass(frozen=True)
class PrunedModel:
    """A model some of whose units or choices were left out. `name`: what it has. `off`: the share of training samples whose class
    changes, to which its weights are not fitted; of a numerical model the root mean square error. `left_out`: by what its units are
    places of, which of the whole model's are gone, counted from 0; `choices`: which are not made any more, and which of their branches is
    taken (0 or 1)."""

    model: FloatModel
    name: str
    off: float
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    choices: tuple[tuple[str, int], ...] = ()


def stored_numbers(model: FloatModel) -> int:
    """How many numbers a model's parameters have."""
    return sum(int(np.size(values)) for values in model.parameters.values())


def can_be_smaller(program: ir.Program) -> bool:
    """Whether there are units or choices that may be left out."""
    return bool(unit_groups(program)) or any(branches(program))


def pruned_models(
    task: Task, most_off: float, memory: WorkMemory | None = None, subject: Sequence[object] = ()
) -> Iterator[PrunedModel]:
    """Models of a task, each smaller than the one before, as long as they are off by at most `most_off`; none where nothing can be
    left out. `memory`: is asked for each step towards them, of `subject`, which tells the task from others, and its number."""
    whole = FloatModel(task.program, task.parameters)
    if not can_be_smaller(task.program):
        return
    memory = NoMemory() if memory is None else memory
    way = _PruningWay(task, whole)
    before = _OfferedModel(SmallerModel.whole(whole), 0.0, 0.0)
    for number in range(MOST_MODELS):
        subject_of = ["smaller model", *subject, number]
        stored = memory.recalled([*subject_of, "left out"], partial(way.left_out, before))
        if stored is None:
            return
        model = model_from_json(whole, stored)
        for step in range(MOST_STEPS):
            closer = memory.recalled([*subject_of, "closer", step], partial(way.closer, model))
            if closer is None:
                break
            model = model_from_json(whole, closer)
        before = way.offered(model)
        if not before.off <= most_off:
            return
        yield PrunedModel(
            _in_single_precision(before.model),
            _left(whole, before.model),
            before.off,
            _left_out(whole, before.model),
            before.model.choices,
        )


@dataclass(frozen=True)
class _OfferedModel:
    """A model, the weighted mean square of its errors on the inputs that weights are fitted to, and `off` of a `PrunedModel`."""

    model: SmallerModel
    square: float
    off: float


class _PruningWay:
    """From one model that is offered to the next one."""

    def __init__(self, task: Task, whole: FloatModel) -> None:
        self._task, self._whole = task, whole

    @cached_property
    def _inputs(self) -> int:
        return len(inputs_for_margins(self._task.features, loop_steps(self._task.program).elements_touched))

    @cached_property
    def _learnt(self) -> Closeness:
        return Closeness(self._whole, noisy_inputs(self._task.features, LEARNT * self._inputs, LEARNT_SEED))

    @cached_property
    def _judged(self) -> Closeness:
        return Closeness(self._whole, noisy_inputs(self._task.features, self._inputs, JUDGED_SEED))

    @cached_property
    def _pruning(self) -> UnitPruning:
        return UnitPruning(self._whole, self._learnt.inputs, self._learnt.weights)

    @cached_property
    def _samples(self) -> Closeness:
        return Closeness(self._whole, self._task.features)

    def left_out(self, before: _OfferedModel) -> dict[str, Any] | None:
        """A model that is a tenth smaller, as JSON; None where nothing more can be left out."""
        model, square, most = before.model, before.square, SMALLER * stored_numbers(before.model)
        while stored_numbers(model) > most:
            smaller = _smaller(self._pruning, self._learnt, self._judged, model)
            if not smaller:
                return None
            saved = [stored_numbers(model) - stored_numbers(one) for one in smaller]
            squares = [self._learnt.of(one)[0] for one in smaller]
            best = min(range(len(smaller)), key=lambda i: (squares[i] - square) / max(1, saved[i]))
            model, square = smaller[best], squares[best]
        return model_as_json(model)

    def closer(self, model: SmallerModel) -> dict[str, Any] | None:
        """The model after one step towards the whole one, as JSON; None where none brings it closer."""
        after = brought_closer(model, self._learnt, self._judged, 1)
        return None if after is model else model_as_json(after)

    def offered(self, model: SmallerModel) -> _OfferedModel:
        """The model, and how far it is off."""
        return _OfferedModel(model, self._learnt.of(model)[0], self._samples.of(model)[1])


def noisy_inputs(features: FloatArray, count: int, seed: int) -> FloatArray:
    """`count` inputs [count, features] around samples [samples, features]; the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    chosen = features[rng.integers(len(features), size=count)]
    return np.asarray(chosen + NOISE * features.std(axis=0) * rng.standard_normal(chosen.shape))


def _smaller(pruning: UnitPruning, learnt: Closeness, judged: Closeness, model: SmallerModel) -> list[SmallerModel]:
    """The model without the unit of each group that is missed least, and without the choice that is."""
    groups = unit_groups(model.program, model.parts)
    units = [_without_unit(pruning, learnt, judged, model, one) for one in groups]
    choices = [without_choice(model, branch) for branch in branches(model.program)]
    nearest = sorted(choices, key=lambda one: learnt.of(one)[0])[:1]
    return [*units, *(brought_closer(one, learnt, judged, 1) for one in nearest)]


def _without_unit(
    pruning: UnitPruning, learnt: Closeness, judged: Closeness, model: SmallerModel, group: UnitGroup
) -> SmallerModel:
    """The model without the unit of a group that is missed least. Where no products sum over the group, as over the prototypes that a loop
    goes through, no least squares make up for it, so all weights are brought closer by a step."""
    if pruning.is_summed(model, group):
        return pruning.without(model, group, pruning.least_missed(model, group))
    every = [pruning.without(model, group, unit) for unit in range(group.size)]
    return brought_closer(min(every, key=lambda one: judged.of(one)[0]), learnt, judged, 1)


def _left(whole: FloatModel, model: SmallerModel) -> str:
    """Which units and choices of the whole model a smaller one has: `h1 12 of 16, h2 9 of 10, without leaf1`."""
    units = []
    for group in unit_groups(whole.program):
        name, part = next(axis for axis in group.axes if axis[1] != LOOP)
        units.append((group.name, model.parts[name][part], group.size))
    words = [f"{name} {left} of {size}" for name, left, size in units if left < size]
    left_choices = {branch.name for branch in branches(model.program)}
    gone = dict.fromkeys(one.name for one in branches(whole.program) if one.name not in left_choices)
    return ", ".join([*words, *(f"without {name}" for name in gone)])


def _left_out(whole: FloatModel, model: SmallerModel) -> dict[str, tuple[int, ...]]:
    """By the names of the whole model's groups, which of their units a smaller model has not."""
    gone = {}
    for group in unit_groups(whole.program):
        kept = next((model.units[axis] for axis in group.axes if axis in model.units), np.arange(group.size))
        gone[group.name] = tuple(sorted(set(range(group.size)) - set(kept.tolist())))
    return {name: places for name, places in gone.items() if places}


def _in_single_precision(model: FloatModel) -> FloatModel:
    """With numbers of 32 bits: what the last digits of sums are, which hangs on the machine, does not show."""
    parameters = {name: np.asarray(values, np.float32).astype(np.float64) for name, values in model.parameters.items()}
    return FloatModel(model.program, parameters)
