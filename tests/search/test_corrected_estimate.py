"""What an estimate is off near a candidate, by brute force over all that are known."""

from __future__ import annotations

import numpy as np

from kilotune.search.corrected_estimate import CorrectedEstimate


def test_errors_of_the_nearest_known_candidates_are_added_on_average() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(3, size=(30, 4))
    rows = [{f"d{i}": int(option) for i, option in enumerate(row)} for row in table]
    estimates, costs = rng.integers(900, 1100, size=(2, 30)).tolist()
    corrected = CorrectedEstimate()
    assert corrected.corrected(rows[0], 17.0) == 17.0, "nothing is known"
    for row, estimate, cost in zip(rows[:20], estimates, costs, strict=False):
        corrected.learn(row, estimate, cost)
    for number in range(20, 30):
        apart = (table[:20] != table[number]).sum(axis=1)
        off = np.mean([costs[i] - estimates[i] for i in range(20) if apart[i] == apart.min()])
        assert np.isclose(corrected.corrected(rows[number], 1000.0), 1000.0 + off)


def test_a_further_answer_is_a_difference() -> None:
    corrected = CorrectedEstimate()
    corrected.learn({"a": 1}, 100.0, 103.0)
    corrected.learn({"a": 1, "codes": "fitted"}, 100.0, 125.0)
    assert corrected.corrected({"a": 2}, 100.0) == 103.0
    assert corrected.corrected({"a": 2, "codes": "fitted"}, 100.0) == 125.0
