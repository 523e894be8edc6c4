"""Limits on what is lost of a classifier's score."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.spaces.limits import permitted_drop


@pytest.mark.parametrize("samples", [50, 100, 150, 350])
def test_a_drop_of_exactly_so_much_is_permitted(samples: int) -> None:
    """Of whatever is right before: per cents of floats are a little more or less than those of integers."""
    right = np.arange(samples)[None, :] < np.arange(samples + 1)[:, None]
    scores = ClassScore.ACCURACY.percent(right.astype(np.int64), np.ones(samples)).tolist()
    lost = samples * 2 // 100
    for before in range(lost + 1, samples + 1):
        kept = permitted_drop("accuracy_percent", scores[before], 2.0)
        assert kept.violation({"accuracy_percent": scores[before - lost]}) == 0.0
        assert kept.violation({"accuracy_percent": scores[before - lost - 1]}) > 0.0
