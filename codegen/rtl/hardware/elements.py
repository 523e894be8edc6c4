"""The arithmetic of one element: what an operation computes of its operands, a part at a time."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal, Value

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.rtl.hardware.arithmetic import Signals, constant, delayed, delayed_flag, down, wrap
from kilotune.codegen.rtl.hardware.division import quotient
from kilotune.codegen.rtl.hardware.rom import read_table
from kilotune.codegen.rtl.units import Cycles, UnitPart


def operand_columns(operation: ir.Operation) -> tuple[tuple[Column | None, Column | None], ...]:
    """The columns of the shift and of the literal of each operand; none where nothing is shifted."""
    a, b = (Column.SHIFT_A, Column.CONSTANT_A), (Column.SHIFT_B, Column.CONSTANT_B)
    if isinstance(operation, ir.Select):
        return (None, None), a, b
    return (a, b)[: len(operation.operands)]


def element_result(operation: ir.Elementwise, values: Sequence[Value], rounding: Rounding, row: Int32Array) -> Value:
    """The result of shifted operands before it is scaled, of an operation without a table or a multiplication."""
    accumulator = int(row[Column.ACC_BITS])
    match operation:
        case ir.Fill():
            return constant(int(row[Column.CONSTANT_A]))
        case ir.Select():
            chosen = values[0] > 0 if operation.strict else values[0] >= 0
            return Mux(chosen, values[1], values[2])
        case ir.Add():
            return wrap(values[0] + values[1], accumulator)
        case ir.Subtract():
            return wrap(values[0] - values[1], accumulator)
        case ir.Pointwise():
            constants = ir.Constants(int(row[Column.CONSTANT_A]), int(row[Column.CONSTANT_B]), int(row[Column.SHIFT_B]))
            return operation.integer(Signals(rounding, accumulator), values[0], constants)
        case ir.Sign():
            return values[0] > 0
        case _:
            raise ValueError(f"no arithmetic for {type(operation).__name__}")


def table_result(
    m: Module,
    operation: ir.TableFunction,
    x: Value,
    valid: Value,
    table: Exponential,
    rounding: Rounding,
    cycles: Cycles,
    name: str,
) -> Value:
    """Exp, Sigmoid or Tanh of the shifted argument `x`, after all parts but READ and SCALE. `valid`: a step is here."""
    valid = delayed_flag(m, valid, cycles[UnitPart.OPERANDS], f"{name}_valid")
    x = delayed(m, x, cycles[UnitPart.OPERANDS] // 3, f"{name}_x")
    if isinstance(operation, ir.Exp):
        return _exponential(m, x, table, rounding, cycles, name)
    positive = x > 0
    decayed = _exponential(m, Mux(positive, -x, x), table, rounding, cycles, name)
    after = cycles[UnitPart.TABLE] + cycles[UnitPart.PRODUCT]
    positive = delayed(m, positive, cycles[UnitPart.OPERANDS] // 3 * 2 + after, f"{name}_positive")
    valid = delayed_flag(m, valid, after, f"{name}_there")
    one, decayed = 1 << table.scale, decayed.as_unsigned()
    above = Mux(positive, one, decayed) if isinstance(operation, ir.Sigmoid) else (one - decayed).as_unsigned()
    numerator = above[: table.scale + 1].shift_left(table.scale)
    ratio = quotient(m, valid, numerator, one + decayed, table.scale, name)
    if isinstance(operation, ir.Sigmoid):
        return ratio
    positive_at_load = Signal(name=f"{name}_sign", reset_less=True)
    with m.If(valid):
        m.d.sync += positive_at_load.eq(positive)
    return Mux(positive_at_load, ratio, -ratio)


def _exponential(m: Module, x: Value, table: Exponential, rounding: Rounding, cycles: Cycles, name: str) -> Value:
    """e**x by one table or the product of two."""
    distance = x - constant(table.reference) if table.sign > 0 else constant(table.reference) - x
    limit, third = Const(table.limit), cycles[UnitPart.OPERANDS] // 3
    distance = delayed(m, distance, third, f"{name}_distance")
    place = Mux(distance < 0, 0, Mux(distance > table.limit, limit, distance[: len(limit)]))
    place = delayed(m, place, third, f"{name}_place")
    arrays, answered = table.shifted_arrays(rounding), cycles[UnitPart.TABLE] - 1
    high = read_table(m, _reachable(arrays[0], table), place >> table.coarse_shift, f"{name}_coarse")
    high = delayed(m, high, answered, f"{name}_high")
    if not table.fine:
        return delayed(m, high, cycles[UnitPart.PRODUCT], f"{name}_entry")
    fine_place = (place >> table.fine_shift)[: (len(table.fine) - 1).bit_length()]
    low = delayed(m, read_table(m, arrays[1], fine_place, f"{name}_fine"), answered, f"{name}_low")
    early = cycles[UnitPart.PRODUCT] // 2
    whole = delayed(m, wrap(high * low, table.product_bits), early, f"{name}_whole")
    shifted = down(whole, table.product_shift, rounding)
    return delayed(m, shifted, cycles[UnitPart.PRODUCT] - early, f"{name}_product")


def _reachable(entries: Sequence[int], table: Exponential) -> Sequence[int]:
    return entries[: (table.limit >> table.coarse_shift) + 1]


def scaled_result(value: Value, row: Int32Array, rounding: Rounding, exact: bool) -> Value:
    """What is stored of a result; `exact`: as it is."""
    if exact:
        return value
    return wrap(down(value, int(row[Column.SHIFT_OUT]), rounding), int(row[Column.BITS]))
