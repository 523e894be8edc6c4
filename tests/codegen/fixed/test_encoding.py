"""Codes of parameters in flash: which integers they stand for, and in which bits they lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.encoding import (
    LAYOUTS,
    GivenCodes,
    ParameterEncoding,
    RowShifts,
    stored_bytes,
    stored_integers,
)
from kilotune.codegen.fixed.parameter_rows import parameter_rows, row_scales
from kilotune.codegen.fixed.shiftry import ShiftryLowering


@pytest.mark.parametrize(
    ("width", "codes", "packed"),
    [
        (4, [-8, 7, 1], [0xF0, 0x09]),  # from zero: 0, 15, 9; the first code is the low half
        (2, [-2, -1, 0, 1, 1], [0b11100100, 0b11]),
        (1, [1, -1, -1, 1, -1, -1, -1, -1, 1], [0b1001, 1]),
        # three whole codes and the fourth in the upper two bits of each byte: 0b111001 = 57 is 25 from zero at 32
        (6, [-32, 31, 0, 25], [0b01_000000, 0b10_111111, 0b11_100000]),
        # 7 and 1 from zero are 0b001111 in left-over bits, the first byte's being the lowest
        (3, [-4, 3, 0, 0, 0, 0, 3, -3], [0b11_111_000, 0b11_100_100, 0b00_100_100]),
    ],
)
def test_codes_lie_in_bits(width: int, codes: list[int], packed: list[int]) -> None:
    assert list(ParameterEncoding(width).packed(np.array(codes))) == packed


@given(st.sampled_from(sorted(LAYOUTS)), st.lists(st.integers(0, 63), max_size=40))
def test_every_code_can_be_read_back(width: int, drawn: list[int]) -> None:
    """By the layout's own words: whole codes of each byte, then those of the left-over bits of all bytes together."""
    layout = LAYOUTS[width]
    codes = np.array([code % (1 << width) for code in drawn], dtype=np.int64)
    packed = layout.pack(codes)
    assert len(packed) == layout.size_bytes(len(codes)) == stored_bytes(len(codes), width)
    read: list[int] = []
    for start in range(0, len(packed), layout.group_bytes):
        group = packed[start : start + layout.group_bytes]
        read += [byte >> place * width & (1 << width) - 1 for byte in group for place in range(layout.beside)]
        used, spare = layout.beside * width, 8 - layout.beside * width
        left = sum((byte >> used) << number * spare for number, byte in enumerate(group))
        read += [
            left >> number * width & (1 << width) - 1 for number in range(layout.codes - len(group) * layout.beside)
        ]
    assert read[: len(codes)] == codes.tolist()
    assert not any(read[len(codes) :])


def test_values_go_to_the_nearest_code_and_what_lies_beyond_to_the_last() -> None:
    values = np.array([0.5, 0.49, -0.5, 3.6, -4.4, 100.0, -100.0])
    np.testing.assert_array_equal(ParameterEncoding(3).codes(values, 0), [1, 0, 0, 3, -4, 3, -4])
    np.testing.assert_array_equal(stored_integers(values, 8, 1, ParameterEncoding(3, shift=1)), [2, 0, 0, 6, -8, 6, -8])
    np.testing.assert_array_equal(
        stored_integers(np.array([-0.1, 0.0, 5.0]), 8, 3, ParameterEncoding(1, shift=2)), [-4, 4, 4]
    )
    # without an encoding toward zero, as the papers say
    found = stored_integers(np.array([1.9, -1.9, 130.0, -130.0, 1e300]), 8, 0, None)
    np.testing.assert_array_equal(found, [1, -1, 127, -128, 127])
    np.testing.assert_array_equal(stored_integers(np.array([1.9, -2.0]), 16, 15, None), [32767, -32768])


def test_integers_that_do_not_fit_are_refused() -> None:
    variable = ir.Variable("W", (1,), ir.Role.PARAMETER, ir.Location("one.sd", 1, 1))
    program = ir.Program("one", (variable,), (), ir.whole(variable), ir.ResultKind.REAL)
    lowering, encoded = ShiftryLowering(program, {}), np.zeros((1, 1), dtype=np.int32)
    lowering.lower([[8]], [[0]], encoded, (ParameterEncoding(4, shift=4),))
    for too_wide in (ParameterEncoding(4, shift=5), ParameterEncoding(1, shift=7)):
        with pytest.raises(ValueError, match="need more bits"):
            lowering.lower([[8]], [[0]], encoded, (too_wide,))


