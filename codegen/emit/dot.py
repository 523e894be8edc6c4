"""C of everything that multiplies and sums: MatMul, sparse MatMul, Conv2D, and SeeDot's TreeSum."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, Row, visit
from kilotune.codegen.emit.operators import Operators, Value, cast, int_type
from kilotune.codegen.emit.windows import inside, window_place
from kilotune.codegen.fixed.table import Column


def emit_matmul(context: Context, operation: ir.MatMul, row: Row) -> None:
    """(P, Q) x (Q, R): one sum for every element of the result."""
    if operation.a.variable in context.storage.sparse:
        _emit_sparse(context, operation, row)
        return
    a, b, out = operation.a, operation.b, operation.out
    (height, length), width = a.shape, b.shape[1]
    with context.writer.loops([("i0", height), ("i1", width)], scope=True) as (i, j):
        total = _Sum(context, row, length)
        total.start()
        with context.writer.loops([("k", length)]) as (k,):
            total.add(visit(context, a, (i, k), a.strides), visit(context, b, (k, j), b.strides), k)
        total.store(visit(context, out, (i, j), out.strides))


def emit_conv2d(context: Context, operation: ir.Conv2D, row: Row) -> None:
    """A sum over kernel rows, columns and the input channels of the group; padding counts as zeros."""
    a, b, out = operation.a, operation.b, operation.out
    groups, kernel_height, kernel_width, group_in, group_out = b.shape
    images, height, width = out.shape[:3]
    writer = context.writer
    outer = [("i0", images), ("i1", height), ("i2", width), ("i3", groups), ("i4", group_out)]
    with writer.loops(outer, scope=True) as (image, y, x, group, channel):
        total = _Sum(context, row, kernel_height * kernel_width * group_in)
        total.start()
        kernel = [("i5", kernel_height), ("i6", kernel_width), ("k", group_in)]
        with writer.loops(kernel) as (ky, kx, k):
            places = [window_place("row", y, ky, operation, 0), window_place("column", x, kx, operation, 1)]
            for name, text, *_ in places:
                writer.line(f"const kt_index {name} = {text};")
            moves = [(image, a.strides[0]), ("row", a.strides[1]), ("column", a.strides[2])]
            moves += [(group, group_in * a.strides[3]), (k, a.strides[3])]
            pixel = context.storage.element(a, moves)
            weight = visit(context, b, (group, ky, kx, k, channel), b.strides)
            number = _tap_number((ky, kx, k), b.shape[1:4])
            condition = inside([(name, extent, least, greatest) for name, _, extent, least, greatest in places])
            total.add(pixel, weight, number, condition)
        moves = [(image, out.strides[0]), (y, out.strides[1]), (x, out.strides[2])]
        moves += [(group, group_out * out.strides[3]), (channel, out.strides[3])]
        total.store(context.storage.element(out, moves))


def _tap_number(counters: Sequence[str], extents: tuple[int, ...]) -> str:
    steps = ir.row_major_strides(extents)
    terms = [c if s == 1 else f"{s} * {c}" for c, s in zip(counters, steps, strict=True) if c != "0"]
    return " + ".join(terms) or "0"


def term(context: Context, row: Row, a: Value, b: Value) -> Value:
    """One product of a sum: scaled operands, wrapped at the accumulator's width, divided by 2**SHIFT_TERM."""
    operators, bits = context.operators, row[Column.ACC_BITS]
    product = operators.multiply(
        operators.scale(a, row[Column.SHIFT_A], bits), operators.scale(b, row[Column.SHIFT_B], bits), bits
    )
    return operators.scale(product, row[Column.SHIFT_TERM], bits)


class _Sum:
    """The sum of one element of a result: in order, or by SeeDot's TreeSum when the row has halvings."""

    def __init__(self, context: Context, row: Row, length: int) -> None:
        self._context, self._row, self._length = context, row, length
        self._bits, self._halvings = row[Column.ACC_BITS], row[Column.HALVINGS]
        self._scratch = ""
        if self._halvings >= 0:
            self._scratch = context.scratch(row.number, self._bits, (length - 1).bit_length() + 1)

    def start(self) -> None:
        if not self._scratch:
            self._context.writer.line(f"uint{self._bits}_t sum = 0;")

    def add(self, a: Value, b: Value, number: str, condition: str = "") -> None:
        """Add the product of a and b as term `number`; it is 0 where the condition does not hold."""
        value = term(self._context, self._row, a, b)
        line = self._context.writer.line
        if self._scratch:
            text = f"({condition}) ? {value.text} : 0" if condition else value.text
            name = _tree_add(self._context.operators, self._bits)
            line(f"{name}({self._scratch}, (kt_index)({number}), {text}, {self._halvings});")
        else:
            kind = f"uint{self._bits}_t"
            line(f"{f'if ({condition}) ' if condition else ''}sum = ({kind})(sum + ({kind}){value.text});")

    def store(self, target: Value) -> None:
        total = Value(f"({int_type(self._bits)})sum", self._bits)
        if self._scratch:
            name = _tree_total(self._context.operators, self._bits)
            total = Value(f"{name}({self._scratch}, {self._length}, {self._halvings})", self._bits)
        result = self._context.operators.store(total, self._row[Column.SHIFT_OUT], self._row[Column.BITS])
        self._context.writer.line(f"{target.text} = {cast(result, target.bits).text};")


def _pair(operators: Operators, bits: int) -> str:
    """The function that adds two neighbours of the tree."""
    kind = int_type(bits)
    whole = operators.add(Value("a", bits), Value("b", bits), bits)
    halves = operators.add(operators.down(Value("a", bits), 1), operators.down(Value("b", bits), 1), bits)
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
    half = operators.down(Value("sum", bits), 1).text
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


def _emit_sparse(context: Context, operation: ir.MatMul, row: Row) -> None:
    """Row by row over the values that are stored; `next` walks through the lists of columns.

    SeeDot's Algorithm 2 goes column by column, which takes a sum for every row in RAM. Both add the same terms.
    """
    a, b, out = operation.a, operation.b, operation.out
    writer, matrix = context.writer, context.storage.names[operation.a.variable]
    width, load = context.storage.bits[a.variable], 8 if a.shape[1] < 256 else 16
    with writer.loops([("i1", b.shape[1])], scope=True) as (j,):
        writer.line(f"const {int_type(width)} *value = {matrix}_values;")
        writer.line(f"const uint{load}_t *next = {matrix}_columns;")
        with writer.loops([("i0", a.shape[0])], scope=True) as (i,):
            total = _Sum(context, row, a.shape[1])
            total.start()
            step = f"for (uint{load}_t k = KT_LOAD_PLACE{load}(next++); k != 0; k = KT_LOAD_PLACE{load}(next++))"
            with writer.block(step):
                left = Value(f"KT_LOAD{width}(value)", width)
                total.add(left, visit(context, b, ("(k - 1)", j), b.strides), "")
                writer.line("value++;")
            total.store(visit(context, out, (i, j), out.strides))
