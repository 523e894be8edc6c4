"""Trainings of fewer steps where time is short, what cannot be trained, and what a training is worth on samples that it has not seen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kilotune.evaluators.fixed_point.fresh_inputs import Finalist, sample_errors
from kilotune.spaces.shiftry import trained_codes
from kilotune.spaces.shiftry.fitted_codes import with_encodings
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, ROUNDED, SHORTER, TRAINED, FittedSpace, is_trained
from kilotune.spaces.shiftry.space import ShiftrySpace
from kilotune.spaces.shiftry.trained_codes import CodeTraining
from tests.spaces.shiftry.test_trained_codes import NARROW, SPACE, TASK

IN_500, IN_1000 = f"{TRAINED} in 500 steps", f"{TRAINED} in 1000 steps"


@pytest.fixture(name="space")
def _space(monkeypatch: pytest.MonkeyPatch) -> FittedSpace:
    monkeypatch.setattr(trained_codes, "STEPS", 1500)
    monkeypatch.setattr(CodeTraining, "seconds_a_step", lambda *_: 0.01)
    return FittedSpace(SPACE, (TRAINED,))


@pytest.mark.parametrize(
    ("seconds", "way"),
    [
        (math.inf, TRAINED),
        (50.1, TRAINED),
        (49.9, IN_1000),
        (40.1, IN_1000),
        (39.9, IN_500),
        (20.1, IN_500),
        (0.1, IN_500),
    ],
)
def test_a_training_takes_the_most_steps_that_end_in_time(seconds: float, way: str, space: FittedSpace) -> None:
    """Two of all steps, and two of up to 1000 with half of the samples. What is longer than the longest is no other one."""
    found = space.trained_within(NARROW, seconds)
    assert found == {**NARROW, CODES: way}
    assert is_trained(found)
    assert not is_trained(NARROW)
    assert not is_trained({**NARROW, CODES: FITTED})


def test_what_was_trained_longer_is_not_trained_again(space: FittedSpace) -> None:
    for way, seconds, found in (
        (IN_1000, 20.1, IN_1000),
        (IN_1000, 40.1, IN_1000),
        (IN_1000, 50.1, TRAINED),
        (IN_500, 40.1, IN_1000),
        (TRAINED, 0.1, TRAINED),
    ):
        assert space.trained_within({**NARROW, CODES: way}, seconds) == {**NARROW, CODES: found}


def test_shorter_trainings_are_candidates_with_codes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained_codes, "STEPS", 600)
    monkeypatch.setattr(type(SPACE.evaluator), "float_metrics", {"accuracy_percent": 0.0})  # no second training
    space, rounded = FittedSpace(SPACE, (TRAINED,)), SPACE.lower([NARROW])
    codes = []
    for way, steps in ((IN_500, 500), (TRAINED, 600)):
        space.evaluate([{**NARROW, CODES: way}])  # anew, whatever other runs have kept
        batch = space.lower([{**NARROW, CODES: way}])
        expected = with_encodings(rounded, [CodeTraining(SPACE).encodings(rounded, steps)])
        outputs = [SPACE.evaluator.simulator.run(one)[0] for one in (batch, expected)]
        np.testing.assert_array_equal(*outputs)
        given = [batch.encodings[number].given for number in sorted(set(batch.encoded[0].tolist()) - {-1})]
        codes.append(np.concatenate([one.codes.reshape(-1) for one in given if one is not None]))
    assert (codes[0] != codes[1]).any()
    state = space.start()
    for decision in SPACE.decisions:
        state = state.take(decision.options[0])
    assert state.decision is not None
    assert state.decision.options == (ROUNDED, TRAINED, *SHORTER)


def test_steps_are_timed() -> None:
    training, rounded = CodeTraining(SPACE), SPACE.lower([NARROW])
    assert 1e-5 < training.seconds_a_step(rounded) < 1.0


def test_what_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    space = FittedSpace(SPACE, (TRAINED,))
    assert space.why_untrained(NARROW) is None
    monkeypatch.setattr(trained_codes, "MOST_PRODUCTS", 64.0 * 500 * 10)
    multiplies = sum(n for name, n in SPACE.costs([NARROW])[0].items() if name.startswith("multiplies"))
    assert (
        space.why_untrained({**NARROW, CODES: TRAINED})
        == f"it multiplies {multiplies:.0f} times a sample, and programs of at most 10 are trained"
    )
    monkeypatch.setattr(CodeTraining, "given", lambda *_: {})
    assert space.why_untrained(NARROW) == "it has no parameters of at most 16 bits"


def test_halves_are_trained_without_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other labels of a half change none of its classes, and some of the other's."""
    monkeypatch.setattr(trained_codes, "STEPS_OF_HALVES", 500)
    monkeypatch.setattr(CodeTraining, "temperature", 1.0)  # where it begins, by labels of all
    rounded, half = SPACE.lower([NARROW]), np.random.default_rng(0).permutation(len(TASK.features)) % 2
    assert TASK.targets is not None
    labels = np.where(half == 0, 2.0 - TASK.targets, TASK.targets)
    other = ShiftrySpace(replace(TASK, targets=labels), SPACE.options)
    before, after = (CodeTraining(space).classes_by_halves(rounded) for space in (SPACE, other))
    np.testing.assert_array_equal(before[half == 0], after[half == 0])
    assert (before != after)[half == 1].any()


def test_what_is_learnt_is_asked_of_others_where_the_float_model_is_right_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless that model has met the samples too. Labels are what a program with other codes makes of the samples."""
    rounded = SPACE.lower([NARROW])
    given = CodeTraining(SPACE).given(rounded)
    turned = {column: one.with_codes(-1 - one.given.codes) for column, one in given.items() if one.given is not None}
    labels = SPACE.evaluator.simulator.run(with_encodings(rounded, [turned]))[0, :, 0]
    space = FittedSpace(ShiftrySpace(replace(TASK, targets=labels.astype(float)), SPACE.options), (TRAINED,))
    guessed = np.where(np.arange(len(labels)) % 2, labels, 2 - labels).astype(np.int64)
    monkeypatch.setattr(CodeTraining, "encodings", lambda *_: turned)
    monkeypatch.setattr(CodeTraining, "classes_by_halves", lambda *_: guessed)
    monkeypatch.setattr(trained_codes, "has_met", lambda *_: False)
    trained = {**NARROW, CODES: TRAINED}
    space.evaluate([trained])  # anew
    on_samples = sample_errors(*(Finalist(space.evaluator, space.lower([one])) for one in (NARROW, trained)))
    assert on_samples.inputs == on_samples.samples == len(labels)
    assert (on_samples.only_second, on_samples.both) == (0, 0)
    unseen = space.unseen_errors(rounded, trained)
    assert unseen is not None
    assert unseen.both + unseen.only_second == int((guessed != labels).sum()) > 0
    assert unseen.both + unseen.only_first == on_samples.only_first > 10
    assert space.unseen_errors(rounded, NARROW) is None, "it is right no more often than the float model"
    monkeypatch.setattr(trained_codes, "has_met", lambda *_: True)
    again = FittedSpace(space.formats, (TRAINED,))
    again.evaluate([trained])
    assert again.unseen_errors(rounded, trained) is None
