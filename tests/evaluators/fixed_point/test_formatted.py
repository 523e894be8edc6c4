"""Where the kernel finds parameters: by their formats, and by no others that have the same numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.formatted import FormattedData, ParameterAddresses, Weights, address_of
from tests.codegen.fixed.programs import shiftry_section_3


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
            found = addresses.of(one)
            statics, packs = found[:, addresses.values], found[:, addresses.packs]
            assert addresses.columns.tolist() == [
                i for i, v in enumerate(program.variables) if v.role is ir.Role.PARAMETER
            ]
            for i in range(12):
                for place, column in enumerate(addresses.columns.tolist()):
                    name = program.variables[column].name
                    form = int(one.bits[i, column]), int(one.scales[i, column]), one.encoding(i, column)
                    assert (statics[i, place], *packs[i, list(data.packs_of(name))]) == data.parameter(name, form)


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
