"""What is said of the optimum where nothing is proved."""

from __future__ import annotations

import pytest

from kilotune.experiments.terminal.summary import distance_from_optimum
from kilotune.search.result import Result, Status

UNKNOWN = "How far the best latency_us is from the optimum is not known."


@pytest.mark.parametrize(
    ("bound", "gap", "said"),
    [
        (4.0, 0.2, "No candidate is better than 4 in latency_us (gap 20.0 %)."),
        (0.0, 1.0, UNKNOWN),
        (None, None, UNKNOWN),
        (-2.0, 1.4, "No candidate is better than -2 in latency_us (gap 140.0 %)."),
    ],
)
def test_a_bound_of_nothing_is_none(bound: float | None, gap: float | None, said: str) -> None:
    result = Result("s", next(iter(Status)), None, None, True, (), bound, gap, False, 1, 1, 1.0)
    assert distance_from_optimum(result, "latency_us") == said
