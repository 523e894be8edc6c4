"""Kernels and their approximation, on the worked examples of AUKE Section 2."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen.scamp.kernel import Kernel, KernelSet, approximate, signed_digits
from kilotune.codegen.scamp.sums import InexactHalfError, Sum
from tests.codegen.scamp.random_plans import sums


def test_example_1_six_tenths_at_depth_3() -> None:
    assert signed_digits(0.6, 3) == ((1, 1), (3, 1))  # 0 * 1 + 1/2 + 0/4 + 1/8 = 0.625


def test_example_2_a_row_of_three() -> None:
    approximation = approximate(Kernel.of_rows([[0.128, 0.49, 0.13]]), 3)
    assert approximation.total == Sum.of({(-1, 0): 1, (0, 0): 4, (1, 0): 1})
    assert float(approximation.largest_error) == pytest.approx(0.01)
    assert float(approximation.errors[-1, 0]) == pytest.approx(0.125 - 0.128)


def test_example_3_the_multiset_of_the_binomial() -> None:
    rows = [[Fraction(w, 8) for w in row] for row in ((1, 2, 1), (2, 4, 2), (1, 2, 1))]
    total = approximate(Kernel.of_rows(rows), 3).total
    assert total.cardinality == 16
    assert total.weight((0, 1)) == 2
    assert total.weight((-1, -1)) == 1


def test_digits_beyond_one_are_not_clipped() -> None:
    assert signed_digits(1000, 0) == ((-10, 1), (-5, -1), (-3, 1))  # 1024 - 32 + 8
    assert approximate(Kernel.of_rows([[1000.0]]), 0).total.weight((0, 0)) == 1000


@given(st.fractions(-40, 40), st.integers(0, 9))
def test_digits_are_canonical_and_nearest(weight: Fraction, depth: int) -> None:
    digits = signed_digits(weight, depth)
    places = [place for place, _ in digits]
    assert all(after - before >= 2 for before, after in itertools.pairwise(places))
    assert all(sign in (-1, 1) for _, sign in digits)
    value = sum((sign * Fraction(2) ** -place for place, sign in digits), Fraction(0))
    assert abs(value - weight) * 2 <= Fraction(1, 1 << depth)


def test_section_2_1_2_centres_of_even_kernels() -> None:
    # n even: u from -(n-2)/2 to n/2; the first row is the northern one
    assert dict(Kernel.of_rows([[1, 2], [3, 4]]).weights) == {(0, 1): 1, (1, 1): 2, (0, 0): 3, (1, 0): 4}
    wide = Kernel.of_rows([[1, 2, 3, 4]])
    assert dict(wide.weights) == {(-1, 0): 1, (0, 0): 2, (1, 0): 3, (2, 0): 4}
    assert wide.picture() == ((1, 2, 3, 4),)


@given(sums())
def test_a_sum_as_a_kernel_and_back(total: Sum) -> None:
    kernel = Kernel.of_sum(total, 2)
    assert approximate(Kernel.of_rows(kernel.picture()), 2).total == total


def test_depths() -> None:
    half_and_third = KernelSet((Kernel.of_rows([[0.5]]), Kernel.of_rows([[Fraction(1, 3)]])))
    assert half_and_third.exact_depth() is None
    assert KernelSet((Kernel.of_rows([[0.5]]), Kernel.of_rows([[3, 0.125]]))).exact_depth() == 3
    reduced = KernelSet((Kernel.of_rows([[1, -2]]),)).approximate(5).reduced()
    assert (reduced.depth, reduced.sums) == (0, (Sum.of({(0, 0): 1, (1, 0): -2}),))


@pytest.mark.parametrize("rows", [[], [[]], [[1, 2], [3]], [[float("nan")]], [[float("inf")]]])
def test_what_is_no_kernel(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"kernel|finite"):
        Kernel.of_rows(rows)


@given(sums(), sums(), st.tuples(st.integers(-2, 2), st.integers(-2, 2)))
def test_sums_are_linear(a: Sum, b: Sum, by: tuple[int, int]) -> None:
    assert (a + b).shifted(by) == b.shifted(by) + a.shifted(by)
    assert (a - b) + b == a
    assert -(a - b) == b - a
    assert a.scaled(2).halved() == a


def test_an_odd_weight_has_no_half() -> None:
    with pytest.raises(InexactHalfError):
        Sum.of({(0, 0): 2, (1, 0): 3}).halved()
