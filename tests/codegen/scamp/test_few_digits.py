"""As few signed digits as a permitted error allows, against every choice of digits."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.few_digits import digits_of, relative_error, with_few_digits
from kilotune.codegen.scamp.kernel import ApproximatedSet, Kernel, KernelSet, signed_digits

DEPTH = 3
WEIGHTS = st.lists(st.integers(-127, 127), min_size=1, max_size=4)


def kernel_of(weights: list[int]) -> Kernel:
    return Kernel.of_rows([[Fraction(weight, 1 << DEPTH) for weight in weights]])


def fewest(kernel: Kernel, error: float) -> int:
    """Over all numbers of digits that each weight may keep of its own, the most significant first."""
    permitted = Fraction(error) ** 2 * sum(weight * weight for _, weight in kernel.weights)
    ways = []
    for _, weight in kernel.weights:
        digits = [
            sign * Fraction(1, 1 << place) if place >= 0 else sign * Fraction(1 << -place)
            for place, sign in signed_digits(weight, DEPTH)
        ]
        kept = itertools.accumulate(digits, initial=Fraction(0))
        ways.append([(count, (weight - value) ** 2) for count, value in enumerate(kept)])
    choices = itertools.product(*ways)
    return min(sum(n for n, _ in choice) for choice in choices if sum(e for _, e in choice) <= permitted)


@settings(max_examples=200, deadline=None)
@given(weights=WEIGHTS, error=st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.3, 0.7]))
def test_the_error_is_kept_with_hardly_a_digit_more_than_the_fewest(weights: list[int], error: float) -> None:
    kernel = kernel_of(weights)
    found = with_few_digits(KernelSet((kernel,)), DEPTH, error)
    assert relative_error(kernel, found.approximations[0]) <= error + 1e-12
    assert digits_of(found) <= fewest(kernel, error) + 1  # the last step may have two digits where one would do


@settings(max_examples=50, deadline=None)
@given(weights=WEIGHTS)
def test_without_an_error_weights_are_what_the_depth_makes_of_them(weights: list[int]) -> None:
    kernels = KernelSet((kernel_of(weights), kernel_of([3, -7])))
    found, expected = with_few_digits(kernels, DEPTH, 0.0), kernels.approximate(DEPTH)
    assert found.sums == expected.sums
    assert [a.errors for a in found.approximations] == [a.errors for a in expected.approximations]


def test_a_kernel_of_the_chip_in_numbers() -> None:
    """101 is 128 - 32 + 4 + 1, and 7 is 8 - 1: 1 and 4 go first, at a thirtieth of what is there."""
    kernel = Kernel.of_rows([[101, 7]])
    found = with_few_digits(KernelSet((kernel,)), 0, 0.06)
    assert found.sums[0].terms == (((0, 0), 96), ((1, 0), 8))
    assert digits_of(found) == 3
    assert digits_of(KernelSet((kernel,)).approximate(0)) == 6
    assert relative_error(kernel, found.approximations[0]) == pytest.approx((26 / (101**2 + 49)) ** 0.5)
    assert found.approximations[0].errors == {(0, 0): -5, (1, 0): 1}


@pytest.mark.parametrize("error", [-0.1, 1.0, float("nan")])
def test_a_share_that_is_none_is_refused(error: float) -> None:
    with pytest.raises(ValueError, match="expected a share of the weights from 0 to below 1"):
        with_few_digits(KernelSet((Kernel.of_rows([[1, 2]]),)), 0, error)


def test_no_kernel_counts_for_another() -> None:
    """Each keeps its own share, however large its neighbour is."""
    kernels = KernelSet((Kernel.of_rows([[1000, 1]]), Kernel.of_rows([[3, 5]])))
    found: ApproximatedSet = with_few_digits(kernels, 0, 0.1)
    errors = [relative_error(kernel, a) for kernel, a in zip(kernels.kernels, found.approximations, strict=True)]
    assert max(errors) <= 0.1
