"""Whole numbers as sums of powers of the golden ratio, checked in whole numbers: phi**2 = phi + 1."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilotune.spaces.reverse_split.golden_base import golden_digits


def power_of_phi(exponent: int) -> tuple[int, int]:
    """(a, b) of a + b * phi."""
    a, b = 1, 0
    for _ in range(abs(exponent)):
        a, b = (b, a + b) if exponent > 0 else (b - a, a)
    return a, b


@given(st.integers(0, 1 << 24))
@example(0)
@example(1)
@example(1_000_001)
def test_digits_are_few_and_their_powers_add_up_to_the_number(number: int) -> None:
    exponents = golden_digits(number)
    powers = [power_of_phi(exponent) for exponent in exponents]
    assert (sum(a for a, _ in powers), sum(b for _, b in powers)) == (number, 0)
    assert all(higher - lower > 1 for higher, lower in pairwise(exponents))
    assert all(abs(exponent) <= 1.5 * number.bit_length() + 1 for exponent in exponents)


def test_below_zero_there_are_none() -> None:
    with pytest.raises(ValueError, match="expected a number from 0 on, found -1"):
        golden_digits(-1)
