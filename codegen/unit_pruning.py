"""Smaller float programs: units of a hidden layer are left out, and the weights behind them make up for it.

A unit is one place of an axis, or of a part of axes, of what is computed, with all weights that are there for it alone: a row before a
function of single elements and a column behind it, a state of a recurrent network, a channel of an image with its filter, a prototype in
the loop that goes through them. `unit_groups` finds such places from the program alone: those that all operations need as a whole, if at
all (`codegen.shared_axes`).
Which unit of a group is missed least, if the weights of the products behind it are fitted anew to the sums of the whole program, is known
from second moments (Optimal Brain Surgeon: Hassibi and Stork, NIPS 1992; of whole units with weights fitted by least squares: ThiNet, Luo
et al., ICCV 2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.axis_parts import AxisParts
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps, sample_blocks
from kilotune.codegen.shared_axes import LOOP, Axis, SharedAxes, parts_left, resized, taken
from kilotune.codegen.straight_line import NOWHERE, OperationInstance
from kilotune.codegen.summed_weights import SummedWeights, summed_weights

RIDGE = 1e-4
"""How much it counts that weights stay as they are, in mean second moments of their inputs: units that do the same leave them
undetermined."""


@dataclass(frozen=True)
class FloatModel:
    """A program over the Reals with its parameters, by name."""

    program: ir.Program
    parameters: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class SmallerModel(FloatModel):
    """A model made of another one. `units`: by part of a variable which places of the other model's it has; all, where nothing is said.
    `parts`: those of its variables, among which are parts of one place. `choices`: which were left out, one after the other, and which of
    their branches was taken (0 or 1)."""

    parts: AxisParts = field(default_factory=dict)
    units: Mapping[Axis, IntArray] = field(default_factory=dict)
    choices: tuple[tuple[str, int], ...] = ()

    @classmethod
    def whole(cls, model: FloatModel) -> SmallerModel:
        """The model itself, of which nothing is left out yet."""
        return cls(model.program, model.parameters, SharedAxes(model.program).parts)

    def without(self, program: ir.Program, kept: Mapping[Axis, IntArray]) -> SmallerModel:
        """One that has some places alone of some parts. `program`: this one's, or one of the same variables that does less."""
        names = [v.name for v in program.variables if v.role is ir.Role.PARAMETER]
        parameters = {name: taken(self.parameters[name], name, self.parts, kept) for name in names}
        chosen = {axis: self.units[axis][places] if axis in self.units else places for axis, places in kept.items()}
        smaller = resized(program, self.parts, parameters, kept)
        return SmallerModel(smaller, parameters, parts_left(self.parts, kept), {**self.units, **chosen}, self.choices)

    def with_parameters(self, parameters: Mapping[str, FloatArray]) -> SmallerModel:
        """One with other numbers [elements of each parameter]."""
        shaped = {
            name: np.asarray(values).reshape(np.shape(self.parameters[name])) for name, values in parameters.items()
        }
        return replace(self, parameters=shaped)


@dataclass(frozen=True)
class UnitGroup:
    """Parts of variables that have the same units, as many as `size`. `name`: of a variable that is computed, or of a loop's index."""

    name: str
    size: int
    axes: tuple[Axis, ...]


def unit_groups(program: ir.Program, parts: AxisParts | None = None) -> tuple[UnitGroup, ...]:
    """The groups of which units may be left out: neither of the input nor of the result. `parts`: as `SharedAxes` takes them."""
    roles, shared = {v.name: v.role for v in program.variables}, SharedAxes(program, parts)
    groups: dict[str, UnitGroup] = {}
    for axes, _ in shared.groups(sliced=False):
        computed = [name for name, part in axes if part == LOOP or roles[name] is ir.Role.TEMPORARY]
        if computed and any(part != LOOP and roles[name] is ir.Role.PARAMETER for name, part in axes):
            alike = sum(known.rsplit(" ", 1)[0] == computed[-1] for known in groups)
            name = f"{computed[-1]} {alike + 1}" if alike else computed[-1]
            groups[name] = UnitGroup(name, shared.extent(axes[0]), axes)
    return tuple(groups.values())


