"""The statistics of comparisons, against definitions written out and against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kilotune.search import statistics
from kilotune.search.statistics import (
    SIGNIFICANCE,
    chance_of_more,
    holm,
    least_p,
    median,
    paired_test,
    pairs_needed,
    quantile,
    sign_test_p,
)

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


@settings(max_examples=25)
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=8).filter(lambda d: len(set(d)) > 1))
def test_ties_and_zeros_are_scipys(differences: list[int]) -> None:
    """Up to 13 pairs SciPy goes through all signs itself, ties and zeros among them."""
    assert_scipys_p(differences)


@given(st.lists(st.integers(-1000, 1000).filter(bool), min_size=14, max_size=50, unique_by=abs))
def test_many_pairs_are_scipys(differences: list[int]) -> None:
    assert_scipys_p(differences)


@given(st.lists(st.integers(-9, 9).filter(bool), min_size=51, max_size=90))
def test_very_many_pairs_are_scipys_normal_approximation(differences: list[int]) -> None:
    x = [float(d) for d in differences]
    p = paired_test(x, [0.0] * len(x)).p
    assert p == 1.0 or p == pytest.approx(float(stats.wilcoxon(x, method="approx", correction=True).pvalue), rel=1e-9)


def assert_scipys_p(differences: list[int]) -> None:
    x = [float(d) for d in differences]
    assert paired_test(x, [0.0] * len(x)).p == pytest.approx(float(stats.wilcoxon(x).pvalue), rel=1e-9)


@pytest.mark.parametrize("shift", [0, 5, 10, 15, 20])
def test_the_approximation_is_near_the_exact_p_where_it_takes_over(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(shift).integers(-60, 60, statistics.EXACT_PAIRS + 1)
    x, zeros = [float(2 * (d + shift) + 1) for d in drawn], [0.0] * len(drawn)
    approximate = paired_test(x, zeros).p
    monkeypatch.setattr(statistics, "EXACT_PAIRS", len(x))
    exact = paired_test(x, zeros).p
    assert approximate != exact
    assert approximate == pytest.approx(exact, abs=0.001 if exact is not None and exact < 0.1 else 0.004)


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


@given(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, 7.0]), min_size=1, max_size=12))
def test_no_outcome_has_a_smaller_p_than_the_least(differences: list[float]) -> None:
    p = paired_test(differences, [0.0] * len(differences)).p
    moved = sum(d != 0 for d in differences)
    assert p is None or p >= least_p(moved)
    ahead = paired_test([-abs(d) for d in differences], [0.0] * len(differences)).p
    assert ahead is None or ahead == pytest.approx(least_p(moved))


@pytest.mark.parametrize(("tests", "pairs"), [(1, 6), (3, 7), (6, 8), (10, 9), (15, 10), (21, 10), (36, 11)])
def test_the_pairs_that_a_verdict_needs(tests: int, pairs: int) -> None:
    """1, 3, 6, ... pairs of 2, 3, 4, ... strategies. So many pairs, all won, are significant; one fewer are not."""
    assert pairs_needed(tests) == pairs
    for count, significant in ((pairs, True), (pairs - 1, False)):
        p = paired_test([float(i) for i in range(count)], [i + 1.5 + 0.1 * i for i in range(count)]).p
        adjusted = holm([p] * tests)[0]
        assert adjusted is not None
        assert (adjusted < SIGNIFICANCE) is significant


def test_pairs_that_are_alike_are_ties_whatever_their_values() -> None:
    x, y = [1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 5.0, 9.0]
    assert paired_test(x, y, [True, True, False, False]) == paired_test([0.0, 0.0, 3.0, 4.0], [0.0, 0.0, 5.0, 9.0])


@given(st.integers(0, 300), st.integers(0, 300))
@settings(max_examples=60)
def test_the_sign_test_is_scipys(less: int, more: int) -> None:
    expected = stats.binomtest(less, less + more, alternative="less").pvalue if less + more else 1.0
    assert sign_test_p(less, more) == pytest.approx(expected, rel=1e-9)


@given(st.floats(0, 300), st.floats(0, 300))
@settings(max_examples=60)
def test_the_chance_of_a_larger_count_is_scipys(mean: float, other: float) -> None:
    """Of two Poisson counts the difference is Skellam's."""
    expected = float(stats.skellam.sf(0, mean, other)) if min(mean, other) > 1e-3 else None
    if expected is None:
        expected = float(sum(stats.poisson.pmf(k, mean) * stats.poisson.cdf(k - 1, other) for k in range(1, 600)))
    assert chance_of_more(mean, other) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_mean_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="below 0"):
        chance_of_more(-0.5, 1.0)
