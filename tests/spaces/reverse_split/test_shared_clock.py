"""Searches that share a clock: who has how many of the seconds, and what each one's own clock says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from kilotune.search.space import ExactStep
from kilotune.spaces.reverse_split.approximations import evenly_first, searches_at_once
from kilotune.spaces.reverse_split.shared_clock import SharedClock


class Bench:
    """Searches whose steps take so many seconds each, by option, and a clock that they move."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self.said: dict[str, list[float]] = {}
        self.spent: dict[str, float] = {}

    def search(self, name: str, step_s: float, steps: int, clock: Callable[[], float]) -> Iterator[ExactStep]:
        for number in range(steps):
            before = clock()
            self.said.setdefault(name, []).append(before)
            self.left -= step_s
            self.spent[name] = self.spent.get(name, 0.0) + step_s
            if math.isfinite(before):
                assert clock() == pytest.approx(before - step_s)
            yield ExactStep(None, 0.0, number == steps - 1)

    def run(self, searches: dict[str, tuple[float, int]], at_once: int) -> list[str]:
        begun = {name: partial(self.search, name, *how) for name, how in searches.items()}
        order = list[str]()
        for option, _ in SharedClock(begun, lambda: self.left, at_once).steps():
            order.append(str(option))
            if self.left <= 0:
                break
        return order


def test_slow_steps_take_no_more_of_the_time_than_quick_ones() -> None:
    bench = Bench(100.0)
    bench.run({"slow": (1.0, 1000), "quick": (0.1, 1000)}, 2)
    assert bench.spent["slow"] == pytest.approx(50, abs=2)
    assert bench.spent["quick"] == pytest.approx(50, abs=2)
    assert bench.said["slow"][0] == 50
    assert max(bench.said["quick"]) <= 50


def test_every_search_has_its_first_step_and_the_next_one_begins_where_one_has_ended() -> None:
    bench = Bench(math.inf)
    order = bench.run({"a": (1.0, 3), "b": (1.0, 3), "c": (1.0, 3)}, 1)
    assert order == ["a", "b", "c", "a", "a", "b", "b", "c", "c"]
    assert set(bench.said["a"]) == {math.inf}


@pytest.mark.parametrize(("count", "first"), [(4, [0, 4, 7, 11]), (12, list(range(12))), (2, [0, 11])])
def test_those_that_come_first_are_evenly_spread(count: int, first: list[int]) -> None:
    found = evenly_first(list(range(12)), count)
    assert found[:count] == first
    assert sorted(found) == list(range(12))


def test_a_short_time_is_for_few_searches_and_a_long_one_for_all() -> None:
    assert searches_at_once(12, 4, 10.0) == 5
    assert searches_at_once(12, 1, 10.0) == 12
    assert searches_at_once(12, 4, 0.1) == 4
    assert searches_at_once(2, 4, 0.1) == 2
    assert searches_at_once(12, 4, math.inf) == 12
