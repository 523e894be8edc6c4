"""The placement benchmark gives the search its clock: a step alone may take longer than the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kilotune.experiments.benchmarks import placement
from kilotune.experiments.benchmarks.placement_instances import slack_wheels
from kilotune.spaces.memory.exact import PlacementSearchStep


def test_a_step_knows_how_many_seconds_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = list[Callable[[], float]]()
    search = placement.minimise_peak

    def watched(*given: Any, **named: Any) -> Iterator[PlacementSearchStep]:
        clocks.extend(one for one in (*given, *named.values()) if callable(one))
        yield from search(*given, **named)

    monkeypatch.setattr(placement, "minimise_peak", watched)
    _, cpu_s = placement.solve(slack_wheels(200, 1), None, 0.3)
    (seconds_left,) = clocks
    assert 0.0 <= seconds_left() <= max(0.3 - cpu_s, 0.0)
