"""Codes that are moved one by one until a program is as right as the float model: which move is made, and when none is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.evaluators.fixed_point.fresh_inputs import LABELLED_NOISE
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.evaluators.fixed_point.similar_inputs import labelled_inputs
from kilotune.spaces.shiftry import label_descent, trained_codes
from kilotune.spaces.shiftry.fitted_codes import with_encodings
from kilotune.spaces.shiftry.label_descent import SEED, descended
from kilotune.spaces.shiftry.space import ShiftrySpace
from kilotune.spaces.shiftry.trained_codes import CodeTraining
from tests.spaces.shiftry.test_trained_codes import NARROW, SPACE, TASK

MANY, COUNT = 10**9, 1000
ROUNDED = SPACE.lower([NARROW])
GIVEN = CodeTraining(SPACE).given(ROUNDED)
Encodings = Mapping[int, ParameterEncoding]


@pytest.fixture(autouse=True)
def _few_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_descent, "MADE_UP", COUNT)


def aim_at(percent: float, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = dict.fromkeys((score.metric for score in ClassScore), percent)
    monkeypatch.setattr(type(SPACE.evaluator), "float_metrics", metrics)


def made_up(count: int) -> FixedPointEvaluator:
    assert TASK.targets is not None
    inputs, labels = labelled_inputs(TASK.features, TASK.targets, count, LABELLED_NOISE, SEED)
    return SPACE.evaluator.on(replace(TASK, features=inputs, targets=labels))


def accuracy(evaluator: FixedPointEvaluator, encodings: Encodings) -> float:
    return evaluator.measure(with_encodings(ROUNDED, [encodings]))[0]["accuracy_percent"]


def codes(encodings: Encodings) -> list[list[int]]:
    given = [encodings[column].given for column in sorted(encodings)]
    return [one.codes.reshape(-1).tolist() for one in given if one is not None]


def with_code(column: int, place: int, code: int) -> dict[int, ParameterEncoding]:
    given = GIVEN[column].given
    assert given is not None
    changed = given.codes.copy()
    changed.reshape(-1)[place] = code
    return {**GIVEN, column: GIVEN[column].with_codes(changed)}


def neighbours() -> list[dict[int, ParameterEncoding]]:
    """All candidates with a single code of at most 8 bits moved to the one beside it."""
    found = []
    for column, encoding in GIVEN.items():
        assert encoding.given is not None
        half = 1 << (encoding.width - 1)
        for place, code in enumerate(encoding.given.codes.reshape(-1).tolist()):
            beside = [other for other in (code - 1, code + 1) if -half <= other < half]
            found += [with_code(column, place, other) for other in beside if encoding.width <= 8]
    return found


def test_the_move_is_made_after_which_most_samples_and_made_up_inputs_are_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All moves by hand."""
    here, others = accuracy(SPACE.evaluator, GIVEN), made_up(COUNT)
    moves = neighbours()
    on_samples = [accuracy(SPACE.evaluator, one) for one in moves]
    better = [one for one, right in zip(moves, on_samples, strict=True) if right > here]
    monkeypatch.setattr(label_descent, "LOOKED_AT", len(better))
    sums = [accuracy(SPACE.evaluator, one) + accuracy(others, one) for one in better]
    assert len(better) > 3
    assert max(sums) > here + accuracy(others, GIVEN)
    assert np.argmax(sums) != np.argmax([accuracy(SPACE.evaluator, one) for one in better])
    aim_at(math.nextafter(here, math.inf), monkeypatch)
    found = descended(SPACE, ROUNDED, GIVEN, MANY)
    assert codes(found) == codes(better[int(np.argmax(sums))])


def test_moves_go_on_until_the_float_model_is_reached_or_runs_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a code that is far away from its weight."""
    aim, far = accuracy(SPACE.evaluator, GIVEN), with_code(4, 1, 3)
    before = accuracy(SPACE.evaluator, far)
    aim_at(aim, monkeypatch)
    assert accuracy(SPACE.evaluator, descended(SPACE, ROUNDED, far, MANY)) >= aim > before + 10.0
    weights = sum(len(one) for one, column in zip(codes(GIVEN), sorted(GIVEN), strict=True) if GIVEN[column].width <= 8)
    runs = 2 * weights * len(TASK.features) + label_descent.LOOKED_AT * COUNT
    once = descended(SPACE, ROUNDED, far, runs)
    assert before < accuracy(SPACE.evaluator, once) < aim
    assert codes(descended(SPACE, ROUNDED, far, runs - 1)) == codes(far)
    for reached in (far, once):
        aim_at(accuracy(SPACE.evaluator, reached), monkeypatch)
        assert codes(descended(SPACE, ROUNDED, far, MANY)) == codes(reached), "as right as it is to be"


def test_no_move_is_made_by_which_made_up_inputs_lose_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are the samples, with the classes of the program as it is as labels."""
    classes = SPACE.evaluator.simulator.run(ROUNDED)[0, :, 0].astype(float)
    monkeypatch.setattr(label_descent, "labelled_inputs", lambda *_: (TASK.features, classes))
    aim_at(100.0, monkeypatch)
    assert codes(descended(SPACE, ROUNDED, GIVEN, MANY)) == codes(GIVEN)


def test_the_score_is_that_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Balanced accuracy of labels of which one is rare: accuracy, which is higher, would do from the beginning."""
    assert TASK.targets is not None
    rare = np.where(np.arange(len(TASK.targets)) % 9 == 0, TASK.targets, np.minimum(TASK.targets, 1.0))
    space = ShiftrySpace(replace(TASK, targets=rare, score=ClassScore.BALANCED), SPACE.options)
    metrics, metric = space.evaluator.measure(with_encodings(ROUNDED, [GIVEN]))[0], ClassScore.BALANCED.metric
    before, aim = metrics[metric], math.nextafter(metrics[metric], math.inf)
    assert metrics["accuracy_percent"] > aim
    monkeypatch.setattr(type(SPACE.evaluator), "float_metrics", {metric: aim, "accuracy_percent": before})
    found = descended(space, ROUNDED, GIVEN, MANY)
    assert space.evaluator.measure(with_encodings(ROUNDED, [found]))[0][metric] > before


def test_what_is_trained_descends_where_it_is_less_right_than_the_float_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(trained_codes, "STEPS", 500)
    monkeypatch.setattr(trained_codes, "descended", lambda *given: asked.append(given[3]) or GIVEN)  # type: ignore[func-returns-value]
    aim_at(0.0, monkeypatch)
    CodeTraining(SPACE).encodings(ROUNDED)
    assert not asked
    aim_at(100.0, monkeypatch)
    assert CodeTraining(SPACE).encodings(ROUNDED) is GIVEN
    assert asked == [trained_codes.RUNS_A_SAMPLE * 500 * trained_codes.BATCH]
