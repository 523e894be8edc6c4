"""Where the kernel finds parameters: by their formats, and by no others that have the same numbers."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding, scale_down, wrap
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.exponential import shiftry_exponential
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column, FixedBatch, unencoded
from kilotune.evaluators.fixed_point import formatted
from kilotune.evaluators.fixed_point.formatted import (
    FormattedData,
    ParameterAddresses,
    TableKey,
    Weights,
    address_of,
    format_numbers,
)
from kilotune.evaluators.fixed_point.reference import evaluate_function
from tests.abandoned import abandoned_everywhere
from tests.codegen.fixed.programs import HERE, shiftry_section_3


def test_addresses_are_those_of_each_parameter_in_each_format() -> None:
    program, parameters = shiftry_section_3()
    data = FormattedData(parameters, np.zeros((1, 0)))
    for name, elements in (("W2", [[0], [1]]), ("W1", [[0, 2], [1, 3]]), ("W2", [[1], [0]])):
        data.pack_number(Weights(name, np.array(elements, dtype=np.int32)))
    addresses = ParameterAddresses(program, data)
    random = np.random.default_rng(0)
    bits = random.choice([8, 16], (12, 9))
    encoded = np.full((12, 9), -1, dtype=np.int32)
    encoded[::2, 2] = 0  # W2
    rules = ShiftryLowering(program, {})
    for width in (2, 4, 2):  # the number of the encoding is the same, the encoding is another one
        batch = rules.lower(bits, bits - 2, encoded, (ParameterEncoding(width),))
        for one in (batch, replace(batch, encodings=(ParameterEncoding(3),)), batch):
            statics, packs = addresses.of(one, format_numbers(one))
            for i, (column, variable) in itertools.product(range(12), enumerate(program.variables)):
                if variable.role is not ir.Role.PARAMETER:
                    assert not statics[i, column]
                    continue
                form = int(one.bits[i, column]), int(one.scales[i, column]), one.encoding(i, column)
                found = (statics[i, column], *packs[i, list(data.packs_of(variable.name))])
                assert found == data.parameter(variable.name, form)


@given(st.lists(st.tuples(st.sampled_from([1, 8, 16, 32]), st.integers(-40, 40)), min_size=2, max_size=8))
def test_formats_have_the_same_number_only_where_they_are_the_same(formats: list[tuple[int, int]]) -> None:
    bits, scales = (np.array([numbers], dtype=np.int32) for numbers in zip(*formats, strict=True))
    program, _ = shiftry_section_3()
    rows = np.zeros((1, 0, len(Column)), dtype=np.int32)
    batch = FixedBatch(program, Rounding.TOWARD_ZERO, bits, scales, rows, (), unencoded(bits.shape))
    numbers = format_numbers(batch)[0].tolist()
    for (one, a), (other, b) in itertools.combinations(zip(formats, numbers, strict=True), 2):
        assert (one == other) == (a == b)


def test_an_address_is_that_of_elements_one_after_the_other() -> None:
    array = np.arange(12).reshape(3, 4)
    assert address_of(array) == array.ctypes.data
    assert address_of(array[1:]) == array.ctypes.data + 4 * array.itemsize
    frozen, none = array.copy(), np.zeros((0, 3))
    frozen.setflags(write=False)
    assert address_of(frozen) == frozen.ctypes.data
    assert address_of(none) == none.ctypes.data
    for scattered in (array.T, array[:, 1:]):
        with pytest.raises(ValueError, match="one after the other"):
            address_of(scattered)


def view(name: str) -> ir.View:
    """A variable of one element."""
    return ir.View(name, (1,), (1,))


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("argument_bits", [8, 16])
def test_tables_have_the_function_of_every_argument(rounding: Rounding, argument_bits: int) -> None:
    """Whatever has been made before, of which a part may be of use again."""
    data = FormattedData({}, np.zeros((1, 0)))
    far = replace(shiftry_exponential(16), reference=1 << 17)  # of arguments beyond 16 bits
    functions = [shiftry_exponential(8), shiftry_exponential(16), shiftry_exponential(16, 3.0), far]
    arguments = np.arange(1 << argument_bits).astype(f"int{argument_bits}").astype(np.int64)
    kinds = itertools.product((ir.Exp, ir.Sigmoid, ir.Tanh), functions, (0, 3, -2, -9, 15), (0, 6), (8, 16))
    for kind, function, shift_a, shift_out, bits in kinds:
        operation = kind(view("out"), HERE, view("a"))
        key = TableKey(shift_a, shift_out, bits, 0, argument_bits)
        address = data.table(operation, key, function, rounding)
        first = ctypes.c_void_p.from_address(address).value
        assert first is not None
        found = np.frombuffer((ctypes.c_int16 * len(arguments)).from_address(first), dtype=np.int16)
        results = evaluate_function(operation, scale_down(arguments, shift_a, rounding), function, rounding)
        np.testing.assert_array_equal(found, wrap(scale_down(results, shift_out, rounding), bits))


def test_a_call_that_was_abandoned_anywhere_leaves_no_wrong_addresses() -> None:
    """Neither of parameters nor of features."""
    program, parameters = shiftry_section_3()
    encoded = np.full((1, 9), 0, dtype=np.int32)
    encoded[:, 4:] = -1
    widths = np.full((1, 9), 16)
    coarse, fine = (
        ShiftryLowering(program, {}).lower(widths, widths - 4, encoded, (ParameterEncoding(width),)) for width in (2, 4)
    )
    made: list[tuple[FormattedData, ParameterAddresses]] = []

    def begin() -> Callable[[], object]:
        data = FormattedData(parameters, np.ones((1, 1)))
        made.append((data, ParameterAddresses(program, data)))
        made[-1][1].of(coarse, format_numbers(coarse))
        return lambda: (made[-1][1].of(fine, format_numbers(fine)), data.input((16, 12)))

    for _ in abandoned_everywhere(formatted, begin):
        data, addresses = made[-1]
        name, column = program.variables[0].name, 0
        form = int(fine.bits[0, column]), int(fine.scales[0, column]), ParameterEncoding(4)
        assert addresses.of(fine, format_numbers(fine))[0][0, column] == data.parameter(name, form)[0]
        assert data.input((16, 12)) == data.input((16, 12))
    assert len(made) > 30