class UnitPruning:
    """Leaves units of a model out, fitted to what its products compute of `samples` [samples, features]; those count by `weights`
    [samples]."""

    def __init__(self, whole: FloatModel, samples: FloatArray, weights: FloatArray) -> None:
        self._whole, self._samples, self._weights = SmallerModel.whole(whole), samples, weights
        self._readers = {reader.parameter: reader for reader in summed_weights(whole.program)}

    @cached_property
    def _times(self) -> Mapping[str, int]:
        """How often each product of the whole model is made for a sample, by its parameter."""
        return _times(self._whole, list(self._readers.values()), self._samples[:1])

    def is_summed(self, model: SmallerModel, group: UnitGroup) -> bool:
        """Whether products of parameters sum over a group, so that something is known of its units without trying them."""
        return bool(self._summing(model, group))

    def least_missed(self, model: SmallerModel, group: UnitGroup) -> int:
        """The unit of a group of `model`, which has been made of the whole one, without which what sums over the group is off least."""
        missed = np.zeros(group.size)
        for reader, moments in self._moments(model, group):
            taps = [reader.taps_of(model.parts, group.axes, unit) for unit in range(group.size)]
            missed += moments.missed(taps)
        return int(np.argmin(missed))

    def without(self, model: SmallerModel, group: UnitGroup, unit: int) -> SmallerModel:
        """The model without a unit of a group, the weights of what sums over the group fitted anew."""
        kept = np.delete(np.arange(group.size), unit)
        smaller = model.without(model.program, dict.fromkeys(group.axes, kept))
        parameters = dict(smaller.parameters)
        for reader, moments in self._moments(model, group):
            gone = np.isin(np.arange(len(moments.damped)), reader.taps_of(model.parts, group.axes, unit))
            fitted = moments.fitted(np.flatnonzero(~gone))
            lost = np.isin(np.arange(fitted.shape[1]), reader.sums_of(model.parts, group.axes, unit))
            fitted = fitted[:, ~lost]
            if reader.bias is not None:
                parameters[reader.bias] = fitted[-1].reshape(np.shape(parameters[reader.bias]))
                fitted = fitted[:-1]
            parameters[reader.parameter] = reader.stored(fitted, np.shape(parameters[reader.parameter]))
        return replace(smaller, parameters=parameters)

    def _summing(self, model: SmallerModel, group: UnitGroup) -> list[SummedWeights]:
        """Products that sum over a group, and that are made as often as in the whole model: only then each is what one of the whole model's
        became."""
        known = (self._with_its_bias(reader) for reader in summed_weights(model.program))
        found = [reader for reader in known if reader and len(reader.taps_of(model.parts, group.axes, 0)) > 0]
        times = _times(model, found, self._samples[:1])
        return [reader for reader in found if times.get(reader.parameter) == self._times.get(reader.parameter)]

    def _with_its_bias(self, reader: SummedWeights) -> SummedWeights | None:
        """A product of a smaller model with the bias that it has in the whole one, or none if the two can't be compared: a number that was
        added to all sums of several looks like the bias of the single one that is left."""
        whole = self._readers.get(reader.parameter)
        if whole is None or whole.bias not in (None, reader.bias):
            return None
        return replace(reader, bias=whole.bias)

    def _moments(self, model: SmallerModel, group: UnitGroup) -> Iterator[tuple[SummedWeights, _Moments]]:
        """What the products that sum over a group meet, those of the whole model being what is aimed at."""
        readers = self._summing(model, group)
        wanted = [self._readers[reader.parameter] for reader in readers]
        sums: dict[str, tuple[FloatArray, FloatArray]] = {}
        now, before = (loop_steps(one.program) for one in (model, self._whole))
        for block in sample_blocks(before.elements_at_once, len(self._samples)):
            read = _met(model, now, readers, self._samples[block])
            aimed_at = _met(self._whole, before, wanted, self._samples[block])
            for name, inputs in read.items():
                others = aimed_at[name].reshape(len(aimed_at[name]), -1)
                weighted = (inputs * self._weights[block]).reshape(len(inputs), -1)
                pair = weighted @ inputs.reshape(len(inputs), -1).T, weighted @ others.T
                known = sums.get(name)
                sums[name] = pair if known is None else (known[0] + pair[0], known[1] + pair[1])
        for reader, whole in zip(readers, wanted, strict=True):
            moment, crossed = sums[reader.parameter]
            mean = float(np.diag(moment).mean()) or 1.0
            targets = crossed @ whole.of_sums(self._whole.parameters, self._whole.parts, model.units)
            targets = targets + RIDGE * mean * reader.of_sums(model.parameters, model.parts, {})
            yield reader, _Moments(moment + RIDGE * mean * np.eye(len(moment)), targets)


@dataclass(frozen=True, eq=False)
class _Moments:
    """What a product meets: the second moment [inputs, inputs], made positive definite, and its inputs' products with the sums that are
    aimed at [inputs, sums]. Where a bias is added, the last input is always one."""

    damped: FloatArray
    targets: FloatArray

    def missed(self, units: Sequence[IntArray]) -> FloatArray:
        """The share of what the best weights explain that is lost without the inputs of each unit [units], the others fitted anew."""
        inverse = np.linalg.inv(self.damped)
        fitted = inverse @ self.targets
        lost = [
            float((fitted[inputs] * np.linalg.solve(inverse[np.ix_(inputs, inputs)], fitted[inputs])).sum())
            for inputs in units
        ]
        return np.asarray(lost) / max(float((fitted * self.targets).sum()), 1e-300)

    def fitted(self, places: IntArray) -> FloatArray:
        """The best weights of some inputs [places, sums]."""
        return np.asarray(np.linalg.solve(self.damped[np.ix_(places, places)], self.targets[places]), dtype=np.float64)


def _times(model: FloatModel, readers: Sequence[SummedWeights], sample: FloatArray) -> Mapping[str, int]:
    """How often products are made for a sample [1, features], by their parameter."""
    met = _met(model, loop_steps(model.program), readers, sample) if readers else {}
    return {name: inputs.shape[1] for name, inputs in met.items()}


def _met(
    model: FloatModel, steps: LoopedSteps, readers: Sequence[SummedWeights], features: FloatArray
) -> dict[str, FloatArray]:
    """What products are given [inputs, times, samples], by their parameter; with a one at the end where a bias is added."""
    by_row = {reader.row: reader for reader in readers}
    found: dict[str, list[FloatArray]] = {}

    def observe(step: OperationInstance, _: FloatArray, read: Sequence[FloatArray]) -> None:
        if step.row not in by_row:
            return
        reader = by_row[step.row]
        inputs, elements = (
            (read[1], step.sources[1].elements) if reader.on_left else (read[0], step.sources[0].elements)
        )
        inputs = np.where((elements == NOWHERE)[..., None], 0.0, inputs)
        inputs = inputs if reader.on_left else inputs.swapaxes(0, 1)
        inputs = np.broadcast_to(inputs, (*inputs.shape[:2], len(features)))
        if reader.bias is not None:
            inputs = np.concatenate([inputs, np.ones((1, *inputs.shape[1:]))])
        found.setdefault(reader.parameter, []).append(inputs.copy())

    run_float(model.program, model.parameters, features, observe, steps)
    return {name: np.concatenate(inputs, axis=1) for name, inputs in found.items()}
