"""By how much the class that the float program predicts beats its rival: what of a classifier's outputs says how sure it is.

The last ArgMax (or Sign) of a program reads scores. Of every sample the float program's best score is the leader, its second best
one the rival; of a sign, the score and zero. A fixed-point program predicts the same class, but for others than these two,
while its own margin, leader less rival, stays positive. Where that ArgMax reads votes (`pairwise_contests`), the decision that the class
hangs on and zero contest, whichever is larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, Int32Array, IntArray
from kilotune.codegen.float_evaluator import FloatRun, Observer, run_float
from kilotune.codegen.looped_steps import LoopedSteps, sample_blocks
from kilotune.codegen.parallel_loops import with_rounds_at_once
from kilotune.codegen.straight_line import NOWHERE, OperationInstance, elements_of
from kilotune.evaluators.fixed_point.pairwise_contests import Ballot, ballot_of, closest_decisions

UNIT_BITS = 24
"""Binary digits of the largest float margin as an integer."""


BLOCK_SAMPLES = 1 << 14
"""Looked at in one piece: so many squares of UNIT_BITS bits each fit 64 bits."""


class MarginSums(NamedTuple):
    """Sums over the samples of a candidate's margins, integers at the scale of its scores: of the margins, of their squares, and of
    their products with the float program's margins in units of the contest. Exact, so in any order the same."""

    margins: int
    squares: int
    products: int


NO_SUMS = MarginSums(0, 0, 0)
EVERY = slice(None)


@dataclass(frozen=True)
class Contest:
    """Who is ahead of whom, by the float program.

    `step`: number of the deciding step among all that are executed, after which scores are read. `variable` holds the scores; `leaders` and
    `rivals` [samples] are elements of it, NOWHERE standing for zero. `margins` [samples]: the float ones, never negative; what
    is not finite is taken as the largest finite one. `unseen` [inputs]: float margins of inputs that the model was not trained on, where
    flips are expected by these; None where they are by `margins`.
    """

    step: int
    variable: str
    leaders: Int32Array
    rivals: Int32Array
    margins: FloatArray
    unseen: FloatArray | None = None

    @cached_property
    def scale(self) -> int:
        """The float margins times 2**scale, as integers, have UNIT_BITS bits at most."""
        largest = float(self.margins.max(initial=0.0, where=np.isfinite(self.margins)))
        return UNIT_BITS - math.frexp(largest)[1] if largest else 0

    @cached_property
    def units(self) -> Int32Array:
        """The float margins [samples] in units of 2**-scale, rounded."""
        return self._in_units(self.margins)

    @cached_property
    def unit_sums(self) -> tuple[int, int]:
        """The sum of `units`, and of their squares."""
        return self.sums_of_first(self.units.size)

    def sums_of_first(self, samples: int) -> tuple[int, int]:
        """As `unit_sums`, of the first samples."""
        total, squares = 0, 0
        for start in range(0, samples, BLOCK_SAMPLES):
            units = self.units[start : min(samples, start + BLOCK_SAMPLES)].astype(np.int64)
            total, squares = total + int(units.sum()), squares + int((units * units).sum())
        return total, squares

    @cached_property
    def ascending(self) -> Int32Array:
        """Margins that flips are expected by, sorted [samples]: `units`, or as many quantiles of the `unseen` ones, in the same unit."""
        if self.unseen is None or not self.unseen.size:
            return np.sort(self.units)
        known = np.sort(self._in_units(self.unseen))
        middles = (np.arange(self.units.size) + 0.5) * (known.size / max(1, self.units.size)) - 0.5
        quantiles: Int32Array = np.rint(np.interp(middles, np.arange(known.size), known)).astype(np.int32)
        return quantiles

    def _in_units(self, margins: FloatArray) -> Int32Array:
        most = (1 << UNIT_BITS) - 1
        units = np.empty(margins.shape, dtype=np.int32)
        for start in range(0, units.size, BLOCK_SAMPLES):
            block = margins[start : start + BLOCK_SAMPLES]
            known = np.where(np.isfinite(block), block, np.inf)
            units[start : start + BLOCK_SAMPLES] = np.minimum(np.rint(np.ldexp(known, self.scale)), most)
        return units

    def sums(self, scores: IntArray, block: slice = EVERY) -> MarginSums:
        """Sums of a candidate's scores [elements of the variable, samples of the block] (or [.., 1], the same for all)."""
        leaders, rivals = self.leaders[block], self.rivals[block]
        scores = np.broadcast_to(scores, (scores.shape[0], leaders.size))
        margins = self._taken(scores, leaders) - self._taken(scores, rivals)
        exact = margins.astype(object)  # a square of 32-bit scores is beyond 64 bits
        units = self.units[block].astype(object)
        return MarginSums(int(exact.sum()), int((exact * exact).sum()), int((exact * units).sum()))

    @staticmethod
    def _taken(scores: IntArray, elements: Int32Array) -> IntArray:
        return np.where(elements == NOWHERE, 0, scores[elements, np.arange(elements.size)])


