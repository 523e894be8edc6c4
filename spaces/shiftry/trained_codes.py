"""Codes of weights trained with the labels, for the formats that a candidate has: quantisation-aware training.

Fitted codes (`fitted_codes`) keep what the float model does, its mistakes on new samples too. With labels at hand a program of few bits may
become as right as the float model where it cannot be alike, and more so where that has learnt its samples by heart. In each step the float
program runs on some samples with noise, with the numbers that codes stand for as its weights, and with values in the formats of their
variables; gradients pass through rounding as if it were not there (Jacob et al., CVPR 2018; `format_values`). Samples with noise have the
sample's label (vicinal risk: Chapelle et al., NIPS 2000). The loss is the cross entropy with smoothed labels, at a temperature that is
learnt besides, since codes cannot grow (Guo et al., ICML 2017). Adam (Kingma and Ba, ICLR 2015) moves weights by shares of their
parameter's root mean square, and slows down as a cosine does.

Gradients are rounded to some bits before they are used, so that the last digits of sums, which hang on the machine, do not decide about
codes some thousand steps later.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps, sample_blocks, unrolled
from kilotune.codegen.reverse_accumulation import differentiable, summed_gradients
from kilotune.codegen.straight_line import OperationInstance
from kilotune.codegen.unit_pruning import FloatModel
from kilotune.evaluators.fixed_point.margins import deciding_step
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.fixed_point.pairwise_contests import ballot_of
from kilotune.search.space import Metrics
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.fitted_codes import with_encodings
from kilotune.spaces.shiftry.format_values import FormatValues
from kilotune.spaces.shiftry.formats import DEMOTED_BITS
from kilotune.spaces.shiftry.given_codes import given_codes
from kilotune.spaces.shiftry.label_descent import descended
from kilotune.spaces.shiftry.label_loss import chances, cross_entropy, smoothed
from kilotune.spaces.shiftry.met_samples import has_met
from kilotune.spaces.shiftry.trained_parameter import TrainedParameter

STEPS, LEAST_STEPS = 8000, 500
"""Steps of a training, and the fewest that are worth it."""

STEPS_OF_HALVES = 1000
"""Steps of a training with half of the samples, which tells what a training is worth on others. Of 300 samples beside which a model had
been trained with 4000, 71 % of the other half are right after 1000 and 65 % after 2000, and 72 % of test samples after a whole training
with all of them."""

MOST_PRODUCTS = 1e11
"""Multiplications of all steps forward: a quarter of an hour at the most (a CNN of 740 000 products a sample took 0.34 s a step). Larger
programs get fewer steps."""

MOST_EXECUTED, MOST_OPERATIONS = 2000, 4e6
"""Operations that a program may execute for a sample, and in all steps: each takes some 40 microseconds, so these two or three minutes."""

BATCH = 64
"""Samples a step."""

RUNS_A_SAMPLE = 16
"""Runs of fixed-point programs that moves of single codes take at the most, for each sample of a training. Such a run takes a twentieth to
an eightieth of what a sample of a training does (perceptrons, recurrent networks)."""

RATE = 0.006
"""How far Adam moves a weight in a step at first, as a share of its parameter's root mean square."""

NoiseRange = tuple[float, float]
"""Least and most standard deviations of a feature that a sample is moved by: how many is drawn for each sample."""

MUCH, LITTLE = (0.45, 0.45), (0.0, 0.6)
"""What is trained with at first, and what where that is less right on the training samples than the float model. On 12 generated
perceptrons and 13 on real data 0.3 is 0.7 and 0.3 points of test accuracy worse than 0.45, 0.2 another half a point; 0.6 is better by 0.1
and 0.2, at up to a point of training accuracy. Networks as small as they can be need samples that are nearly as they are."""

KEPT_BITS = 12
"""Significant bits of a gradient."""

MEAN, SPREAD = 0.9, 0.999
"""How slowly Adam forgets gradients and their squares."""

TIMED_STEPS = 8
"""Steps that tell how long a training takes."""

TOLD_OF = 1024
"""Samples whose float scores say what temperature training begins with."""


