"""Scores of classes are scikit-learn's, and what some samples still allow is a bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from kilotune.evaluators.fixed_point.class_scores import ClassScore, KnownLabels, count_by_row
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


@pytest.mark.parametrize("samples", [0, 3, 65_535, 65_536, 131_073])
def test_trues_are_counted_row_by_row(samples: int) -> None:
    found = np.stack([np.ones(samples, dtype=np.bool_), np.arange(samples) % 3 == 0])
    assert count_by_row(found).tolist() == [samples, -(-samples // 3)]
    assert count_by_row(found[:, ::2]).tolist() == found[:, ::2].sum(axis=1).tolist()


@pytest.mark.parametrize("target", [2.0, 1.5, 40_000.0, np.nan])
def test_labels_are_compared_as_they_are_whatever_numbers_they_are(target: float) -> None:
    of_float, targets = np.array([1.0, 2.0, 40_000.0]), np.array([1.0, target, 40_000.0])
    known = KnownLabels.of(of_float, targets)
    labels = np.array([[1, 2, -25_536]], dtype=np.int32)
    assert (labels == known.targets).tolist() == (labels == targets).tolist()
    assert (labels != known.of_float).tolist() == (labels != of_float).tolist()
    assert known.float_is_right.tolist() == [True, target == 2.0, True]
    assert KnownLabels.of(of_float[:2], targets[:2]).of_float.dtype == np.int16
