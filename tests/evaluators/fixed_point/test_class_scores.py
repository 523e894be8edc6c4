"""Scores of classes are scikit-learn's, and what some samples still allow is a bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.spaces.limits import permitted_drop
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.small_network import small_network

SCIKIT_LEARN = {
    ClassScore.ACCURACY: accuracy_score,
    ClassScore.BALANCED: balanced_accuracy_score,
    ClassScore.F1: lambda targets, labels: f1_score(targets, labels, average="macro"),
}

LABELS = st.integers(1, 12).flatmap(
    lambda samples: st.lists(st.lists(st.integers(0, 3), min_size=samples, max_size=samples), min_size=2, max_size=4)
)
"""Rows of labels of the same samples."""


@settings(max_examples=100)
@given(rows=LABELS, met=st.integers(0, 12))
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true", "ignore:A single label was found")
def test_scores_are_scikit_learns_and_no_samples_bring_them_above_their_bound(rows: list[list[int]], met: int) -> None:
    targets, labels = np.array(rows[0], dtype=np.float64), np.array(rows[1:], dtype=np.int16)
    for score, expected in SCIKIT_LEARN.items():
        found = score.percent(labels, targets)
        np.testing.assert_allclose(found, [100 * expected(targets, row) for row in labels], atol=1e-9)
        bound = score.percent_at_best(labels[:, : min(met, len(targets))], targets)
        assert (found <= bound + 1e-9).all()
        np.testing.assert_allclose(score.percent_at_best(labels, targets), found, atol=1e-9)
        assert (score.percent_at_best(labels[:, :0], targets) == 100).all()


@pytest.mark.parametrize("score", ClassScore)
def test_what_may_be_lost_is_counted_in_the_score(score: ClassScore) -> None:
    task = replace(small_network(), score=score)
    shiftry = ShiftrySpace(task, ShiftryOptions(accuracy_drop=3.0))
    seedot = SeeDotSpace(task, SeeDotOptions(permitted_drop=3.0))
    least = permitted_drop(score.metric, 100.0, 3.0)  # labels are the float program's
    assert shiftry.constraints == seedot.constraints == (least,)
    assert score.metric in seedot.evaluate([dict(next(iter(seedot.procedure()))[0])])[0].metrics
