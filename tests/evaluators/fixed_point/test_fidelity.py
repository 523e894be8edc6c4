"""Expected flips against errors that are drawn, and at the edges: no deviation, wrap-around, ties, one sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.fixed_point.fidelity import (
    LAST,
    STEPS,
    WHOLE,
    MarginErrors,
    expected_error,
    expected_flips,
    margin_errors,
    normal_tails,
    tail_sums,
)
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.margins import Contest
from kilotune.evaluators.fixed_point.native_tails import native_tail_sums
from tests.codegen.emit.compiled import needs_compiler


def contest(margins: list[float] | np.ndarray) -> Contest:
    count = len(margins)
    return Contest(
        *(0, "s", np.zeros(count, dtype=np.int32), np.ones(count, dtype=np.int32), np.asarray(margins, dtype=float))
    )


def errors_of(of: Contest, found: np.ndarray, scale: int) -> MarginErrors:
    """Of a candidate whose margins are integers at `scale`."""
    return margin_errors(of, of.sums(np.stack([found, np.zeros_like(found)])), scale)


def flips(of: Contest, found: np.ndarray, scale: int) -> float:
    disagreements = np.array([(found < 0).sum()])
    return float(expected_flips(tail_sums(of.ascending, [errors_of(of, found, scale)]), disagreements)[0])


@pytest.mark.parametrize("scale", [-3, 0, 7, 15, 24, 30, 40])
def test_bias_and_sigma_are_mean_and_deviation_of_the_errors(scale: int) -> None:
    """At scales coarser and finer than the unit of the float margins."""
    random = np.random.default_rng(scale + 3)
    of = contest(np.abs(random.normal(size=200)))
    found = np.rint(np.ldexp(of.margins + random.normal(0.1, 0.2, 200), scale)).astype(np.int64)
    errors = np.ldexp(found.astype(float), -scale) - np.ldexp(of.units.astype(float), -of.scale)
    bias, sigma = errors_of(of, found, scale)
    assert math.ldexp(bias, -of.scale) == pytest.approx(errors.mean(), rel=1e-9)
    assert math.ldexp(sigma, -of.scale) == pytest.approx(errors.std(), rel=1e-9)


def test_the_table_is_the_normal_distributions() -> None:
    table = normal_tails()
    assert table[0] == WHOLE // 2
    assert table[LAST] == 0
    assert (np.diff(table) <= 0).all()
    for z in (0.0004, 0.5, 1.0, 1.96, 3.0, 5.0):
        exact = 0.5 * math.erfc(z / math.sqrt(2))
        assert table[int(z * STEPS)] / WHOLE == pytest.approx(exact, rel=5 / STEPS, abs=1e-9)


def test_flips_by_the_formula() -> None:
    margins = np.array([100, 250, 3000], dtype=np.int32)
    (found,) = tail_sums(margins, [MarginErrors(-50.0, 100.0)])
    exact = sum(0.5 * math.erfc((m - 50) / 100 / math.sqrt(2)) for m in (100, 250, 3000))
    assert found / WHOLE == pytest.approx(exact, abs=3e-4)


@pytest.mark.parametrize(("bias", "expected"), [(0.0, 0.5), (5.0, 0.0), (-10.0, 1.5), (-10.5, 2.0), (-99.0, 3.0)])
def test_without_deviation_a_sample_counts_all_or_nothing_or_half(bias: float, expected: float) -> None:
    (found,) = tail_sums(np.array([0, 10, 20], dtype=np.int32), [MarginErrors(bias, 0.0)])
    assert found / WHOLE == expected


@needs_compiler
@given(
    margins=st.lists(st.integers(0, (1 << 24) - 1), min_size=1, max_size=70),
    errors=st.lists(
        st.tuples(st.floats(-1e8, 1e8), st.one_of(st.just(0.0), st.floats(0, 1e8), st.floats(0, 1e-6))), max_size=5
    ),
)
@settings(max_examples=200, database=None, deadline=None)
def test_the_kernels_sums_are_the_definitions(margins: list[int], errors: list[tuple[float, float]]) -> None:
    kernel = load_kernel()
    assert kernel is not None
    ascending, made = np.sort(np.array(margins, dtype=np.int32)), [MarginErrors(*pair) for pair in errors]
    assert native_tail_sums(kernel, ascending, made) == tail_sums(ascending, made)


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.4])
def test_what_is_expected_of_some_errors_happens_with_others(sigma: float) -> None:
    """20 000 errors foretell how many classes others of their kind flip, at the same margins, on the average of 20 draws."""
    random = np.random.default_rng(5)
    margins = np.abs(random.normal(size=20_000))

    def drawn() -> np.ndarray:
        return margins + random.normal(-0.5 * sigma, sigma, len(margins))

    of = contest(margins)
    (tail,) = tail_sums(of.ascending, [errors_of(of, np.rint(np.ldexp(drawn(), 15)).astype(np.int64), 15)])
    assert tail / WHOLE == pytest.approx(np.mean([(drawn() < 0).sum() for _ in range(20)]), rel=0.05)


def test_a_lossless_program_flips_nothing_and_better_errors_flip_less() -> None:
    random = np.random.default_rng(1)
    of = contest(np.abs(random.normal(size=600)) + 0.02)
    noise = random.normal(size=600)
    found = [
        flips(of, np.rint(np.ldexp(of.margins + s * noise, 20)).astype(np.int64), 20) for s in (0, 0.004, 0.01, 0.1)
    ]
    assert found[0] == 0.0
    assert found == sorted(found)
    assert found[2] < 1 < found[3]  # where a count of disagreements would say 0 for the first three


def test_an_error_that_wraps_around_is_seen_though_no_class_flips() -> None:
    """One score of 600 comes out 2 * 128 / 2**5 too large, in its class's favour."""
    of = contest(np.linspace(0.05, 3.0, 600))
    exact = np.rint(np.ldexp(of.margins, 5)).astype(np.int64)
    wrapped = exact.copy()
    wrapped[300] += 256
    assert flips(of, wrapped, 5) > 5 * flips(of, exact, 5)


