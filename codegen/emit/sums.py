"""Sums of integer products: in order modulo a power of two, or by SeeDot's TreeSum."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.codegen.emit.context import Context, Narrowing, OperationRow, SumOfProducts
from kilotune.codegen.emit.operators import CExpression, Operators, cast, int_type
from kilotune.codegen.emit.ranges import NARROW_BITS
from kilotune.codegen.emit.schedule import in_order, scales_terms
from kilotune.codegen.fixed.table import Column


def integer_sum(context: Context, row: OperationRow, length: int, narrow: bool = False) -> SumOfProducts:
    """The sum that the row asks for. A tree without halvings adds modulo 2**ACC_BITS in any order, so also in order.

    `narrow`: the final value is known to fit NARROW_BITS, so the sum is taken modulo 2**NARROW_BITS.
    """
    bits, halvings = NARROW_BITS if narrow else row[Column.ACC_BITS], row[Column.HALVINGS]
    if in_order(halvings):
        return _Linear(context, row, bits)
    return _Tree(context, row, length, bits, context.scratch(row.number, bits, (length - 1).bit_length() + 1))


def _term(context: Context, row: OperationRow, a: CExpression, b: CExpression, bits: int) -> CExpression:
    """One product of a sum: scaled operands, wrapped at the accumulator's width, divided by 2**SHIFT_TERM."""
    operators = context.operators
    product = operators.multiply(
        operators.scale(a, row[Column.SHIFT_A], bits), operators.scale(b, row[Column.SHIFT_B], bits), bits
    )
    return operators.scale(product, row[Column.SHIFT_TERM], bits)


def _store(context: Context, row: OperationRow, total: CExpression, target: str, bits: int) -> None:
    result = context.operators.store(total, row[Column.SHIFT_OUT], row[Column.BITS])
    context.writer.line(f"{target} = {cast(result, bits).text};")


@dataclass(frozen=True)
class _Linear:
    """Term after term."""

    context: Context
    row: OperationRow
    bits: int
    numbered: bool = False

    @property
    def plain(self) -> bool:
        row = self.row
        scaled = scales_terms(row[Column.SHIFT_A], row[Column.SHIFT_B], row[Column.SHIFT_TERM])
        return self.bits <= 32 and not scaled

    @property
    def kind(self) -> str:
        return f"uint{self.bits}_t"

    @property
    def key(self) -> str:
        shifts = [self.row[column] for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)]
        return "_".join(str(n).replace("-", "m") for n in [self.bits, *(shifts if any(shifts) else [])])

    @property
    def modular(self) -> frozenset[int]:
        """A product modulo a power of two may be multiplied at any time; what is divided may not."""
        if self.row[Column.SHIFT_TERM] > 0:
            return frozenset()
        shifts = (self.row[Column.SHIFT_A], self.row[Column.SHIFT_B])
        return frozenset(number for number, shift in enumerate(shifts) if shift == 0)

    def scaled_up(self, amount: str) -> None:
        wide = "(unsigned)" if self.bits < 32 else ""
        self.context.writer.line(f"sum = ({self.kind})({wide}sum << {amount});")

    def start(self) -> None:
        self.context.writer.line(f"{self.kind} sum = 0;")

    def add(self, a: CExpression, b: CExpression, number: str, condition: str = "") -> None:
        text = self.grown(a, b)
        self.context.writer.line(f"{f'if ({condition}) ' if condition else ''}sum = {text};")

    def grown(self, a: CExpression, b: CExpression) -> str:
        row, operators, bits = self.row, self.context.operators, self.bits
        plain = not scales_terms(row[Column.SHIFT_A], row[Column.SHIFT_B], row[Column.SHIFT_TERM])
        if plain and bits == 32 and max(a.bits, b.bits) <= 16:
            return operators.accumulate(a, b)
        value = _term(self.context, row, a, b, bits)
        return f"(uint{bits}_t)(sum + (uint{bits}_t){value.text})"

    def store(self, target: str, bits: int) -> None:
        _store(self.context, self.row, CExpression(f"({int_type(self.bits)})sum", self.bits), target, bits)

    @property
    def narrowing(self) -> Narrowing | None:
        shift = self.row[Column.SHIFT_OUT]
        exact = self.plain and 0 <= shift < self.bits
        return Narrowing(self.bits, shift, self.row[Column.BITS]) if exact else None