def why_not_trained(task: Task) -> str | None:
    """Why codes cannot be trained for a task, as the end of a sentence; None where they can."""
    steps = loop_steps(task.program)
    deciding = deciding_step(task.program, steps)
    if task.program.result_kind is not ir.ResultKind.CLASS or deciding is None:
        return "it returns no class that scores decide"
    if task.targets is None:
        return "its training samples have no labels"
    if ballot_of(deciding[1], deciding[0], steps, task.parameters) is not None:
        return "its class is a vote of several decisions"
    if not differentiable(task.program):
        return "it has operations whose derivative is not known"
    source = deciding[1].sources[0]
    classes = max(2, source.elements.size)
    labels = np.unique(task.targets)
    if len(labels) and (labels[0] < 0 or labels[-1] >= classes):
        return f"its labels are not numbers of its {classes} scores"
    if len(labels) < 2:
        return "its training samples are not of two classes, and of one nothing is learnt but to answer it always"
    executed = len(steps)
    if executed > MOST_EXECUTED:
        return f"it executes {executed} operations a sample, and at most {MOST_EXECUTED} are trained"
    return None


@dataclass
class Adam:
    """Moves numbers against their gradients (Kingma and Ba, Algorithm 1)."""

    numbers: FloatArray
    mean: FloatArray = field(init=False)
    spread: FloatArray = field(init=False)
    steps: int = 0

    def __post_init__(self) -> None:
        self.mean, self.spread = np.zeros_like(self.numbers), np.zeros_like(self.numbers)

    def descend(self, gradient: FloatArray, by: FloatArray | float) -> None:
        """A step of length about `by`."""
        self.steps += 1
        self.mean += (1.0 - MEAN) * (gradient - self.mean)
        self.spread += (1.0 - SPREAD) * (gradient * gradient - self.spread)
        spread = np.sqrt(self.spread / (1.0 - SPREAD**self.steps)) + 1e-30
        self.numbers = self.numbers - by * (self.mean / (1.0 - MEAN**self.steps)) / spread


