"""What the emitted C of one program's candidates does, counted for whole batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.emit.storage import make_storage
from kilotune.codegen.fixed.arithmetic import FloatArray
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.cost_collector import Access, Collector, Mask, Operand
from kilotune.evaluators.cost_features import Ints, Terms, kind_position, length_position, number, width_position


class CostFeatures:
    """The features of one program's candidates."""

    def __init__(self, program: ir.Program, parameters: Mapping[str, FloatArray]) -> None:
        self._program = program
        self._columns = {v.name: i for i, v in enumerate(program.variables)}
        self._labels = [self._columns[name] for name in ir.label_variables(program)]
        self._parameters = parameters
        self._storage = make_storage(program, dict.fromkeys(self._columns, 16), dict.fromkeys(self._columns, 0))
        self._executed = tuple(_executed(program.body, 1))
        self._rounds = float(sum(_rounds(program.body, 1)))

    def terms(self, batch: FixedBatch) -> Terms:
        """All features of a batch."""
        collector = Collector(batch, self._labels)
        collector.add(1.0, number("program"))
        collector.add(self._rounds, number("loop"))
        for row, (operation, times) in enumerate(self._executed):
            self._operation(collector, row, operation, float(times))
        if self._program.result_kind is ir.ResultKind.REAL:
            self._copy_result(collector)
        return collector.collected()

    def _copy_result(self, c: Collector) -> None:
        result, size = self._program.result, float(self._program.result.size)
        c.add(size, number("element", kind_position("Copy"), 0))
        c.load(self._operand(result), Access(size, False))
        c.store(self._columns[result.variable], Access(size, False))

    def _operand(self, item: ir.Operand) -> Operand:
        if isinstance(item, ir.Literal):
            return Operand(-1, 0)
        role = self._program.variable(item.variable).role
        return Operand(self._columns[item.variable], 0 if role is ir.Role.PARAMETER else 1)

    def _operation(self, c: Collector, row: int, operation: ir.Operation, times: float) -> None:
        kind = type(operation).__name__
        match operation:
            case ir.MatMul() if operation.a.variable in self._storage.sparse:
                self._sparse(c, row, operation, times)
            case ir.MatMul():
                self._dense(c, row, operation, times)
            case ir.Conv2D():
                self._convolution(c, row, operation, times)
            case ir.ArgMax(a=a):
                c.add(times, number("start", kind_position(kind)))
                c.scan(times * a.size, kind, self._operand(a))
            case ir.MaxPool(a=a, kernel=kernel):
                elements = times * operation.out.size
                taps = elements * kernel[0] * kernel[1]
                c.frame(kind, times, elements, elements * kernel[0], operation.out.shape[-1])
                c.scan(taps, kind, self._operand(a))
                c.add(taps * _checks(operation), number("check"))
                self._finish(c, row, operation, c.bits(self._operand(a), row, 0), Access(elements, False))
            case ir.NormaliseL2():
                self._normalise(c, row, operation, times)
            case _:
                self._elementwise(c, row, operation, times)

    def _finish(self, c: Collector, row: int, operation: ir.Operation, width: Ints, access: Access) -> None:
        """The last division of an element, to the width of the result, and its storing."""
        c.down(access.times, width, c.column(row, Column.SHIFT_OUT), c.column(row, Column.BITS))
        c.store(self._columns[operation.out.variable], access)

    def _normalise(self, c: Collector, row: int, operation: ir.NormaliseL2, times: float) -> None:
        a, operand = operation.a, self._operand(operation.a)
        length = a.shape[-1] if a.shape else 1
        elements = times * operation.out.size
        magnitude = 1 << np.maximum(c.bits(operand, row, 0) - 1 - c.column(row, Column.SHIFT_A), 0)
        quotient = magnitude << np.clip(c.column(row, Column.SHIFT_B), 0, 31)
        wide = np.where((length * magnitude**2 < 1 << 32) & (quotient < 1 << 31), 0, 1)
        c.frame("NormaliseL2", times, elements, 0.0, length)
        for what, count in enumerate((elements / length, elements, elements)):
            c.add(count, number("norm", what, wide))
        c.load(operand, Access(2.0 * elements, False))
        c.shifted(2.0 * elements, operand, c.column(row, Column.SHIFT_A), c.bits(operand, row, 0))
        width = np.where(c.column(row, Column.SHIFT_B) < 15, 16, 32)
        self._finish(c, row, operation, width, Access(elements, False))

    def _elementwise(self, c: Collector, row: int, operation: ir.Operation, times: float) -> None:
        kind = type(operation).__name__
        views = [item for item in operation.operands if isinstance(item, ir.View)]
        loops = iterate([operation.out, *views])
        elements = times * operation.out.size
        outer = float(ir.count_elements(loops.extents[:-1])) if len(loops.extents) > 1 else 0.0
        c.frame(kind, times, elements, times * outer, loops.extents[-1] if loops.extents else 1)
        strides = iter(loops.strides[1:])
        operands = []
        for item in operation.operands:
            operands.append(self._operand(item))
            if isinstance(item, ir.View):
                c.load(operands[-1], _access(times, loops.extents, next(strides)))
        write = _access(times, loops.extents, loops.strides[0])
        if write.times < elements:  # an element that is written again and again
            write = Access(elements, False)
        accumulator, width = c.column(row, Column.ACC_BITS), c.column(row, Column.BITS)
        if isinstance(operation, ir.Exp | ir.Sigmoid | ir.Tanh):
            wide = np.maximum(c.bits(operands[0], row, 0), 16)
            c.shifted(elements, operands[0], c.column(row, Column.SHIFT_A), wide)
            c.function(elements, row, kind)
            self._finish(c, row, operation, c.function_bits(row), write)
            return
        if isinstance(operation, ir.Fill | ir.Sign):
            c.add(elements, number("apply", kind_position(kind), width_position(width)))
            c.store(self._columns[operation.out.variable], write)
            return
        if isinstance(operation, ir.Add | ir.Subtract | ir.Multiply | ir.Select):
            pair = operands[1:] if isinstance(operation, ir.Select) else operands
            wide = width if isinstance(operation, ir.Select) else accumulator
            for operand, shift in zip(pair, (Column.SHIFT_A, Column.SHIFT_B), strict=True):
                if operand.column >= 0:
                    c.shifted(elements, operand, c.column(row, shift), wide)
            if isinstance(operation, ir.Multiply):
                c.add(
                    elements, number("product", *c.factors(row, operands[0], operands[1]), width_position(accumulator))
                )
            else:
                c.add(elements, number("apply", kind_position(kind), width_position(wide)))
            self._finish(c, row, operation, wide, write)
            return
        wide = accumulator if isinstance(operation, ir.Negate) else c.bits(operands[0], row, 0)
        c.add(elements, number("apply", kind_position(kind), width_position(wide)))
        self._finish(c, row, operation, wide, write)

    def _dense(self, c: Collector, row: int, operation: ir.MatMul, times: float) -> None:
        a, b, out = operation.a, operation.b, operation.out
        (height, length), width = a.shape, b.shape[1]
        elements = times * out.size
        (a0, a1), (b0, b1) = self._storage.strides(a), self._storage.strides(b)
        factors = (self._operand(a), self._operand(b))
        c.frame("MatMul", times, elements, times * height if width > 1 else 0.0, max(height, width))
        runs = (c.column(row, Column.HALVINGS) <= 0) & (length > 1 and (a1, b0) == (1, 1))
        with c.only(runs):
            c.add(elements, number("run", kind_position("MatMul")))
            self._run(c, row, "MatMul", elements * length, factors, length)
            c.store(self._columns[out.variable], Access(elements, False))
        with c.only(~runs):
            c.add(elements * length, number("tap", kind_position("MatMul"), length_position(length)))
            c.add(elements, number("nest", kind_position("MatMul")))
            extents = (height, width, length)
            for factor, strides in zip(factors, ((a0, 0, a1), (0, b1, b0)), strict=True):
                c.load(factor, _access(times, extents, strides))
            self._sum(c, row, (elements * length, elements), factors, length)
            c.store(self._columns[out.variable], _access(times, (height, width), out.strides))
        c.down(elements, c.column(row, Column.ACC_BITS), c.column(row, Column.SHIFT_OUT), c.column(row, Column.BITS))

    def _run(
        self, c: Collector, row: int, kind: str, products: float, factors: tuple[Operand, Operand], length: int
    ) -> None:
        """Products of neighbours by a function of their own: plain ones as a whole, scaled ones by their parts."""
        scaled = _is_scaled(c, row)
        with c.only(~scaled):
            a, b = factors
            widths = [width_position(c.bits(f, row, place)) for place, f in enumerate(factors)]
            accumulator = width_position(c.column(row, Column.ACC_BITS))
            c.add(products, number("dot", a.place, widths[0], b.place, widths[1], accumulator))
        with c.only(scaled):
            c.add(products, number("tap", kind_position(kind), length_position(length)))
            for factor in factors:
                c.load(factor, Access(products, True))
            self._sum(c, row, (products, 0.0), factors, length)

    def _sparse(self, c: Collector, row: int, operation: ir.MatMul, times: float) -> None:
        a, b = self._operand(operation.a), self._operand(operation.b)
        products = times * float(np.count_nonzero(self._parameters[operation.a.variable])) * operation.b.shape[1]
        elements = times * operation.out.size
        c.frame("SparseMatMul", times, elements, elements, operation.a.shape[0])
        c.add(products, number("tap", kind_position("SparseMatMul"), length_position(operation.a.shape[1])))
        c.load(a, Access(products, True))
        c.load(b, Access(products, False))
        self._sum(c, row, (products, elements), (a, b), operation.a.shape[1])
        self._finish(c, row, operation, c.column(row, Column.ACC_BITS), Access(elements, False))

    def _convolution(self, c: Collector, row: int, operation: ir.Conv2D, times: float) -> None:
        factors = (self._operand(operation.a), self._operand(operation.b))
        length = ir.count_elements(operation.b.shape[1:4])
        elements = times * operation.out.size
        share_of_rows, share_of_columns = _inside(operation)
        inside = elements * length * share_of_rows * share_of_columns
        runs = (c.column(row, Column.HALVINGS) <= 0) & _has_runs(operation, self._storage.strides(operation.b))
        with c.only(runs):
            c.frame("Conv2D", times, elements, elements / operation.b.shape[4], operation.b.shape[4])
            c.add(elements * operation.b.shape[1] * share_of_rows, number("run", kind_position("Conv2D")))
            self._run(c, row, "Conv2D", inside, factors, length)
            c.add(inside, number("tap", kind_position("Conv2D"), 1))
        with c.only(~runs):
            kind = kind_position("GroupedConv2D")
            c.frame("GroupedConv2D", times, elements, elements * operation.b.shape[1], operation.b.shape[4])
            c.add(elements * length, number("tap", kind, 0))
            c.add(elements * length * _checks(operation), number("check"))
            for factor in factors:
                c.load(factor, Access(inside, False))
            self._sum(c, row, (inside, elements), factors, length)
        self._finish(c, row, operation, c.column(row, Column.ACC_BITS), Access(elements, False))

    def _sum(
        self, c: Collector, row: int, counts: tuple[float, float], factors: tuple[Operand, Operand], length: int
    ) -> None:
        """`counts`: products, and elements of the result."""
        products, elements = counts
        accumulator = c.column(row, Column.ACC_BITS)
        shifts = [c.column(row, column) for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)]
        for operand, shift in zip(factors, shifts[:2], strict=True):
            c.shifted(products, operand, shift, accumulator)
        scaled = np.asarray(_is_scaled(c, row), dtype=np.int64)
        c.add(products, number("mac", *c.factors(row, *factors), width_position(accumulator), scaled))
        c.down(products, accumulator, shifts[2], accumulator)
        halvings = c.column(row, Column.HALVINGS)
        width = width_position(accumulator)
        with c.only(halvings > 0):
            c.add(products, number("tree", 0, width))
            c.add(elements, number("tree", 2, width))
        for level in range((length - 1).bit_length() if elements else 0):
            with c.only(halvings > level):
                c.add(elements * (length >> (level + 1)), number("tree", 1, width))


