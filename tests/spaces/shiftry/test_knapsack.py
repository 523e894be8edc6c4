"""The knapsack against all packings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.spaces.shiftry.knapsack import MOST_CELLS, least_values

classes = st.lists(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-5, 20)), min_size=1, max_size=4), min_size=1, max_size=4
)


def arrays(drawn: list[list[tuple[int, int]]], field: int) -> list[np.ndarray]:
    return [np.array([option[field] for option in options], dtype=np.float64) for options in drawn]


def best_of(drawn: list[list[tuple[int, int]]], changes: int | None) -> list[tuple[int, int]]:
    """(cost, value) of the packings with so many options other than the first that no other one beats."""
    sums = set()
    for picked in itertools.product(*(range(len(options)) for options in drawn)):
        if changes is None or sum(i > 0 for i in picked) == changes:
            chosen = [options[i] for options, i in zip(drawn, picked, strict=True)]
            sums.add((sum(c for c, _ in chosen), sum(v for _, v in chosen)))
    return sorted(s for s in sums if not any(o != s and o[0] <= s[0] and o[1] <= s[1] for o in sums))


@given(classes)
def test_any_number_of_changes(drawn: list[list[tuple[int, int]]]) -> None:
    found = list(least_values(arrays(drawn, 0), arrays(drawn, 1)))
    assert [(packing.cost, packing.value) for packing in found] == best_of(drawn, None)
    for packing in found:
        chosen = [options[i] for options, i in zip(drawn, packing.chosen, strict=True)]
        assert (sum(c for c, _ in chosen), sum(v for _, v in chosen)) == (packing.cost, packing.value)


@given(classes, st.integers(0, 3))
def test_so_many_changes_at_most(drawn: list[list[tuple[int, int]]], most: int) -> None:
    found = list(least_values(arrays(drawn, 0), arrays(drawn, 1), most))
    by_changes: dict[int, list[tuple[float, float]]] = {}
    for packing in found:
        by_changes.setdefault(sum(i > 0 for i in packing.chosen), []).append((packing.cost, packing.value))
    wanted = {changes: best_of(drawn, changes) for changes in range(most + 1)}
    assert by_changes == {changes: packings for changes, packings in wanted.items() if packings}


def test_costs_that_span_more_are_rounded_to_as_many_cells() -> None:
    rng = np.random.default_rng(0)
    costs = [rng.uniform(0, 1e6, 5) for _ in range(4)]
    values = [rng.uniform(0, 1, 5) for _ in range(4)]
    unit = sum(float(np.ptp(cost)) for cost in costs) / MOST_CELLS
    for packing in least_values(costs, values):
        exact = sum(cost[i] for cost, i in zip(costs, packing.chosen, strict=True))
        assert packing.cost == pytest.approx(exact, abs=2 * unit)