def test_flips_that_no_normal_error_explains_count_all_the_same() -> None:
    """One sample in a hundred just flips, and all others are exact: sigma is far too small to say so."""
    of = contest(np.full(2000, 1.0))
    found = np.full(2000, 1 << 10)
    found[::100] = -1
    (tail,) = tail_sums(of.ascending, [errors_of(of, found, 10)])
    assert tail / WHOLE < 1e-6
    assert flips(of, found, 10) == pytest.approx(20 - 2 * math.sqrt(20), abs=1e-6)


def test_few_flips_are_told_by_the_errors_and_many_by_their_count() -> None:
    def expected(by_errors: float, counted: int) -> float:
        return float(expected_flips([round(by_errors * WHOLE)], np.array([counted]))[0])

    assert expected(0.1, 0) == pytest.approx(0.1, rel=0.02)
    assert expected(0.1, 1) == pytest.approx(0.109, rel=0.02)  # one more is luck
    assert 110 < expected(80.0, 120) < 120
    assert expected(12.0, 12) == pytest.approx(12.0)  # both say the same


def test_expected_error_is_the_root_mean_square_and_its_interval() -> None:
    errors = np.array([[[0.3], [-0.4]], [[0.0], [0.0]]])
    mean, deviation = (0.09 + 0.16) / 2, (0.16 - 0.09) / 2
    np.testing.assert_allclose(expected_error(errors), [math.sqrt(mean + 1.6449 * deviation / math.sqrt(2)), 0.0])
    assert expected_error(np.array([[[-0.25]]]))[0] == 0.25  # of a single sample all that is known


def test_expected_error_does_not_hang_on_the_worst_sample_alone() -> None:
    """A candidate that is 0.1 off everywhere is worse than one that is 0.11 off once; the worst sample says otherwise."""
    everywhere, once = np.full((1, 400, 1), 0.1), np.full((1, 400, 1), 0.001)
    once[0, 7] = 0.11
    assert expected_error(once)[0] < 0.1 * expected_error(everywhere)[0] + 0.005
    assert expected_error(once)[0] > 0.001
