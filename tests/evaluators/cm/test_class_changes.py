"""Images that may be expected to have another class, against sampling."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.evaluators.cm.class_changes import ClassChanges, expected_changes


@pytest.mark.parametrize(("deviation", "tolerance"), [(0.05, 0.1), (0.2, 0.15), (0.5, 0.25)])
def test_normal_errors_change_as_many_classes_as_are_expected(deviation: float, tolerance: float) -> None:
    """Differences of two scores that are each off by `deviation` / sqrt(2). Where errors are large, classes that beat the first one
    together count more than once: too many are expected then, never too few."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (4000, 3))
    off = scores + rng.normal(0, deviation / np.sqrt(2), scores.shape)
    changed = int((off.argmax(axis=1) != scores.argmax(axis=1)).sum())
    assert expected_changes(scores, off) == pytest.approx(changed, rel=tolerance)


def test_scores_that_shrink_alike_change_nothing() -> None:
    scores = np.random.default_rng(1).normal(0, 1, (50, 10))
    assert expected_changes(scores, scores) == 0
    assert expected_changes(scores, 0.3 * scores) == pytest.approx(0, abs=1e-9)
    assert expected_changes(scores, scores + 7.0) == pytest.approx(0, abs=1e-9)


def test_no_image_counts_more_than_once() -> None:
    scores = np.random.default_rng(2).normal(0, 1e-3, (20, 10))
    assert expected_changes(scores, np.random.default_rng(3).normal(0, 5, (20, 10))) == pytest.approx(20)


def test_points_are_lost_by_the_larger_of_both_counts() -> None:
    assert ClassChanges(200, 4, 0.0).lost_points == pytest.approx(100 * (4 + 2) / 200)
    assert ClassChanges(200, 0, 5.0).lost_points == pytest.approx(100 * 4.5 / 200)
    assert ClassChanges(200, 0, 0.5).lost_points == 0, "half an image is none"
