"""Weights rounded so that the sums of products they are in keep their values, not each weight its own.

The error of a sum w.x, for rounding errors d of its weights and inputs of second moment H = E[x x^T], is d^T H d on average.
Weights are rounded one after the other, those of the largest inputs first, and what one loses the later ones make up for:
sequential rounding of second order (Frantar and Alistarh, "Optimal Brain Compression", NeurIPS 2022; Frantar et al., "GPTQ", ICLR
2023). Then every code moves to the best one given all others, until none does: the rounding problem of AdaRound (Nagel et al., ICML
2020), solved by descent a coordinate at a time. Inputs are those of the float program on the training data. All is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.straight_line import NOWHERE, Elements, OperationInstance

DAMPING = 0.01
"""What is added to the second moment of each input, in mean second moments, so that weights without input are held too (as GPTQ does)."""

MOST_SWEEPS = 20
"""Passes of the descent over all codes; it ends before, as a rule."""

Nearest = Callable[[FloatArray], IntArray]
"""The nearest code of every number."""


@dataclass(frozen=True, eq=False)
class WeightGroup:
    """Sums whose inputs are the same: elements [length, sums] of a parameter, and the second moment [length, length] of the inputs."""

    elements: Elements
    moment: FloatArray

    @cached_property
    def damped(self) -> FloatArray:
        """The second moment, made positive definite."""
        diagonal = np.diag(self.moment)
        mean = float(diagonal.mean()) or 1.0
        return np.asarray(self.moment + DAMPING * mean * np.eye(len(diagonal)))

    @cached_property
    def order(self) -> IntArray:
        """Weights by their inputs' second moment, the largest first."""
        return np.argsort(-np.diag(self.moment), kind="stable")

    @cached_property
    def factor(self) -> FloatArray:
        """The upper Cholesky factor of the inverse of `damped`, in that order."""
        inverse = np.linalg.inv(self.damped[np.ix_(self.order, self.order)])
        return np.ascontiguousarray(np.linalg.cholesky((inverse + inverse.T) / 2).T)


@dataclass(frozen=True, eq=False)
class SequentialRounding:
    """Rounds the weights of one parameter. `sparse`: zeros are not stored, so they stay zero."""

    groups: tuple[WeightGroup, ...]
    sparse: bool

    def codes(self, scaled: FloatArray, nearest: Nearest) -> IntArray:
        """Codes of a parameter whose values are `scaled` to units of the codes; what is in no group goes to the nearest one."""
        flat = np.asarray(scaled, dtype=np.float64).reshape(-1)
        codes = nearest(flat)
        for group in self.groups:
            weights = flat[group.elements]
            first = nearest(weights) if self.sparse else _in_sequence(weights, group, nearest)
            kept = weights != 0 if self.sparse else np.ones(weights.shape, dtype=np.bool_)
            codes[group.elements] = _descended(weights, np.where(kept, first, 0), kept, group, nearest)
        return codes.reshape(np.shape(scaled))


def _in_sequence(weights: FloatArray, group: WeightGroup, nearest: Nearest) -> IntArray:
    """Codes [length, sums], one row after the other; the rows that are left take over each one's error."""
    left, factor = weights[group.order].copy(), group.factor
    codes = np.empty(weights.shape, dtype=np.int64)
    for place, row in enumerate(group.order):
        codes[row] = nearest(left[place])
        error = (left[place] - codes[row]) / factor[place, place]
        left[place + 1 :] -= np.outer(factor[place, place + 1 :], error)
    return codes


def _descended(
    weights: FloatArray, codes: IntArray, kept: np.ndarray, group: WeightGroup, nearest: Nearest
) -> IntArray:
    """Codes of no more error d^T H d, none of which alone can be bettered."""
    moment = group.damped
    errors = np.where(kept, weights - codes, weights)
    slopes = moment @ errors
    for _ in range(MOST_SWEEPS):
        moved = False
        for row in group.order:
            around = slopes[row] - moment[row, row] * errors[row]
            found = nearest(weights[row] + around / moment[row, row])  # where the slope of the error is zero
            lost, gained = errors[row], weights[row] - found
            better = kept[row] & (
                moment[row, row] * (gained**2 - lost**2) + 2 * around * (gained - lost) < -1e-9 * moment[row, row]
            )
            if better.any():
                moved = True
                change = np.where(better, gained - lost, 0.0)
                codes[row] = np.where(better, found, codes[row])
                errors[row] = errors[row] + change
                slopes += np.outer(moment[:, row], change)
        if not moved:
            break
    return codes


def sequential_roundings(
    program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray
) -> dict[str, SequentialRounding]:
    """One for every parameter whose weights are in sums of products with what `features` [samples, features] let vary.

    A weight that is in sums of different groups is left to the first of them.
    """
    known: dict[str, dict[bytes, WeightGroup]] = {}
    fixed = {v.name for v in program.variables if v.role is ir.Role.PARAMETER}

    def observe(step: OperationInstance, written: FloatArray, read: Sequence[FloatArray]) -> None:
        for name, elements, inputs in _weighted_inputs(step, read, fixed):
            groups = known.setdefault(name, {})
            before = groups.get(elements.tobytes())
            moment = inputs @ inputs.T + (0.0 if before is None else before.moment)
            groups[elements.tobytes()] = WeightGroup(elements, moment)

    run_float(program, parameters, features, observe)
    sparse = {v.name: v.sparse for v in program.variables}
    return {
        name: SequentialRounding(_apart(groups.values()), sparse[name])
        for name, groups in known.items()
        if any(len(group.moment) > 1 for group in groups.values())
    }


def _weighted_inputs(
    step: OperationInstance, read: Sequence[FloatArray], fixed: Collection[str]
) -> Iterator[tuple[str, Elements, FloatArray]]:
    """The parameter in a step's products, its elements [length, sums], and what they are multiplied by [length, times]; none where
    there are no products, or both operands or neither are `fixed`."""
    if not isinstance(step.operation, ir.Product):
        return
    left, right = (source.variable or "" for source in step.sources)
    if (left in fixed) == (right in fixed):
        return
    padded = (step.sources[0].elements == NOWHERE)[..., None]
    if left in fixed:
        yield left, step.sources[0].elements.T, read[1].reshape(len(read[1]), -1)
    else:
        inputs = np.where(padded, 0.0, read[0]).swapaxes(0, 1)
        yield right, step.sources[1].elements, inputs.reshape(len(inputs), -1)


def _apart(groups: Iterable[WeightGroup]) -> tuple[WeightGroup, ...]:
    """Groups without those that share a weight with an earlier one."""
    taken: set[int] = set()
    kept = []
    for group in groups:
        own = set(group.elements.reshape(-1).tolist())
        if not own & taken:
            kept.append(group)
            taken |= own
    return tuple(kept)
