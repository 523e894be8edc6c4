"""Shares of constructed functions whose answers are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import rankdata

from kilotune.search.front import Ranking
from kilotune.search.importance import main_effects
from kilotune.search.space import Constraint, Direction, Measurement, Objective, Trial

RANKING = Ranking((Objective("loss"),))


def factorial(loss, repeats: int = 500) -> list[Trial]:  # type: ignore[no-untyped-def]
    corners = list(itertools.product((0, 1), repeat=3)) * repeats
    return [
        Trial(n, {"a": a, "b": b, "c": c}, Measurement({"loss": float(loss(a, b, c))}))
        for n, (a, b, c) in enumerate(corners)
    ]


def shares(trials: list[Trial], ranking: Ranking = RANKING) -> dict[str, float]:
    return {effect.decision: effect.share for effect in main_effects(trials, ranking)}


@pytest.mark.parametrize("scale", [lambda x: x, np.exp, lambda x: 1e9 * x**3], ids=["plain", "exp", "cubed"])
def test_shares_of_a_weighted_sum_are_those_of_its_ranks(scale) -> None:  # type: ignore[no-untyped-def]
    # four levels of 2a + b: variance of 0..3 is 5/4, of it 1 between the halves of a and 1/4 between those of b
    found = shares(factorial(lambda a, b, c: scale(2 * a + b)))
    assert found["a"] == pytest.approx(0.8, abs=0.001)
    assert found["b"] == pytest.approx(0.2, abs=0.001)
    assert found["c"] == 0.0
    assert list(found) == ["a", "b", "c"]


def test_direction_does_not_matter_and_constraints_do() -> None:
    gain = Ranking((Objective("loss", Direction.MAXIMIZE),))
    trials = factorial(lambda a, b, c: a)
    assert shares(trials, gain) == shares(trials)
    limited = Ranking((Objective("zero"),), (Constraint("loss", 0.5),))
    with_zero = [Trial(t.number, t.assignment, Measurement({**t.measurement.metrics, "zero": 0.0})) for t in trials]
    assert shares(with_zero, limited)["a"] == pytest.approx(1.0)


def test_what_only_chance_explains_is_nothing() -> None:
    rng = np.random.default_rng(0)
    trials = [
        Trial(n, {"many": int(rng.integers(60)), "each": n, "one": 7}, Measurement({"loss": rng.normal()}))
        for n in range(600)
    ]
    found = {effect.decision: effect for effect in main_effects(trials, RANKING)}
    assert found["many"].share < 0.03  # without the correction it would be 59/599, a tenth
    assert found["many"].options == 60
    assert found["each"].share == found["one"].share == 0.0


def test_failures_are_worst_and_an_absent_answer_is_one_of_its_own() -> None:
    trials = [Trial(n, {"a": 1}, Measurement({"loss": 1.0})) for n in range(50)]
    trials += [Trial(n, {"b": 1}, Measurement(failure="it broke")) for n in range(50, 100)]
    assert shares(trials) == {"a": pytest.approx(1.0), "b": pytest.approx(1.0)}


def test_equal_trials_and_none_have_no_order() -> None:
    assert main_effects([], RANKING) == ()
    assert main_effects([Trial(n, {"a": n}, Measurement({"loss": 1.0})) for n in range(9)], RANKING) == ()


def test_equal_losses_share_their_rank() -> None:
    rng = np.random.default_rng(3)
    answers = rng.integers(3, size=90)
    losses = np.minimum(rng.integers(9, size=90), 3.0 + answers)
    trials = [
        Trial(n, {"a": int(a)}, Measurement({"loss": float(x)}))
        for n, (a, x) in enumerate(zip(answers, losses, strict=True))
    ]
    ranks = rankdata(losses)
    total = ((ranks - ranks.mean()) ** 2).sum()
    groups = [ranks[answers == a] for a in range(3)]
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (90 - 3)
    assert shares(trials)["a"] == pytest.approx((total - 90 * within + within) / total)
