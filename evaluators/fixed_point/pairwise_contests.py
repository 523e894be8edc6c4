"""The contest of classes that pairs vote for: votes do not say how sure they are; the decisions behind them do.

A program tells classes apart by pairs where its last ArgMax reads votes, a product of constants with the signs of decisions (`Select` of
1 and -1), one
for each pair, as support vector machines of several classes have it. What is closest to changing a sample's class is the decision
nearest to zero of those whose change of sign would change the class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, Int32Array, IntArray
from kilotune.codegen.looped_steps import LoopedSteps
from kilotune.codegen.straight_line import OperationInstance

CHOICES = (ir.Literal(1.0), ir.Literal(-1.0))
"""What a decision above zero becomes, and any other."""

SAMPLES_AT_ONCE = 1 << 9
"""Looked at in one piece, so that votes after every change of a sign take little memory."""


@dataclass(frozen=True, eq=False)
class Ballot:
    """`decisions` [pairs] are elements of `variable`; `votes` [classes, pairs] times their signs are the votes. The last sign is taken
    in step `step` of all that are executed; those that take one are executions of the operation in row `row`."""

    variable: str
    decisions: Int32Array
    votes: FloatArray
    step: int
    row: int


def ballot_of(
    deciding: OperationInstance, number: int, steps: LoopedSteps, parameters: Mapping[str, FloatArray]
) -> Ballot | None:
    """The ballot that step `number`, the `deciding` one, ends; None where it is none."""
    before = islice(reversed(steps), len(steps) - number, None)
    product = next(before, None)
    if product is None or not isinstance(deciding.operation, ir.ArgMax) or not isinstance(product.operation, ir.MatMul):
        return None
    weights, signs = product.sources
    read = deciding.sources[0]
    if (
        weights.variable is None
        or weights.variable not in parameters
        or product.operation.out.variable != read.variable
    ):
        return None
    if not np.array_equal(product.out.reshape(-1), read.elements.reshape(-1)):
        return None
    taken = _signs(before, signs.variable, signs.elements.reshape(-1).tolist())
    if taken is None:
        return None
    places, last = taken
    votes = np.asarray(parameters[weights.variable], dtype=np.float64).reshape(-1)[weights.elements]
    first = product.operation
    assert isinstance(first, ir.MatMul)
    variable = last.sources[0].variable
    assert variable is not None
    return Ballot(variable, places, votes, number - 2, last.row)


def _signs(
    before: Iterator[OperationInstance], variable: str | None, elements: Sequence[int]
) -> tuple[Int32Array, OperationInstance] | None:
    """The element of one variable that each of the `elements` is the sign of, and the last step that takes one; None where they are
    something else."""
    found, last = dict[int, int](), None
    for step in islice(before, len(elements)):
        operation = step.operation
        if not isinstance(operation, ir.Select) or not operation.strict or (operation.a, operation.b) != CHOICES:
            return None
        last = last or step
        if step.row != last.row or operation.out.variable != variable or step.sources[0].variable is None:
            return None
        found[int(step.out.reshape(-1)[0])] = int(step.sources[0].elements.reshape(-1)[0])
    if last is None or sorted(found) != sorted(elements):
        return None
    return np.array([found[element] for element in elements], dtype=np.int32), last


def closest_decisions(ballot: Ballot, decisions: FloatArray) -> tuple[IntArray, FloatArray]:
    """For each sample the place of the decision nearest to zero of those whose change of sign would change the class (of all, where no
    single one does), and its distance from zero. decisions: [pairs, samples]."""
    places, distances = np.empty(decisions.shape[1], dtype=np.int64), np.empty(decisions.shape[1])
    for start in range(0, decisions.shape[1], SAMPLES_AT_ONCE):
        part = slice(start, start + SAMPLES_AT_ONCE)
        values = decisions[:, part]
        signs = np.where(values > 0, 1.0, -1.0)
        votes = ballot.votes @ signs  # [classes, samples]
        changed = votes[:, None, :] - 2.0 * ballot.votes[:, :, None] * signs[None]  # [classes, pairs, samples]
        matters = changed.argmax(axis=0) != votes.argmax(axis=0)
        matters |= ~matters.any(axis=0)
        away = np.where(matters, np.abs(values), np.inf)
        places[part] = away.argmin(axis=0)
        distances[part] = away.min(axis=0)
    return places, distances
