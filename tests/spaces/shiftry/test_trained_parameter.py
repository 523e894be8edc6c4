"""What weights that are trained stand for: the nearest number that their codes can, and those codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.encoding import GivenCodes, ParameterEncoding, RowShifts
from kilotune.spaces.shiftry.trained_parameter import TrainedParameter
from tests.codegen.fixed.programs import variable

SHAPE = (3, 5)
TABLE = np.array([-90, -61, -40, -22, -11, -5, -2, 0, 1, 4, 9, 18, 33, 57, 80, 120], dtype=np.int64)
ROWS = RowShifts((0,), (0, 3, 1))


def encoding_of(width: int, codebook: bool, by_rows: bool) -> ParameterEncoding:
    codes = np.zeros(SHAPE, dtype=np.int64)
    if codebook:
        return ParameterEncoding(4, codebook=True, given=GivenCodes(codes, TABLE))
    rows = ROWS if by_rows and width < 8 else None
    return ParameterEncoding(width, shift=1 if width < 8 else 0, rows=rows, given=GivenCodes(codes + 1))


@given(
    width=st.sampled_from([1, 2, 3, 4, 6, 8, 16]),
    codebook=st.booleans(),
    by_rows=st.booleans(),
    scale=st.integers(-2, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_weights_stand_for_the_nearest_number_of_a_code(
    width: int, codebook: bool, by_rows: bool, scale: int, seed: int
) -> None:
    encoding = encoding_of(width, codebook, by_rows)
    width = encoding.width
    rng = np.random.default_rng(seed)
    half = 1 << (width - 1)
    reach = 150.0 if codebook else 3.0 * half * 4
    weights = np.ldexp(rng.uniform(-reach, reach, SHAPE), -scale).reshape(-1)
    trained = TrainedParameter.of(encoding, variable("W", SHAPE, ir.Role.PARAMETER), weights, scale)
    codes = trained.codes(weights)
    assert codes.shape == SHAPE
    integers = encoding.with_codes(codes).integers(weights.reshape(SHAPE), scale)
    np.testing.assert_array_equal(np.ldexp(integers.astype(float), -scale).reshape(-1), trained.rounded(weights))
    every = (-1, 1) if width == 1 else range(-half, half) if width < 16 else (-half, half - 1)
    numbers = np.stack(
        [encoding.with_codes(np.full(SHAPE, code)).integers(weights.reshape(SHAPE), scale) for code in every]
    )
    numbers = np.ldexp(numbers.astype(float), -scale).reshape(len(numbers), -1)
    if width < 16:
        off = np.abs(numbers - weights).min(axis=0)
        np.testing.assert_allclose(np.abs(trained.rounded(weights) - weights), off, atol=1e-12)
    np.testing.assert_array_equal(np.broadcast_to(trained.lowest, weights.shape), numbers.min(axis=0))
    np.testing.assert_array_equal(np.broadcast_to(trained.highest, weights.shape), numbers.max(axis=0))


@pytest.mark.parametrize("codebook", [True, False])
def test_zeros_that_are_not_stored_stay(codebook: bool) -> None:
    sparse = replace(variable("W", SHAPE, ir.Role.PARAMETER), sparse=True)
    values = np.arange(15.0) % 3
    encoding = encoding_of(4, codebook, by_rows=False)
    trained = TrainedParameter.of(encoding, sparse, values, 0)
    assert ((trained.moves > 0) == (values != 0)).all()
    assert encoding.given is not None
    codes = trained.codes(values + 2.0).reshape(-1)
    assert (codes[values == 0] == encoding.given.codes.reshape(-1)[values == 0]).all()
    assert (codes[values != 0] != encoding.given.codes.reshape(-1)[values != 0]).all()
