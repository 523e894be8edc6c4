"""Trainings of fewer steps where time is short, what cannot be trained, and what a training is worth on samples that it has not seen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kilotune.evaluators.fixed_point.fresh_inputs import Finalist, sample_errors
from kilotune.spaces.shiftry import trained_codes
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_codes import with_encodings
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, ROUNDED, SHORTER, TRAINED, FittedSpace, is_trained
from kilotune.spaces.shiftry.space import ShiftrySpace
from kilotune.spaces.shiftry.trained_codes import CodeTraining
from tests.spaces.shiftry.test_trained_codes import NARROW, SPACE, TASK, unlike

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
    monkeypatch.setattr(trained_codes, "STEPS", 1100)
    space, rounded = FittedSpace(SPACE, (TRAINED,)), SPACE.lower([NARROW])
    codes = []
    for way, steps in ((IN_500, 500), (IN_1000, 1000), (TRAINED, 1100)):
        batch = space.lower([{**NARROW, CODES: way}])
        expected = with_encodings(rounded, [CodeTraining(SPACE).encodings(rounded, steps)])
        outputs = [SPACE.evaluator.simulator.run(one)[0] for one in (batch, expected)]
        np.testing.assert_array_equal(*outputs)
        given = [batch.encodings[number].given for number in sorted(set(batch.encoded[0].tolist()) - {-1})]
        codes.append(np.concatenate([one.codes.reshape(-1) for one in given if one is not None]))
    assert (codes[0] != codes[1]).any()
    assert (codes[1] != codes[2]).any()
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
    """Labels that say nothing about others are learnt by heart, and guessed in the other half."""
    monkeypatch.setattr(trained_codes, "STEPS", 2000)
    monkeypatch.setattr(trained_codes, "MUCH", (0.0, 0.0))
    rng = np.random.default_rng(0)
    task = replace(TASK, targets=rng.integers(0, 3, len(TASK.features)).astype(float))
    space = FittedSpace(ShiftrySpace(task, SPACE.options), (TRAINED,))
    trained = {**NARROW, CODES: TRAINED}
    rounded, batch = space.lower([NARROW]), space.lower([trained])
    on_samples = sample_errors(Finalist(space.evaluator, rounded), Finalist(space.evaluator, batch))
    assert on_samples.only_second < on_samples.only_first / 2, "learnt by heart"
    assert on_samples.inputs == on_samples.samples == len(TASK.features)
    unseen = space.unseen_errors(rounded, trained)
    assert unseen is not None
    assert unseen.both + unseen.only_second > 0.5 * len(TASK.features), "guessed"
    assert unseen.both + unseen.only_first == on_samples.both + on_samples.only_first
    assert space.unseen_errors(rounded, NARROW) is None, "no better than the float model"
    monkeypatch.setattr(trained_codes, "has_met", lambda *_: True)
    again = FittedSpace(ShiftrySpace(task, SPACE.options), (TRAINED,))
    assert again.unseen_errors(rounded, trained) is None, "that model has met the samples too"


def test_what_the_other_half_tells_holds_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """By labels that follow a rule which the float model does not know."""
    monkeypatch.setattr(trained_codes, "STEPS", 1500)
    monkeypatch.setattr(trained_codes, "MUCH", (0.1, 0.1))
    space = FittedSpace(ShiftrySpace(unlike(TASK), ShiftryOptions(accuracy_drop=5.0)), (TRAINED,))
    wide = {d.name: str(d.options[0]) for d in space.formats.decisions}
    unseen = space.unseen_errors(space.lower([wide]), {**wide, CODES: TRAINED})
    assert unseen is not None
    assert unseen.only_second < unseen.only_first
