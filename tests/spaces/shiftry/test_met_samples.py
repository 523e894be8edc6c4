"""Whether a model has been trained with samples, by how their gradients cancel out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen import ir, looped_steps
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.looped_steps import loop_steps
from kilotune.evaluators.fixed_point.margins import deciding_step
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.spaces.shiftry.label_loss import chances, smoothed
from kilotune.spaces.shiftry.met_samples import cancelled, has_met
from tests.codegen.fixed.programs import HERE, variable

FEATURES, CLASSES = 6, 3


def linear(weights: FloatArray, features: FloatArray, labels: FloatArray) -> Task:
    """Scores are the features times weights [FEATURES, scores]; the class is the largest one's number, or the sign of a single one."""
    scores = weights.shape[1]
    made = [
        variable("X", (1, FEATURES), ir.Role.INPUT),
        variable("W", weights.shape, ir.Role.PARAMETER),
        variable("s", (1, scores) if scores > 1 else ()),
        variable("label", ()),
    ]
    v = {one.name: ir.whole(one) for one in made}
    score = ir.View("s", (1, scores), (scores, 1), ir.Affine(0, ()))
    label = ir.ArgMax(v["label"], HERE, v["s"]) if scores > 1 else ir.Sign(v["label"], HERE, v["s"])
    body = (ir.MatMul(score, HERE, v["X"], v["W"]), label)
    program = ir.Program("linear", tuple(made), body, v["label"], ir.ResultKind.CLASS)
    return Task(program, {"W": weights}, features, labels)


def drawn(seed: int, count: int, scores: int) -> tuple[FloatArray, FloatArray]:
    """Samples whose labels are uncertain by the same model each time."""
    truth = np.random.default_rng(0).normal(0, 0.7, (FEATURES, scores))
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 1, (count, FEATURES))
    likely = chances((features @ truth).T)
    if scores == 1:
        return features, (rng.random(count) < likely[0]).astype(float)
    return features, np.array([rng.choice(scores, p=one) for one in likely.T]).astype(float)


def trained(features: FloatArray, labels: FloatArray, scores: int) -> FloatArray:
    """Weights of the least cross entropy on samples, by gradient descent."""
    weights, wanted = np.zeros((FEATURES, scores)), smoothed(labels.astype(int), scores, 0.0)
    for _ in range(400):
        weights -= features.T @ (chances((features @ weights).T) - wanted).T / len(features)
    return weights


def found(task: Task) -> tuple[float, float, bool]:
    """The ratio, the directions, and whether the samples have been met."""
    steps = loop_steps(task.program)
    deciding = deciding_step(task.program, steps)
    assert deciding is not None
    row = deciding[1].row
    return (*cancelled(task, steps, row), has_met(task, steps, row))


@pytest.mark.parametrize("scores", [1, CLASSES])
@pytest.mark.parametrize("count", [40, 300])
def test_gradients_of_samples_that_a_model_was_trained_with_cancel_out(scores: int, count: int) -> None:
    features, labels = drawn(1, count, scores)
    ratio, _, met = found(linear(trained(features, labels, scores), features, labels))
    assert ratio < 0.01
    assert met
    weights = trained(*drawn(100, 20000, scores), scores)
    others = [found(linear(weights, *drawn(seed, count, scores))) for seed in range(2, 102)]
    assert np.mean([ratio for ratio, *_ in others]) == pytest.approx(1.0, abs=0.2)
    assert sum(met for *_, met in others) <= 3, "of 100 that it has not met"
    assert all(1.0 <= directions <= FEATURES * scores * 1.3 for _, directions, _ in others)


def test_it_is_the_mean_gradient_beside_their_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, all samples together or a few at a time."""
    features, labels = drawn(3, 50, CLASSES)
    weights = np.random.default_rng(4).normal(size=(FEATURES, CLASSES))
    off = (chances((features @ weights).T) - np.eye(CLASSES)[labels.astype(int)].T).T
    gradients = (features[:, :, None] * off[:, None, :]).reshape(50, -1)
    mean = gradients.mean(axis=0)
    expected = 50 * (mean @ mean) / np.square(gradients - mean).sum(axis=1).mean()
    products = np.square((gradients - mean) @ (gradients - mean).T)
    others = (products.sum() - np.trace(products)) / (50 * 49)
    directions = np.square(gradients - mean).sum(axis=1).mean() ** 2 / others
    task = linear(weights, features, labels)
    assert found(task)[:2] == pytest.approx((expected, directions))
    monkeypatch.setattr(looped_steps, "BLOCK_BYTES", 8 * 300)
    assert found(task)[:2] == pytest.approx((expected, directions))


def test_samples_that_are_all_alike_say_nothing() -> None:
    features, labels = drawn(3, 1, CLASSES)
    same = linear(np.ones((FEATURES, CLASSES)), np.repeat(features, 5, axis=0), np.repeat(labels, 5))
    assert not has_met(same, loop_steps(same.program), 1)
    assert not has_met(replace(same, features=features, targets=labels), loop_steps(same.program), 1)