@dataclass(frozen=True)
class _Tree:
    """TreeSum: the first HALVINGS levels halve both addends."""

    context: Context
    row: OperationRow
    length: int
    bits: int
    scratch: str
    numbered: bool = True
    plain: bool = False
    kind: str = ""
    key: str = ""
    modular: frozenset[int] = frozenset()
    narrowing: None = None

    def grown(self, a: CExpression, b: CExpression) -> str:
        raise NotImplementedError

    def scaled_up(self, amount: str) -> None:
        raise NotImplementedError

    def start(self) -> None:
        pass

    def add(self, a: CExpression, b: CExpression, number: str, condition: str = "") -> None:
        value = _term(self.context, self.row, a, b, self.bits)
        text = f"({condition}) ? {value.text} : 0" if condition else value.text
        name = _tree_add(self.context.operators, self.bits)
        halvings = self.row[Column.HALVINGS]
        self.context.writer.line(f"{name}({self.scratch}, (kt_index)({number}), {text}, {halvings});")

    def store(self, target: str, bits: int) -> None:
        name = _tree_total(self.context.operators, self.bits)
        total = CExpression(f"{name}({self.scratch}, {self.length}, {self.row[Column.HALVINGS]})", self.bits)
        _store(self.context, self.row, total, target, bits)


def _pair(operators: Operators, bits: int) -> str:
    """The function that adds two neighbours of the tree."""
    kind = int_type(bits)
    whole = operators.add(CExpression("a", bits), CExpression("b", bits), bits)
    halves = operators.add(operators.down(CExpression("a", bits), 1), operators.down(CExpression("b", bits), 1), bits)
    return operators.require(
        f"kt_pair{bits}",
        f"KT_INLINE {kind} kt_pair{bits}({kind} a, {kind} b, uint8_t halve)\n{{\n"
        f"    return halve ? {halves.text} : {whole.text};\n}}",
    )


def _tree_add(operators: Operators, bits: int) -> str:
    pair = _pair(operators, bits)
    return operators.require(
        f"kt_tree_add{bits}",
        "/* TreeSum one term at a time: waiting[l] holds a sum of level l of the tree until its neighbour is known, so\n"
        " * that a sum of n terms needs log2(n) places and not n. The first `halvings` levels halve both addends. */\n"
        f"static void kt_tree_add{bits}(kt_int{bits} *waiting, kt_index number, int{bits}_t term, uint8_t halvings)\n{{\n"
        "    uint8_t level = 0;\n"
        f"    for (; number & 1; number >>= 1, level++) term = {pair}(waiting[level], term, level < halvings);\n"
        "    waiting[level] = term;\n}",
    )


def _tree_total(operators: Operators, bits: int) -> str:
    pair = _pair(operators, bits)
    half = operators.down(CExpression("sum", bits), 1).text
    return operators.require(
        f"kt_tree_total{bits}",
        "/* The root of the tree: what still waits, from the lowest level up; a last sum without a neighbour moves up,\n"
        " * halved as its level says. */\n"
        f"static int{bits}_t kt_tree_total{bits}(const kt_int{bits} *waiting, kt_index count, uint8_t halvings)\n{{\n"
        f"    int{bits}_t sum = 0;\n    uint8_t level = 0, found = 0;\n"
        "    for (kt_index left = count, bit = count; left > 1; left = (kt_index)((left + 1) / 2), bit >>= 1, level++) {\n"
        "        const uint8_t halve = level < halvings;\n"
        "        if ((bit & 1) && found) {\n"
        f"            sum = {pair}(waiting[level], sum, halve);\n"
        "        } else if ((bit & 1) || found) {\n"
        "            if (!found) sum = waiting[level];\n"
        f"            if (halve) sum = {half};\n"
        "            found = 1;\n        }\n    }\n"
        "    return found ? sum : waiting[level];\n}",
    )