def test_one_bit_of_a_sparse_matrix_is_refused() -> None:
    """Its zeros are not stored, so the program would have them and codes of -1 and 1 would not."""
    variable = ir.Variable("W", (1, 1), ir.Role.PARAMETER, ir.Location("one.sd", 1, 1), sparse=True)
    program = ir.Program("one", (variable,), (), ir.whole(variable), ir.ResultKind.REAL)
    lowering, encoded = ShiftryLowering(program, {}), np.zeros((1, 1), dtype=np.int32)
    lowering.lower([[8]], [[0]], encoded, (ParameterEncoding(2),))
    with pytest.raises(ValueError, match="has zeros"):
        lowering.lower([[8]], [[0]], encoded, (ParameterEncoding(1),))


def test_codes_of_a_byte_are_not_packed() -> None:
    with pytest.raises(ValueError, match="8 bits are not packed"):
        ParameterEncoding(8).packed(np.array([1]))


def test_rows_have_scales_of_their_own() -> None:
    """Rows 1000 times apart keep their digits in codes of 4 bits: the integers are codes times 2 to the row's shift."""
    variable = ir.Variable("W", (2, 3), ir.Role.PARAMETER, ir.Location("two.sd", 1, 1))
    values = np.array([[1000.0, -500.0, 250.0], [1.0, 0.5, -0.25]])
    scales = row_scales(variable, (0,), values, 4)
    assert scales is not None
    # 1000 fits 4 bits at scale -7, 1 at 2: 9 apart, which 16 bits hold
    assert (scales.finest, scales.shifts) == (2, RowShifts((0,), (9, 0)))
    encoding = ParameterEncoding(4, rows=scales.shifts)
    np.testing.assert_array_equal(encoding.codes(values, scales.finest), [[7, -4, 2], [4, 2, -1]])
    np.testing.assert_array_equal(
        stored_integers(values, 16, scales.finest, encoding), [[7 << 9, -4 << 9, 2 << 9], [4, 2, -1]]
    )
    by_columns = ParameterEncoding(4, rows=RowShifts((1,), (9, 0, 1)))
    np.testing.assert_array_equal(
        by_columns.integers(np.ldexp([[512.0, 1, 2]] * 2, -20), 20), [[512, 1, 2], [512, 1, 2]]
    )
    assert encoding.integer_bits == 13


def test_rows_that_are_not_shifted_are_no_rows_with_scales_of_their_own() -> None:
    """A program would bring an array of zeros that nothing reads, which compilers refuse."""
    with pytest.raises(ValueError, match="at least one of 2 rows must be shifted"):
        RowShifts((0,), (0, 0))


def test_rows_too_far_apart_keep_to_what_16_bits_hold() -> None:
    variable = ir.Variable("W", (3, 1), ir.Role.PARAMETER, ir.Location("two.sd", 1, 1))
    scales = row_scales(variable, (0,), np.array([[1e6], [1e-6], [0.0]]), 4)
    assert scales is not None
    assert scales.shifts.shifts == (12, 0, 0)
    assert ParameterEncoding(4, rows=scales.shifts).integer_bits == 16
    assert row_scales(variable, (0,), np.array([[1.0], [1.5], [0.0]]), 4) is None  # the same everywhere


def test_rows_of_parameters_are_the_weights_of_one_sum() -> None:
    """Rows of a left operand, columns of a right one; none of what is read twice."""
    here = ir.Location("rows.sd", 1, 1)
    shapes = {"A": (4, 3), "B": (5, 2), "C": (2, 2)}
    a, b, c = (ir.Variable(name, shape, ir.Role.PARAMETER, here) for name, shape in shapes.items())
    x = ir.Variable("X", (3, 5), ir.Role.INPUT, here)
    y, z, w = (
        ir.Variable(name, shape, ir.Role.TEMPORARY, here)
        for name, shape in (("y", (4, 5)), ("z", (4, 2)), ("w", (4, 2)))
    )
    body = (
        ir.MatMul(ir.whole(y), here, ir.whole(a), ir.whole(x)),
        ir.MatMul(ir.whole(z), here, ir.whole(y), ir.whole(b)),
        ir.MatMul(ir.whole(w), here, ir.whole(z), ir.whole(c)),
        ir.MatMul(ir.whole(z), here, ir.whole(w), ir.whole(c)),
    )
    program = ir.Program("rows", (x, a, b, c, y, z, w), body, ir.whole(z), ir.ResultKind.REAL)
    assert parameter_rows(program) == {"A": (0,), "B": (1,)}


