"""The arrays of a program's parameters: dense or sparse, whole numbers or packed codes, with the shifts of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.constant_arrays import (
    ConstantArray,
    constant_array,
    float_array,
    packed_array,
    sparse_format,
)
from kilotune.codegen.emit.interface import comment_text
from kilotune.codegen.emit.storage import VariableStorage


def parameter_arrays(
    storage: VariableStorage, program: ir.Program, parameters: Mapping[str, FloatArray]
) -> dict[str, list[ConstantArray]]:
    """The constants of all parameters that a program reads, by parameter, in the form that `storage` gives them. `parameters`: their values
    by name."""
    arrays = {}
    used = ir.used_variables(program)
    for variable in program.variables:
        if variable.role is not ir.Role.PARAMETER or variable.name not in used:
            continue
        arrays[variable.name] = [
            *_arrays_of(storage, variable, parameters[variable.name].reshape(variable.shape)),
            *_row_shifts(storage, variable.name),
            *_codebook(storage, variable.name, parameters[variable.name]),
        ]
    return arrays


def _arrays_of(storage: VariableStorage, variable: ir.Variable, values: FloatArray) -> list[ConstantArray]:
    """The array, or both lists, of one parameter."""
    name, real = storage.names[variable.name], storage.real and variable.name not in storage.steps
    note = f"/* {comment_text(variable.name)}: {storage.describe(variable.name)} */\n"
    if variable.name in storage.sparse:
        lists = sparse_format(values, storage.stored(variable.name), real)
        kept = _values(storage, variable.name, lists.values)
        columns = constant_array(f"{name}_columns", f"uint{lists.place_bits}_t", lists.columns, lists.place_bits)
        rule = "/* for each row, the columns (from 1) of its values, then 0 */\n"
        both = ConstantArray(rule + columns.definition, columns.size_bytes)
        return [ConstantArray(note + kept.definition, kept.size_bytes), both]
    order = storage.orders.get(variable.name, range(values.ndim))
    if real:
        dense = float_array(name, values.transpose(order))
    else:
        numbers = storage.stored(variable.name)(values).transpose(order)
        dense = _values(storage, variable.name, _in_order(storage, variable.name, numbers.reshape(-1)).tolist())
    return [ConstantArray(note + dense.definition, dense.size_bytes)]


def _in_order(storage: VariableStorage, variable: str, numbers: IntArray) -> IntArray:
    """The numbers of a dense parameter as they lie in flash: of interleaved rows 0, 2, 1, 3 of each four, and what is left as it is."""
    length = storage.interleaved.get(variable)
    if length is None:
        return numbers
    rows = numbers.reshape(-1, length).copy()
    whole = rows[:, : length // 4 * 4]
    whole[:] = whole.reshape(len(rows), -1, 2, 2).transpose(0, 1, 3, 2).reshape(whole.shape)
    return rows.reshape(-1)


def _row_shifts(storage: VariableStorage, variable: str) -> list[ConstantArray]:
    """By how much the sums of a parameter's rows are multiplied, where they have codes of their own."""
    encoding = storage.encodings.get(variable)
    if encoding is None or encoding.rows is None:
        return []
    return [constant_array(storage.row_shifts(variable), "uint8_t", encoding.rows.shifts, 8)]


def _codebook(storage: VariableStorage, variable: str, values: FloatArray) -> list[ConstantArray]:
    """The integers that a parameter's codes stand for, where they are numbers of a table's."""
    encoding = storage.encodings.get(variable)
    if encoding is None or not encoding.codebook:
        return []
    table = encoding.table(values, storage.scales[variable]).tolist()
    return [constant_array(storage.codebook(variable), "int8_t", table, 8)]


def _values(storage: VariableStorage, name: str, values: Sequence[float]) -> ConstantArray:
    """The array of a parameter's stored numbers."""
    packing, array = storage.packing(name), storage.array(name)
    if packing is not None:
        return packed_array(array, packing.packed(np.array(values, dtype=np.int64)))
    if storage.has_codes(name):
        return constant_array(array, "int8_t", values, 8)
    return constant_array(array, storage.type_of(name), values, storage.bits[name])