class CodeTraining:
    """Trains the codes of candidates of one task, for which `why_not_trained` has no reason. Pickles."""

    def __init__(self, formats: ShiftryCandidates) -> None:
        self._formats = formats

    def given(self, batch: FixedBatch) -> dict[int, ParameterEncoding]:
        """By column the codes of a single candidate as they are rounded now, of all parameters of at most 16 bits."""
        return given_codes(self._formats, batch, 2 * DEMOTED_BITS)

    def why_not(self, batch: FixedBatch) -> str | None:
        """Why the codes of a single candidate stay as they are rounded, as the end of a sentence; None where they are trained."""
        if not self.given(batch):
            return "it has no parameters of at most 16 bits"
        if self.affordable(batch) < LEAST_STEPS:
            most = MOST_PRODUCTS / (BATCH * LEAST_STEPS)
            return f"it multiplies {self._products(batch):.0f} times a sample, and programs of at most {most:.0f} are trained"
        return None

    def encodings(self, batch: FixedBatch, most_steps: float = math.inf) -> dict[int, ParameterEncoding]:
        """By column the encodings of the parameters of a single candidate whose codes have been trained, in no more steps than that; as
        they are rounded where `why_not` has a reason. The same for the same candidate."""
        given = self.given(batch)
        if self.why_not(batch) is not None:
            return given
        steps = int(min(most_steps, self.affordable(batch)))
        found, score = _Training(self, batch, given).encodings(steps, MUCH), self.task.score.metric
        right = self._measured(batch, found)[score]
        if right >= self._formats.evaluator.float_metrics[score]:
            return found
        other = _Training(self, batch, given).encodings(steps, LITTLE)
        better = other if self._measured(batch, other)[score] >= right else found
        return descended(self._formats, batch, better, RUNS_A_SAMPLE * steps * BATCH)

    def _measured(self, batch: FixedBatch, encodings: Mapping[int, ParameterEncoding]) -> Metrics:
        """What a single candidate is like on the training samples with other codes."""
        return self._formats.evaluator.measure(with_encodings(batch, [encodings]))[0]

    def classes_by_halves(self, batch: FixedBatch) -> IntArray:
        """The class of each sample by a single candidate whose codes are trained with the other half of the samples: what a training is
        worth on samples that it has not seen. In STEPS_OF_HALVES steps, and of much noise."""
        given, count = self.given(batch), len(self.task.features)
        classes, half = np.zeros(count, dtype=np.int64), np.random.default_rng(0).permutation(count) % 2
        for one in (0, 1):
            training = _Training(self, batch, given, np.flatnonzero(half != one))
            steps = min(STEPS_OF_HALVES, self.affordable(batch))
            trained = with_encodings(batch, [training.encodings(steps, MUCH)])
            found = self._formats.evaluator.simulator.run(trained)[0, :, 0]
            classes[half == one] = found[half == one]
        return classes

    def seconds_a_step(self, batch: FixedBatch) -> float:
        """About how long a step of a training of a single candidate takes, by a few that are timed."""
        given = self.given(batch)
        _Training(self, batch, given).encodings(1, MUCH)
        began = time.monotonic()
        _Training(self, batch, given).encodings(TIMED_STEPS, MUCH)
        return (time.monotonic() - began) / TIMED_STEPS

    def affordable(self, batch: FixedBatch) -> int:
        """Steps of a training of a single candidate, however much time there is."""
        by_products = MOST_PRODUCTS / (BATCH * self._products(batch))
        return int(min(STEPS, by_products, MOST_OPERATIONS / len(self.steps)))

    def _products(self, batch: FixedBatch) -> float:
        counts = self._formats.evaluator.costs(batch)[0]
        return max(1.0, sum(count for name, count in counts.items() if name.startswith("multiplies")))

    @property
    def task(self) -> Task:
        """The program and its labelled samples."""
        return self._formats.task

    @cached_property
    def steps(self) -> LoopedSteps:
        """What is executed, without loops."""
        return unrolled(loop_steps(self.task.program))

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Which samples of a training step run at once: so many that the program runs them in one piece, and that what it reads, all of
        which is kept for the way back, takes no more memory either."""
        sources = (source for step in self.steps for source in step.sources)
        read = sum(source.elements.size for source in sources if source.variable not in self.task.parameters)
        return tuple(sample_blocks(max(self.steps.elements_at_once, read), BATCH))

    @cached_property
    def deciding(self) -> OperationInstance:
        """The step that decides about the class."""
        found = deciding_step(self.task.program, self.steps)
        assert found is not None
        return found[1]

    @cached_property
    def has_met_samples(self) -> bool:
        """See `met_samples.has_met`."""
        return has_met(self.task, self.steps, self.deciding.row)

    @cached_property
    def labels(self) -> IntArray:
        """Classes of the samples, from 0."""
        assert self.task.targets is not None
        return np.asarray(self.task.targets).astype(np.int64)

    @cached_property
    def temperature(self) -> float:
        """What float scores are multiplied by so that they tell most of the labels of some samples."""
        some = self.task.features[:TOLD_OF]
        blocks = sample_blocks(self.steps.elements_at_once, len(some))
        scores = np.concatenate([self._float_scores(some[block]) for block in blocks], axis=1)
        wanted = smoothed(self.labels[:TOLD_OF], len(scores))
        spread = max(float(np.abs(scores - scores.mean(axis=0) * (len(scores) > 1)).mean()), 1e-30)
        tried = [math.exp2(half / 2) / spread for half in range(-12, 13)]
        return min(tried, key=lambda factor: cross_entropy(factor * scores, wanted))

    def _float_scores(self, features: FloatArray) -> FloatArray:
        """What decides about the class in the float program [scores, samples], of so few samples that they run at once."""
        read = list[FloatArray]()

        def observe(step: OperationInstance, _: FloatArray, values: Sequence[FloatArray]) -> None:
            if step.row == self.deciding.row:
                read[:] = [values[0].copy()]

        run_float(self.task.program, self.task.parameters, features, observe, self.steps)
        return np.broadcast_to(read[0], (len(read[0]), len(features)))


class _Training:
    """The training of one candidate, with all samples or those of some numbers."""

    def __init__(
        self,
        of: CodeTraining,
        batch: FixedBatch,
        given: Mapping[int, ParameterEncoding],
        samples: IntArray | None = None,
    ) -> None:
        self._of, task = of, of.task
        self._samples = np.arange(len(task.features)) if samples is None else samples
        self._values = FormatValues(batch, BATCH)
        variables = task.program.variables
        self._parameters = {
            variables[column].name: TrainedParameter.of(
                encoding, variables[column], task.parameters[variables[column].name], int(batch.scales[0, column])
            )
            for column, encoding in given.items()
        }
        self._columns = {variables[column].name: column for column in given}
        self._temperature = of.temperature
        self._by_temperature = 0.0

    def encodings(self, steps: int, noise: NoiseRange) -> dict[int, ParameterEncoding]:
        """After so many steps on samples with noise."""
        lowest, highest, moves = (self._joined(what) for what in ("lowest", "highest", "moves"))
        weights, log_temperature = Adam(self._joined("values")), Adam(np.zeros(1))
        for number, (inputs, labels) in zip(range(steps), self._batches(noise), strict=False):
            rate = RATE * 0.5 * (1.0 + math.cos(math.pi * number / steps))
            weights.descend(_coarse(self._gradient(weights.numbers, inputs, labels)), rate * moves)
            np.clip(weights.numbers, lowest, highest, out=weights.numbers)
            log_temperature.descend(_coarse(np.array([self._by_temperature])), rate)
            self._temperature = self._of.temperature * math.exp(float(log_temperature.numbers[0]))
        found = self._split(weights.numbers)
        return {
            self._columns[name]: one.encoding.with_codes(one.codes(found[name]))
            for name, one in self._parameters.items()
        }

    def _batches(self, noise: NoiseRange) -> Iterator[tuple[FloatArray, IntArray]]:
        """Samples with noise, in the format of the input, [BATCH, features] and their labels, for ever."""
        task, rng, order = self._of.task, np.random.default_rng(0), np.zeros(0, dtype=np.int64)
        spread, (least, most) = task.features.std(axis=0), noise
        name = None if task.program.input is None else task.program.input.name
        while True:
            while len(order) < BATCH:
                order = np.concatenate([order, rng.permutation(self._samples)])
            chosen, order = order[:BATCH], order[BATCH:]
            deviations = spread * rng.uniform(least, most, (BATCH, 1))
            inputs = task.features[chosen] + deviations * rng.standard_normal((BATCH, task.features.shape[1]))
            yield (inputs if name is None else self._values.given(name, inputs)), self._of.labels[chosen]

    def _gradient(self, weights: FloatArray, inputs: FloatArray, labels: IntArray) -> FloatArray:
        """How the mean loss of some samples grows with each weight."""
        found = self._split(weights)
        rounded = {name: one.rounded(found[name]) for name, one in self._parameters.items()}
        model = FloatModel(self._of.task.program, {**self._of.task.parameters, **rounded})
        self._by_temperature = 0.0
        parts = [self._summed(model, inputs[block], labels[block]) for block in self._of.blocks]
        return np.asarray(np.sum(parts, axis=0))

    def _summed(self, model: FloatModel, inputs: FloatArray, labels: IntArray) -> FloatArray:
        """What samples that run at once add to that."""

        def seed(scores: FloatArray) -> FloatArray:
            scores = np.broadcast_to(scores, (len(scores), len(labels)))
            off = chances(self._temperature * scores) - smoothed(labels, len(scores))
            self._by_temperature += float((off * scores).sum()) * self._temperature / BATCH
            return np.asarray(off * (self._temperature / BATCH))

        self._values.begin()
        gradients = summed_gradients(model, self._of.steps, inputs, self._of.deciding.row, seed, self._values)
        return np.concatenate([gradients[name] for name in self._parameters])

    def _joined(self, what: str) -> FloatArray:
        return np.concatenate([getattr(one, what) for one in self._parameters.values()])

    def _split(self, numbers: FloatArray) -> dict[str, FloatArray]:
        ends = np.cumsum([len(one.values) for one in self._parameters.values()])[:-1]
        return dict(zip(self._parameters, np.split(numbers, ends), strict=True))


def _coarse(numbers: FloatArray) -> FloatArray:
    """Numbers with KEPT_BITS significant bits."""
    parts, powers = np.frexp(numbers)
    return np.asarray(np.ldexp(np.rint(np.ldexp(parts, KEPT_BITS)), powers - KEPT_BITS))
