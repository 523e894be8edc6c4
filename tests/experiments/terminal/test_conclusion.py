"""What is said of the optimum where nothing is proved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kilotune.experiments.terminal.summary import conclusion, distance_from_optimum
from kilotune.search.result import Result, Status
from kilotune.search.space import Measurement, Trial
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.small_network import small_network

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


@pytest.mark.parametrize(
    ("ram", "said"), [(1, "No candidate can meet"), (30, "No candidate found meets the constraints yet")]
)
def test_limits_that_nothing_can_keep_are_told_from_those_that_nothing_has_kept(ram: int, said: str) -> None:
    space = ShiftrySpace(small_network(5), ShiftryOptions(ram_limit_bytes=ram, flash_limit_bytes=300))
    best = Trial(0, {}, Measurement({}))
    result = Result("s", next(iter(Status)), None, best, False, (), None, None, False, 1, 1, 1.0)
    outcome: Any = SimpleNamespace(result=result, problem=SimpleNamespace(space=space, measured_by="the kernel"))
    assert conclusion(outcome).startswith(said)
