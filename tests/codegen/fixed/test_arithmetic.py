"""Numbers become integers as `ldexp`, which is exact, says: in arrays and one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen.fixed.arithmetic import FLOAT_EXPONENT, quantise, quantise_clipped, quantise_number

SCALES = st.integers(-40, 80) | st.sampled_from(
    [sign * (FLOAT_EXPONENT + more) for sign in (1, -1) for more in (0, 1, 200)]
)
BITS = st.sampled_from([1, 2, 8, 16, 32])


@given(st.floats(), BITS, SCALES)
def test_a_number_becomes_the_low_bits_of_its_whole_part(value: float, bits: int, scale: int) -> None:
    with np.errstate(over="ignore"):
        scaled = float(np.ldexp(value, scale))
        found = int(quantise(value, bits, scale))
    whole = int(scaled) if abs(scaled) < 2.0**62 else 0  # of larger ones, and of what is no number, there are none
    assert found % (1 << bits) == whole % (1 << bits)
    assert -(1 << (bits - 1)) <= found < 1 << (bits - 1)
    assert quantise_number(value, bits, scale) == found


@given(st.floats(allow_nan=False), BITS, SCALES)
def test_a_feature_beyond_the_range_is_its_end(value: float, bits: int, scale: int) -> None:
    with np.errstate(over="ignore"):
        scaled = float(np.ldexp(value, scale))
        found = int(quantise_clipped(value, bits, scale))
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert found == (math.trunc(scaled) if least <= scaled <= most else least if scaled < 0 else most)