ENCODINGS = st.one_of(
    st.builds(ParameterEncoding, st.sampled_from([1, 2, 3, 4, 6, 8]), st.integers(0, 2)),
    st.builds(ParameterEncoding, st.sampled_from([2, 3, 4]), rows=st.just(RowShifts((0,), (0, 2, 1)))),
    st.just(ParameterEncoding(4, codebook=True)),
)


@given(ENCODINGS, st.lists(st.floats(-40, 40), min_size=36, max_size=36), st.integers(-1, 3))
def test_the_codes_around_a_value_are_next_to_it(encoding: ParameterEncoding, drawn: list[float], scale: int) -> None:
    """Of all integers that the value's codes can stand for, by trying each."""
    values = np.array(drawn).reshape(3, 12)
    table = encoding.table(values, scale) if encoding.codebook else None
    half = 1 << (encoding.width - 1)
    all_codes = [-1, 1] if encoding.width == 1 else list(range(-half, half))

    def of_code(code: int) -> np.ndarray:
        codes = np.full(values.shape, code)
        return ParameterEncoding(
            encoding.width, encoding.shift, None, encoding.rows, encoding.codebook, GivenCodes(codes, table)
        ).integers(values, scale)

    known = {code: of_code(code) for code in all_codes}
    below, above = encoding.around(values, scale)
    for place, value in np.ndenumerate(np.ldexp(values, scale)):
        integers = sorted({int(known[code][place]) for code in all_codes})
        low = max((i for i in integers if i <= value), default=integers[0])
        high = min((i for i in integers if i > value), default=integers[-1])
        if encoding.width == 1:
            low, high = integers
        assert (int(known[int(below[place])][place]), int(known[int(above[place])][place])) == (low, high)


@given(ENCODINGS, st.lists(st.floats(-40, 40), min_size=36, max_size=36), st.integers(-1, 3))
def test_the_codes_beside_a_code_are_of_the_next_integers(
    encoding: ParameterEncoding, drawn: list[float], scale: int
) -> None:
    """Of every code that there is, by the integers of all of them in order; of binary weights both."""
    values = np.array(drawn).reshape(3, 12)
    table = encoding.table(values, scale) if encoding.codebook else None
    half = 1 << (encoding.width - 1)
    all_codes = [-1, 1] if encoding.width == 1 else list(range(-half, half))

    def of_code(code: int) -> int:
        given = replace(encoding, given=GivenCodes(np.full(values.shape, code), table))
        return int(given.integers(values, scale)[0, 0])

    ordered = sorted({of_code(code) for code in all_codes})
    for code in all_codes:
        place = ordered.index(of_code(code))
        expected = (ordered[max(place - 1, 0)], ordered[min(place + 1, len(ordered) - 1)])
        if encoding.width == 1:
            expected = (ordered[0], ordered[1])
        below, above = encoding.beside(code, values, scale)
        assert (of_code(below), of_code(above)) == expected


def test_given_codes_are_what_is_stored_whatever_the_values() -> None:
    codes = np.array([[1, -8], [7, 0]])
    encoding = ParameterEncoding(4, 2, given=GivenCodes(codes))
    np.testing.assert_array_equal(encoding.codes(np.zeros((2, 2)), 5), codes)
    np.testing.assert_array_equal(stored_integers(np.zeros((2, 2)), 8, 5, encoding), codes * 4)
    table = np.arange(16) * 3
    booked = ParameterEncoding(4, codebook=True, given=GivenCodes(codes, table))
    np.testing.assert_array_equal(booked.integers(np.zeros((2, 2)), 0), table[codes + 8])
    np.testing.assert_array_equal(booked.table(np.zeros((2, 2)), 0), table)
    assert ParameterEncoding(4, given=GivenCodes(codes)) != ParameterEncoding(4, given=GivenCodes(codes + 0))