def _access(times: float, extents: tuple[int, ...], strides: tuple[int, ...]) -> Access:
    """As `codegen.emit.walk` emits it: a pointer where elements lie beside each other, read as far outside as it can be."""
    moving = [d for d, (s, e) in enumerate(zip(strides, extents, strict=True)) if s and e != 1]
    if not moving:
        return Access(times, False)
    last = moving[-1]
    reads = times * ir.count_elements(extents[: last + 1])
    if strides[last] != 1:
        return Access(reads, False)
    start, reach = last, extents[last]
    while start > 0 and (extents[start - 1] == 1 or strides[start - 1] == reach):
        start -= 1
        reach *= extents[start]
    return Access(reads, True, times * ir.count_elements(extents[:start]))


def _executed(body: tuple[ir.Statement, ...], times: int) -> Iterator[tuple[ir.Operation, int]]:
    """Each operation with how often it runs."""
    for statement in body:
        if isinstance(statement, ir.Loop):
            yield from _executed(statement.body, times * statement.count)
        else:
            yield statement, times


def _rounds(body: tuple[ir.Statement, ...], times: int) -> Iterator[int]:
    for statement in body:
        if isinstance(statement, ir.Loop):
            yield times * statement.count
            yield from _rounds(statement.body, times * statement.count)


