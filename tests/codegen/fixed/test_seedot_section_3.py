"""SeeDot's motivating example and its figures in Sections 2 and 5.

Two figures can't be met. In Section 2, floor(pi * 2**6) is 201, not 200, so the overflow is -55 and not -56. And the naive
code's -2.625: formula (2), taken as printed (8 bits, operands shifted by 4, a tree sum that halves twice), gives -24 at scale
3, which is -3.0, for any rounding of the shifts; -2.625 = -21/8 would need the first pair of products to vanish. SeeDot's own
result, -98 at scale 5, comes out.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from kilotune.codegen.fixed.arithmetic import get_scale, quantise
from kilotune.codegen.fixed.exponential import mul_scale
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters, add_scale, tree_sum_scale
from kilotune.evaluators.fixed_point.reference import run_reference

from .programs import no_features, seedot_section_3

PROGRAM, PARAMETERS = seedot_section_3()
MAGNITUDES = {name: float(np.abs(a).max()) for name, a in PARAMETERS.items()}


def run(maxscale: int) -> tuple[int, int]:
    """(result, its scale) of the 8-bit program."""
    batch = SeeDotLowering(PROGRAM, MAGNITUDES).lower(SeeDotParameters(8, maxscale), {})
    return int(run_reference(batch, PARAMETERS, no_features())[0, 0, 0]), int(batch.scales[0, 2])


def test_seedot_code_of_equation_3() -> None:
    assert run(5) == (-98, 5)
    assert -98 / 2**5 == -3.0625


def test_naive_code_of_equation_2() -> None:
    result, scale = run(3)
    assert (result, scale) == (-24, 3)
    assert result / 2**scale != -2.625  # as printed; see above


def test_maxscale_5_is_the_best() -> None:
    exact = float((PARAMETERS["w"] @ PARAMETERS["x"])[0, 0])
    assert exact == pytest.approx(-3.64214951)
    errors = {maxscale: abs(r / 2.0**s - exact) for maxscale in range(8) for r, s in [run(maxscale)]}
    assert errors[5] == min(errors.values())
    assert errors[5] < errors[3]  # the naive code


def test_scales_of_section_3() -> None:
    assert (get_scale(MAGNITUDES["x"], 8), get_scale(MAGNITUDES["w"], 8)) == (7, 6)


def test_pi_and_e_of_section_2() -> None:
    assert int(quantise(math.pi, 8, 5)) == 100
    assert int(quantise(math.pi, 8, 6)) == 201 - 256  # overflow
    assert int(quantise(math.pi, 8, -2)) == 0
    assert int(quantise(math.e, 8, 5)) == 86
    assert (100 // 16) * (86 // 16) == 30  # scale 2 * 5 - 8


def test_addition_of_section_5() -> None:
    """let x = 1.23 in x + x: 20152 at scale 14, then 20152 at scale 13."""
    assert get_scale(1.23, 16) == 14
    assert int(quantise(1.23, 16, 14)) == 20152
    assert add_scale(14, maxscale=0) == (13, 1)
    assert add_scale(14, maxscale=14) == (14, 0)
    assert 2 * (20152 // 2) / 2**13 == 2.4599609375


@pytest.mark.parametrize("maxscale", range(16))
def test_scales_never_fall_below_maxscale_by_shifting(maxscale: int) -> None:
    """Algorithm 1: operands are shifted only as far as the result's scale stays at or above P."""
    for a in range(16):
        for b in range(16):
            scale, shift_a, shift_b = mul_scale(a, b, 16, maxscale)
            assert scale == a + b - shift_a - shift_b
            assert scale >= min(maxscale, a + b)
            assert 0 <= shift_b - shift_a <= 1
            assert shift_a + shift_b <= 16
        for count in (1, 2, 3, 16, 17):
            scale, halvings = tree_sum_scale(a, count, maxscale)
            assert scale == a - halvings >= min(maxscale, a)
            assert halvings <= math.ceil(math.log2(count))