def float_contest(
    program: ir.Program,
    parameters: Mapping[str, FloatArray],
    features: FloatArray,
    steps: LoopedSteps,
    observe: Observer | None = None,
) -> tuple[FloatRun, Contest | None]:
    """The float program's run on `features` [samples, features], and the contest that ends it; None where nothing is contested. `observe`
    hears of every step, as in `run_float`."""
    deciding = deciding_step(program, steps)
    ballot = None if deciding is None else ballot_of(deciding[1], deciding[0], steps, parameters)
    executed = with_rounds_at_once(steps)
    outputs, contests = np.empty((len(features), program.result.size)), list[Contest]()
    for block in sample_blocks(executed.elements_at_once, len(features)):
        last = _LastScores(program, deciding, observe, ballot)
        outputs[block] = run_float(program, parameters, features[block], last.observe, executed).outputs
        if ballot is not None:
            contests.append(contest_of_ballot(ballot, last.decisions(len(features[block]))))
        elif deciding is not None:
            found = contest_of(deciding[1], deciding[0], last.scores, len(features[block]))
            contests.extend(() if found is None else (found,))
    return FloatRun(outputs), _joined(contests) if contests else None


@dataclass
class _LastScores:
    """What the deciding operation has read when it wrote the label for the last time; of a ballot, what its signs were taken of."""

    program: ir.Program
    deciding: tuple[int, OperationInstance] | None
    others: Observer | None
    ballot: Ballot | None = None
    scores: FloatArray = field(default_factory=lambda: np.zeros((1, 1)))
    signed: dict[int, FloatArray] = field(default_factory=dict)

    def observe(self, step: OperationInstance, result: FloatArray, read: Sequence[FloatArray]) -> None:
        if self.deciding is not None and step.row == self.deciding[1].row and _label(self.program) in step.out:
            self.scores = read[0].copy()
        if self.ballot is not None and step.row == self.ballot.row:
            self.signed.update(zip(step.sources[0].elements.reshape(-1).tolist(), read[0].copy(), strict=True))
        if self.others is not None:
            self.others(step, result, read)

    def decisions(self, samples: int) -> FloatArray:
        """What the ballot's signs were taken of [pairs, samples]."""
        assert self.ballot is not None
        return np.stack([np.broadcast_to(self.signed[place], samples) for place in self.ballot.decisions.tolist()])


def contest_of_ballot(ballot: Ballot, decisions: FloatArray) -> Contest:
    """Zero and the decision that the class hangs on, of each sample. decisions: [pairs, samples]."""
    pairs, margins = closest_decisions(ballot, decisions)
    elements = ballot.decisions[pairs]
    nowhere = np.full_like(elements, NOWHERE)
    above = decisions[pairs, np.arange(len(pairs))] > 0
    leaders, rivals = np.where(above, elements, nowhere), np.where(above, nowhere, elements)
    return Contest(ballot.step, ballot.variable, leaders, rivals, margins)


def _joined(contests: list[Contest]) -> Contest:
    """The contest of all samples, from those of blocks of them, which are forgotten on the way."""
    first, samples = contests[0], sum(one.leaders.size for one in contests)
    leaders, rivals = np.empty(samples, dtype=np.int32), np.empty(samples, dtype=np.int32)
    margins, end = np.empty(samples), samples
    while contests:
        last = contests.pop()
        block = slice(end - last.leaders.size, end)
        leaders[block], rivals[block], margins[block] = last.leaders, last.rivals, last.margins
        end = block.start
    return Contest(first.step, first.variable, leaders, rivals, margins)


def deciding_step(program: ir.Program, steps: LoopedSteps) -> tuple[int, OperationInstance] | None:
    """The last of all executed steps that writes the label, and its number among them; None for a program that returns no class, or always
    the same one."""
    if program.result_kind is not ir.ResultKind.CLASS:
        return None
    for back, step in enumerate(reversed(steps), start=1):
        if step.operation.out.variable == program.result.variable and _label(program) in step.out:
            decides = isinstance(step.operation, ir.INTEGER_RESULTS) and step.sources[0].variable is not None
            return (len(steps) - back, step) if decides else None
    return None


def _label(program: ir.Program) -> int:
    """The element of the result's variable that is returned."""
    return int(elements_of(program.result, {}).reshape(-1)[0])


def contest_of(step: OperationInstance, number: int, scores: FloatArray, samples: int) -> Contest | None:
    """The contest that a deciding step ends. `scores` [elements read, samples or 1]: what it read in the float program.

    Of equal scores the first one leads, as ArgMax has it. None for an ArgMax of one score, which nothing can beat.
    """
    source = step.sources[0]
    values = np.broadcast_to(scores, (scores.shape[0], samples))
    elements = source.elements.reshape(-1)
    if isinstance(step.operation, ir.Sign):
        ahead, nowhere = values[0] > 0, np.full(samples, NOWHERE, dtype=np.int32)
        scored = np.full(samples, elements[0], dtype=np.int32)
        leaders, rivals = np.where(ahead, scored, nowhere), np.where(ahead, nowhere, scored)
        margins = np.abs(values[0])
    elif elements.size < 2:
        return None
    else:
        every = np.arange(samples)
        first = values.argmax(axis=0)
        others = values.copy()
        others[first, every] = -np.inf
        second = others.argmax(axis=0)
        leaders, rivals = elements[first], elements[second]
        margins = values[first, every] - values[second, every]
    return Contest(number, source.variable or "", leaders.astype(np.int32), rivals.astype(np.int32), margins)
