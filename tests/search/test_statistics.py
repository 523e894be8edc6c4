"""The statistics of comparisons, against definitions written out and against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.statistics import holm, median, paired_test, quantile

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(NUMBERS, min_size=1, max_size=12), st.floats(0, 1))
def test_quantiles_are_numpys_type_7(values: list[float], share: float) -> None:
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-6)


def test_a_quantile_between_a_number_and_no_result_is_no_result() -> None:
    assert median([1.0, 2.0, math.inf]) == 2.0
    assert median([1.0, 2.0, math.inf, math.inf]) == math.inf
    assert quantile([1.0, 2.0, math.inf, math.inf], 0.25) == 1.75
    assert quantile([math.inf, math.inf], 0.25) == math.inf


@given(st.lists(st.integers(-1000, 1000).filter(bool), min_size=2, max_size=9, unique_by=abs))
def test_p_counts_the_signs_that_are_at_least_as_extreme(differences: list[int]) -> None:
    """Wilcoxon's exact distribution: every assignment of signs to the ranks is equally likely."""
    ranks = [sorted(map(abs, differences)).index(abs(d)) + 1 for d in differences]
    total = sum(ranks)
    plus = sum(rank for rank, d in zip(ranks, differences, strict=True) if d > 0)
    seen = min(plus, total - plus)
    extreme = sum(
        min(w := sum(r for r, up in zip(ranks, ups, strict=True) if up), total - w) <= seen
        for ups in itertools.product((False, True), repeat=len(ranks))
    )
    x = [float(d) for d in differences]
    test = paired_test(x, [0.0] * len(x))
    assert test.p == pytest.approx(extreme / 2 ** len(ranks))
    assert test.effect == pytest.approx((total - 2 * plus) / total)
    assert (test.wins, test.losses) == (sum(d < 0 for d in differences), sum(d > 0 for d in differences))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=10))
def test_the_other_way_round_is_the_opposite(pairs: list[tuple[float, float]]) -> None:
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = paired_test(x, y), paired_test(y, x)
    assert (there.wins, there.ties, there.losses) == (back.losses, back.ties, back.wins)
    assert there.effect == pytest.approx(-back.effect)
    assert there.p == pytest.approx(back.p)


def test_no_result_loses_against_any_number_and_ties_with_another_one() -> None:
    test = paired_test([1.0, 5.0, math.inf, math.inf], [2.0, math.inf, 3.0, math.inf])
    assert (test.wins, test.ties, test.losses) == (2, 1, 1)
    # ranks of |-1|, |-(2-1)-...| : the two infinite ones share the highest rank
    assert test.effect == pytest.approx((1 + 2.5 - 2.5) / 6)


def test_the_rounding_of_sums_neither_wins_nor_breaks_ties() -> None:
    noisy = paired_test([0.1 + 0.2, 0.5, 0.7, 0.9, 1.1, 1.3], [0.3, 0.6, 0.8, 1.0, 1.2, 1.4])
    exact = paired_test([3.0, 5.0, 7.0, 9.0, 11.0, 13.0], [3.0, 6.0, 8.0, 10.0, 12.0, 14.0])
    assert noisy == exact
    assert (noisy.wins, noisy.ties, noisy.losses) == (5, 1, 0)


def test_what_does_not_vary_is_a_fact_and_no_sample() -> None:
    assert paired_test([3.0] * 10, [4.0] * 10).p is None
    assert paired_test([3.0] * 10, [4.0] * 10).effect == 1.0
    assert paired_test([3.0] * 10, [3.0] * 10).effect == 0.0
    assert paired_test([3.0] * 10, [float(i) for i in range(4, 14)]).p == pytest.approx(2 / 2**10)


def test_holms_own_arithmetic() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, None, 0.9]) == [1.0, None, 1.0]
    assert holm([]) == []