def _checks(operation: ir.Conv2D | ir.MaxPool) -> int:
    """Comparisons that guard one tap: those for sides on which the window leaves the image."""
    count = 0
    for axis in (0, 1):
        kernel = operation.kernel[axis] if isinstance(operation, ir.MaxPool) else operation.b.shape[1 + axis]
        dilation = 1 if isinstance(operation, ir.MaxPool) else operation.dilation[axis]
        before, stride = operation.padding[2 * axis], operation.stride[axis]
        greatest = (operation.out.shape[1 + axis] - 1) * stride + (kernel - 1) * dilation - before
        count += (before > 0) + (greatest >= operation.a.shape[1 + axis])
    return count


def _inside(operation: ir.Conv2D) -> tuple[float, float]:
    """The shares of kernel rows and of kernel columns that lie in the image."""
    shares = []
    for axis in (0, 1):
        kernel, extent = operation.b.shape[1 + axis], operation.out.shape[1 + axis]
        starts = np.arange(extent)[:, None] * operation.stride[axis] - operation.padding[2 * axis]
        places = starts + np.arange(kernel)[None, :] * operation.dilation[axis]
        shares.append(float(((places >= 0) & (places < operation.a.shape[1 + axis])).mean()))
    return shares[0], shares[1]


def _has_runs(operation: ir.Conv2D, weights: tuple[int, ...]) -> bool:
    """As `codegen.emit.dot` decides it: pixels under a row of the kernel lie beside each other, and so do its weights."""
    a, channels = operation.a, operation.a.shape[3]
    if weights[2] != channels or (channels != 1 and weights[3] != 1) or min(a.strides[1], weights[1]) < 1:
        return False
    beside = a.strides[2] == channels and (channels == 1 or a.strides[3] == 1)
    return operation.groups == 1 and operation.dilation == (1, 1) and beside


def _is_scaled(c: Collector, row: int) -> Mask:
    """Where factors or products are shifted before they are summed."""
    shifts = [c.column(row, column) for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)]
    return np.asarray((shifts[0] != 0) | (shifts[1] != 0) | (shifts[2] != 0))
