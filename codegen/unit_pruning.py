"""Smaller float programs: units of a hidden layer are left out, and the weights behind them make up for it.

A unit is one place of an axis that products sum over: a row of the weights before it, an element of what is computed, a column of the
weights behind it. `unit_groups` finds such axes from the program alone: those that operations read and write as a whole.
Which unit of a group is missed least, if the weights behind it are fitted anew to the sums of the whole program, is known from second
moments (Optimal Brain Surgeon: Hassibi and Stork, NIPS 1992; of whole units with weights fitted by least squares: ThiNet, Luo et al.,
ICCV 2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps, sample_blocks
from kilotune.codegen.shared_axes import Axis, SharedAxes, axes_of, resized
from kilotune.codegen.straight_line import OperationInstance

RIDGE = 1e-4
"""What is added to the second moment of each input, in mean second moments: units that do the same leave their weights undetermined."""


@dataclass(frozen=True)
class FloatModel:
    """A program over the Reals with its parameters, by name."""

    program: ir.Program
    parameters: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class SmallerModel(FloatModel):
    """A model made of another one. `units`: by axis of a variable which places of the other model's it has; all, where nothing is
    said."""

    units: Mapping[Axis, IntArray] = field(default_factory=dict)

    def made(
        self, program: ir.Program, parameters: Mapping[str, FloatArray], kept: Mapping[Axis, IntArray]
    ) -> SmallerModel:
        """One that is made of this one and has of some axes some places alone."""
        chosen = {axis: self.units[axis][places] if axis in self.units else places for axis, places in kept.items()}
        return SmallerModel(program, parameters, {**self.units, **chosen})


@dataclass(frozen=True)
class UnitGroup:
    """Axes of variables that have the same units, as many as `size`. `name`: of a variable that is computed."""

    name: str
    size: int
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class _Reader:
    """A product that sums over units: its number among the operations, its parameter, on which side that stands, and what is added to
    the sums, if that is a parameter that nothing else reads."""

    row: int
    parameter: str
    on_left: bool
    bias: str | None

    @property
    def axis(self) -> Axis:
        """The axis of its parameter that it sums over."""
        return self.parameter, 1 if self.on_left else 0

    def weights(self, parameters: Mapping[str, FloatArray], units: Mapping[Axis, IntArray]) -> FloatArray:
        """Its weights [inputs, sums], with the bias as the last row where there is one; of the sums those that are among `units`."""
        values = np.asarray(parameters[self.parameter], dtype=np.float64)
        weights = values.T if self.on_left else values
        if self.bias is not None:
            weights = np.concatenate([weights, np.asarray(parameters[self.bias], dtype=np.float64).reshape(1, -1)])
        sums = units.get((self.parameter, 0 if self.on_left else 1))
        return weights if sums is None else weights[:, sums]


def unit_groups(program: ir.Program) -> tuple[UnitGroup, ...]:
    """The groups of which units may be left out: neither of the input nor of the result."""
    summed = {reader.axis for reader in _readers(program)}
    groups = []
    for axes, _ in SharedAxes(program).groups(sliced=False):
        size = program.variable(axes[0][0]).shape[axes[0][1]]
        computed = [name for name, _ in axes if program.variable(name).role is ir.Role.TEMPORARY]
        if size > 1 and computed and not summed.isdisjoint(axes):
            groups.append(UnitGroup(computed[-1], size, axes))
    return tuple(groups)


def _readers(program: ir.Program) -> list[_Reader]:
    """The products of one parameter, read as a whole, and something that is computed."""
    fixed = {v.name for v in program.variables if v.role is ir.Role.PARAMETER}
    every = list(ir.operations(program.body))
    reads = [one.variable for operation in every for one in operation.operands if isinstance(one, ir.View)]
    found = []
    for row, operation in enumerate(every):
        if isinstance(operation, ir.MatMul) and (operation.a.variable in fixed) != (operation.b.variable in fixed):
            on_left = operation.a.variable in fixed
            view = operation.a if on_left else operation.b
            if reads.count(view.variable) == 1 and view == ir.whole(program.variable(view.variable)):
                found.append(_Reader(row, view.variable, on_left, _bias(program, operation, every, reads)))
    return found


def _bias(program: ir.Program, product: ir.MatMul, every: Sequence[ir.Operation], reads: Sequence[str]) -> str | None:
    """The parameter that is added to all that a product computes, where that is a vector."""
    fixed = {v.name for v in program.variables if v.role is ir.Role.PARAMETER}
    sums = product.out.variable
    for operation in every:
        views = [one for one in operation.operands if isinstance(one, ir.View)]
        if isinstance(operation, ir.Add) and sums in {one.variable for one in views} and 1 in product.out.shape:
            others = [one for one in views if one.variable != sums]
            if len(others) == 1 and others[0].variable in fixed and reads.count(others[0].variable) == 1:
                whole = all(axes_of(one, program.variable(one.variable)) is not None for one in views)
                alike = whole and others[0].size == product.out.size
                return others[0].variable if alike and reads.count(sums) == 1 else None
    return None


class UnitPruning:
    """Leaves units of a model out, fitted to what its products compute of `samples` [samples, features]; those count by `weights`
    [samples]."""

    def __init__(self, whole: FloatModel, samples: FloatArray, weights: FloatArray) -> None:
        self._whole, self._samples, self._weights = whole, samples, weights
        self._readers = _readers(whole.program)

    def least_missed(self, model: SmallerModel, group: UnitGroup) -> int:
        """The unit of a group of `model`, which has been made of the whole one, without which what reads the group is off least."""
        missed = sum(moments.missed()[: group.size] for _, moments in self._moments(model, group))
        return int(np.argmin(missed))

    def without(self, model: SmallerModel, group: UnitGroup, unit: int) -> SmallerModel:
        """The model without a unit of a group, the weights behind it fitted anew."""
        kept = np.delete(np.arange(group.size), unit)
        parameters = dict(model.parameters)
        for name, axis in group.axes:
            if name in parameters:
                parameters[name] = np.take(parameters[name], kept, axis=axis)
        for reader, moments in self._moments(model, group):
            places = np.concatenate([kept, np.arange(group.size, len(moments.damped))])
            fitted = moments.fitted(places)
            weights = fitted[: len(kept)]
            parameters[reader.parameter] = weights.T if reader.on_left else weights
            if reader.bias is not None:
                parameters[reader.bias] = fitted[-1].reshape(np.shape(parameters[reader.bias]))
        chosen = dict.fromkeys(group.axes, kept)
        return model.made(resized(model.program, parameters, chosen), parameters, chosen)

    def _moments(self, model: SmallerModel, group: UnitGroup) -> Iterator[tuple[_Reader, _Moments]]:
        """What the products that sum over a group meet, those of the whole model being what is aimed at."""
        readers = [reader for reader in _readers(model.program) if reader.axis in group.axes]
        wanted = [next(one for one in self._readers if one.parameter == reader.parameter) for reader in readers]
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
            targets = crossed @ whole.weights(self._whole.parameters, model.units)
            yield reader, _Moments(moment + RIDGE * mean * np.eye(len(moment)), targets)


@dataclass(frozen=True, eq=False)
class _Moments:
    """What a product meets: the second moment [inputs, inputs], made positive definite, and its inputs' products with the sums that are
    aimed at [inputs, sums]. Where a bias is added, the last input is always one."""

    damped: FloatArray
    targets: FloatArray

    def missed(self) -> FloatArray:
        """The share of what the best weights explain that is lost without each input [inputs], if the others are fitted anew."""
        inverse = np.linalg.inv(self.damped)
        fitted = inverse @ self.targets
        lost = np.square(fitted).sum(axis=1) / np.diag(inverse)
        return np.asarray(lost / max(float((fitted * self.targets).sum()), 1e-300))

    def fitted(self, places: IntArray) -> FloatArray:
        """The best weights of some inputs [places, sums]."""
        return np.asarray(np.linalg.solve(self.damped[np.ix_(places, places)], self.targets[places]), dtype=np.float64)


def _met(
    model: FloatModel, steps: LoopedSteps, readers: Sequence[_Reader], features: FloatArray
) -> dict[str, FloatArray]:
    """What products are given [inputs, times, samples], by their parameter; with a one at the end where a bias is added."""
    by_row = {reader.row: reader for reader in readers}
    found: dict[str, list[FloatArray]] = {}

    def observe(step: OperationInstance, _: FloatArray, read: Sequence[FloatArray]) -> None:
        if step.row not in by_row:
            return
        reader = by_row[step.row]
        inputs = read[1] if reader.on_left else read[0].swapaxes(0, 1)
        inputs = np.broadcast_to(inputs, (*inputs.shape[:2], len(features)))
        if reader.bias is not None:
            inputs = np.concatenate([inputs, np.ones((1, *inputs.shape[1:]))])
        found.setdefault(reader.parameter, []).append(inputs.copy())

    run_float(model.program, model.parameters, features, observe, steps)
    return {name: np.concatenate(inputs, axis=1) for name, inputs in found.items()}
