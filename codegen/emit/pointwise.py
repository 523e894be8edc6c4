"""Pointwise operators as C expressions on integers: `codegen.ir.numbers` over expressions of known widths."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.codegen.emit.context import OperationRow
from kilotune.codegen.emit.operators import WIDTHS, CExpression, Operators, cast, constant, int_type
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.ir import Constants
from kilotune.codegen.ir.numbers import Constant


def constants_of(row: OperationRow) -> Constants:
    """The constants of a pointwise operator, from its row."""
    return Constants(row[Column.CONSTANT_A], row[Column.CONSTANT_B], row[Column.SHIFT_B])


@dataclass(frozen=True)
class Expressions:
    """Numbers are C expressions. Exact results have the least width that holds them."""

    operators: Operators
    accumulator_bits: int

    def negative(self, a: CExpression) -> CExpression:
        return self.operators.subtract(constant(0), a, self.accumulator_bits)

    def positive(self, a: CExpression) -> CExpression:
        return CExpression(f"({int_type(a.bits)})({a.text} > 0 ? {a.text} : 0)", a.bits)

    def clip(self, a: CExpression, limit: Constant) -> CExpression:
        end = constant(int(limit))
        bits = max(a.bits, end.bits)
        kind = int_type(bits)
        name = self.operators.require(
            f"kt_clip{bits}",
            f"/* v, held between 0 and limit */\n"
            f"KT_INLINE {kind} kt_clip{bits}({kind} v, {kind} limit)\n{{\n"
            f"    if (v < 0) v = 0;\n    return v < limit ? v : limit;\n}}",
        )
        return CExpression(f"{name}({a.text}, {end.text})", bits)

    def plus(self, a: CExpression, number: Constant) -> CExpression:
        return self.operators.add(a, constant(int(number)), a.bits)

    def scaled(self, a: CExpression, number: Constant) -> CExpression:
        return a if int(number) == 1 else self.times(a, constant(int(number)))

    def times(self, a: CExpression, b: CExpression) -> CExpression:
        return self.operators.multiply(a, b, next(bits for bits in WIDTHS if bits >= a.bits + b.bits))

    def down(self, a: CExpression, shift: Constant) -> CExpression:
        return self.operators.exact(a, int(shift))

    def narrow(self, a: CExpression, like: CExpression) -> CExpression:
        return cast(a, like.bits)

    def where_negative(self, a: CExpression, then: CExpression, otherwise: CExpression) -> CExpression:
        bits = max(then.bits, otherwise.bits)
        # C gives both branches one type, at least int; the cast names it
        return CExpression(f"({int_type(bits)})({a.text} < 0 ? {then.text} : {otherwise.text})", bits)
