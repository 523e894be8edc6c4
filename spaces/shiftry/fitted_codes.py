"""Codes of weights chosen for the whole program: what rounding loses in one place, rounding in another makes up for.

Sequential rounding keeps the sums of one operation (`codegen.fixed.sequential_rounding`). Here the choice is AdaRound's (Nagel et al., ICML
2020) at first, each weight goes to the code below it or to the one above, but what is minimised is the error of the program as it is, with
all its widths, scales and tables: the root mean square by which a classifier's margins are off (of numerical models the expected error),
on the training samples and on inputs like them. Where that gains no more, weights go on from the codes that they have, one code at a time.
It is descent by measurements: moves of a few weights are measured together, and those that gain are made. Neither flash nor RAM nor cycles
change.

It is not the flips to be expected, by which searches rank: these take errors of all samples as one normal distribution, so that margins
which are too wide by the same amount everywhere count as safety. A fit finds such programs, whose scores jump where the class changes:
they are expected to flip next to nothing, and flip as many new inputs as rounded ones. Nor is it a count of flips, of which those on the
inputs that are fitted to are undone one by one. Errors of margins say most about new inputs where margins are small, so of the inputs that
are made up those nearest to another class are taken.

That codes stay beside their weights at first is worth more than the time that it saves: those that may go anywhere from the beginning lose
0.2 points more on test samples of generated models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.evaluators.fixed_point.similar_inputs import similar_inputs
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.formats import DEMOTED_BITS
from kilotune.spaces.shiftry.given_codes import given_codes, stored_parameters

INPUTS_A_SAMPLE = 4
"""Similar inputs that are made for each training sample."""

LOOKED_THROUGH = 2
"""Similar inputs that are made for each one that is taken, of a classifier: those with the smallest margins are."""

MOST_INPUTS = 8192
"""Inputs that moves are measured on, the training samples among them, which come first."""

MEASURED_TOGETHER = 32
"""Weights whose moves are measured in one batch."""

MOST_SWEEPS = 8
"""Times that every weight is asked, beside its value and then beside its code; a sweep without a gain is the last of its kind."""

RELATIVE_TIME = 0.25
"""What measuring a move takes beside measuring a candidate of other formats on as many samples."""

USUAL_MOVES = 10
"""Moves of a weight that are measured in a fit, on average."""

MOST_PRODUCTS = 2e12
"""Multiplications of all measurements: some forty seconds. What is left then keeps the codes that it has."""


@dataclass(frozen=True)
class Weight:
    """One weight: parameter (its column) and place among its values."""

    column: int
    place: int


NearCodes = tuple[int, int]
"""Two codes that a weight may have, of a smaller integer and of a larger one."""


@dataclass(frozen=True)
class CodeMove:
    """Another code for one weight."""

    weight: Weight
    code: int


class CodeFitting:
    """Fits the codes of candidates of one task. Pickles."""

    def __init__(self, formats: ShiftryCandidates) -> None:
        self._formats = formats

    def encodings(self, batch: FixedBatch) -> dict[int, ParameterEncoding]:
        """By column the encodings of the parameters of a single candidate whose codes have been fitted. The same for the same candidate."""
        evaluator = self._evaluator.afresh()  # what it keeps of every code that was tried goes with it
        encodings, around = self.given(batch), dict(self._around(batch))
        rng, left = np.random.default_rng(0), MOST_PRODUCTS / self._products(batch)
        loss = self._losses(evaluator, batch, [encodings])[0]
        weights, beside_values, sweeps = list(around), True, 0
        while True:
            before, sweeps = loss, sweeps + 1
            ordered = [weights[i] for i in rng.permutation(len(weights))]
            for start in range(0, len(ordered), MEASURED_TOGETHER):
                asked = ordered[start : start + MEASURED_TOGETHER]
                near = (
                    [around[weight] for weight in asked]
                    if beside_values
                    else codes_beside(self._formats, batch, encodings, asked)
                )
                moves = moves_to(encodings, asked, near)
                left -= len(moves)
                if left < 0:
                    return encodings
                if moves:
                    encodings, loss = self._bettered(evaluator, batch, encodings, loss, moves)
            if loss >= before or sweeps == MOST_SWEEPS:
                if not beside_values:
                    return encodings
                beside_values, sweeps = False, 0

    @cached_property
    def candidates_a_fit(self) -> float:
        """About as many candidates as are measured on the training samples alone while one is fitted."""
        task = self._formats.task
        weights = sum(np.count_nonzero(values) for _, values in stored_parameters(self._formats))
        inputs = len(self._evaluator.task.features) / len(task.features)
        return 1.0 + RELATIVE_TIME * USUAL_MOVES * weights * inputs

    @cached_property
    def _evaluator(self) -> FixedPointEvaluator:
        """An evaluator of the training samples and what is like them. No count matters, so there are no targets."""
        samples = self._formats.task.features[:MOST_INPUTS]
        count = min(INPUTS_A_SAMPLE * len(samples), MOST_INPUTS - len(samples))
        return self._on(np.concatenate([samples, self._made(samples, count)]), margin_errors=True)

    def _made(self, samples: FloatArray, count: int) -> FloatArray:
        """So many inputs like the samples; of a classifier such as are close to another class."""
        inputs = similar_inputs(samples, LOOKED_THROUGH * count)
        margins = self._on(inputs).float_margins if count else None
        if margins is None:
            return similar_inputs(samples, count)
        return inputs[np.argsort(margins, kind="stable")[:count]]

    def _on(self, features: FloatArray, *, margin_errors: bool = False) -> FixedPointEvaluator:
        task = replace(self._formats.task, features=features, targets=np.zeros(len(features)))
        return self._formats.evaluator.on(task, margin_errors=margin_errors)

    def _products(self, batch: FixedBatch) -> float:
        counts = self._formats.evaluator.costs(batch)[0]
        multiplies = sum(count for name, count in counts.items() if name.startswith("multiplies"))
        return max(1.0, multiplies) * len(self._evaluator.task.features)

    def given(self, batch: FixedBatch) -> dict[int, ParameterEncoding]:
        """By column the codes of a single candidate as they are rounded now, of all parameters of at most 8 bits."""
        return given_codes(self._formats, batch, DEMOTED_BITS)

    def _around(self, batch: FixedBatch) -> Iterator[tuple[Weight, NearCodes]]:
        """The code below every weight that may move, and the one above; of sparse matrices only stored weights move."""
        encodings, values, scales = self.given(batch), dict(stored_parameters(self._formats)), batch.scales[0].tolist()
        near = {column: encodings[column].around(values[column], int(scales[column])) for column in encodings}
        for weight in weights_that_move(self._formats, encodings):
            below, above = near[weight.column]
            yield weight, (int(below.reshape(-1)[weight.place]), int(above.reshape(-1)[weight.place]))

    def _bettered(
        self,
        evaluator: FixedPointEvaluator,
        batch: FixedBatch,
        encodings: Mapping[int, ParameterEncoding],
        loss: float,
        moves: list[CodeMove],
    ) -> tuple[dict[int, ParameterEncoding], float]:
        """The encodings with the moves that gain: all of them, the better half or the best, whichever gains most."""
        alone = self._losses(evaluator, batch, [moved(encodings, [move]) for move in moves])
        gains = [i for i in np.argsort(alone, kind="stable").tolist() if alone[i] < loss]
        if not gains:
            return dict(encodings), loss
        sets = [[moves[i] for i in gains[:count]] for count in dict.fromkeys((1, (len(gains) + 1) // 2, len(gains)))]
        made = [moved(encodings, chosen) for chosen in sets]
        losses = [float(alone[gains[0]]), *self._losses(evaluator, batch, made[1:])]
        best = int(np.argmin(losses))
        return made[best], losses[best]

    def _losses(
        self, evaluator: FixedPointEvaluator, batch: FixedBatch, sets: list[dict[int, ParameterEncoding]]
    ) -> FloatArray:
        if not sets:
            return np.zeros(0)
        measured = evaluator.measure(with_encodings(batch, sets))
        return np.array([metrics[evaluator.additive_error] for metrics in measured])


def weights_that_move(formats: ShiftryCandidates, encodings: Mapping[int, ParameterEncoding]) -> Iterator[Weight]:
    """Every weight of the parameters that have encodings; of sparse matrices only stored ones."""
    for column, values in stored_parameters(formats):
        if column in encodings:
            sparse = formats.task.program.variables[column].sparse
            for place in np.flatnonzero(values).tolist() if sparse else range(values.size):
                yield Weight(column, place)


def codes_beside(
    formats: ShiftryCandidates, batch: FixedBatch, encodings: Mapping[int, ParameterEncoding], weights: Sequence[Weight]
) -> list[NearCodes]:
    """The codes beside those that some weights of a single candidate have."""
    values, scales = dict(stored_parameters(formats)), batch.scales[0].tolist()
    return [encodings[w.column].beside(code_of(encodings, w), values[w.column], int(scales[w.column])) for w in weights]


def moves_to(
    encodings: Mapping[int, ParameterEncoding], weights: Sequence[Weight], near: Sequence[NearCodes]
) -> list[CodeMove]:
    """What moves each weight to either of the codes near it that it does not have."""
    pairs = [(weight, code) for weight, codes in zip(weights, near, strict=True) for code in codes]
    return [CodeMove(weight, code) for weight, code in pairs if code != code_of(encodings, weight)]


def code_of(encodings: Mapping[int, ParameterEncoding], weight: Weight) -> int:
    """The code that a weight has."""
    given = encodings[weight.column].given
    assert given is not None
    return int(given.codes.reshape(-1)[weight.place])


def moved(encodings: Mapping[int, ParameterEncoding], moves: list[CodeMove]) -> dict[int, ParameterEncoding]:
    """The encodings after some moves, of which the first of a weight counts."""
    codes: dict[int, IntArray] = {}
    done: set[Weight] = set()
    for move in moves:
        weight = move.weight
        given = encodings[weight.column].given
        assert given is not None
        of_column = codes.setdefault(weight.column, given.codes.copy())
        if weight not in done:
            of_column.reshape(-1)[weight.place] = move.code
            done.add(weight)
    result = dict(encodings)
    for column, array in codes.items():
        given = encodings[column].given
        assert given is not None
        result[column] = replace(encodings[column], given=replace(given, codes=array))
    return result


def with_encodings(batch: FixedBatch, sets: Sequence[Mapping[int, ParameterEncoding]]) -> FixedBatch:
    """A single candidate with one of several sets of encodings by column, as a batch of so many."""
    numbers: dict[ParameterEncoding, int] = {}
    encoded = np.repeat(batch.encoded, len(sets), axis=0)
    for row, encodings in zip(encoded, sets, strict=True):
        for column, encoding in encodings.items():
            row[column] = numbers.setdefault(encoding, len(numbers))
    times = [0] * len(sets)
    return replace(
        batch,
        bits=batch.bits[times],
        scales=batch.scales[times],
        rows=batch.rows[times],
        encoded=encoded,
        encodings=tuple(numbers),
    )
