"""What emitted code does, counted: how often each kind of work is executed in one inference.

A feature is a name such as `load.flash.16.inner` or `down.toward-zero.32.15`; a cost table gives its cycles. Which
features a row of a program has depends on the candidate's widths and shifts, how often it has them on the
program alone. So a batch of candidates is one array of feature numbers beside one vector of counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.emit.parameters import stored_sparse
from kilotune.codegen.emit.storage import LABEL_BITS
from kilotune.codegen.fixed.arithmetic import FloatArray, Rounding
from kilotune.codegen.fixed.table import Column, FixedBatch

Ints = npt.NDArray[np.int64]

WIDTHS = (8, 16, 32)
_BITS = tuple(str(w) for w in WIDTHS)
_SHIFTS = tuple(str(n) for n in range(32))
_PLACES = ("flash", "ram")
_ROUNDINGS = tuple(r.value for r in Rounding)
_OPERATIONS: tuple[type[ir.Operation], ...] = (
    *(ir.Fill, ir.Copy, ir.Add, ir.Subtract, ir.Multiply, ir.MatMul, ir.Conv2D, ir.MaxPool, ir.Negate, ir.Relu),
    *(ir.Relu6, ir.Exp, ir.Sigmoid, ir.Tanh, ir.NormaliseL2, ir.Select, ir.ArgMax, ir.Sign),
)
_KINDS = (*(kind.__name__ for kind in _OPERATIONS), "SparseMatMul", "DepthwiseConv2D")
_FUNCTIONS = ("Exp", "Sigmoid", "Tanh")

AXES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "program": (),  # the call, and what surrounds all operations
        "start": (_KINDS,),  # an operation begins
        "loop": (),  # one round of a loop of the program
        "nest": (_KINDS,),  # an inner loop of an operation begins
        "element": (_KINDS,),  # one element of the result, its storing aside
        "store": (_BITS,),
        "load": (_PLACES, _BITS, ("element", "inner")),
        "apply": (_KINDS, _BITS),  # the operation itself, at the accumulator's width
        "product": (_BITS, _BITS, _BITS),  # elementwise, by the operands' and the accumulator's width
        "mac": (_BITS, _BITS, _BITS),  # the same in an inner loop, with its addition
        "tap": (_KINDS,),  # one round of an inner loop
        "check": (),  # one comparison with an end of a padded image
        "down": (_ROUNDINGS, _BITS, _SHIFTS),
        "up": (_BITS, _SHIFTS),
        "function": (_FUNCTIONS, _BITS, ("one", "two")),  # tables: one or two
        "scan": (_KINDS, _BITS),  # an element that ArgMax, MaxPool or NormaliseL2 looks at
        "tree": (("term", "halved", "root"), _BITS),  # SeeDot's TreeSum
    }
)


def _names() -> Iterator[str]:
    for family, axes in AXES.items():
        for labels in itertools.product(*axes):
            yield ".".join((family, *labels))


FEATURES: tuple[str, ...] = tuple(_names())
"""Every feature, in the order of their numbers."""

NUMBERS: Mapping[str, int] = MappingProxyType({name: number for number, name in enumerate(FEATURES)})


def _start(family: str) -> int:
    return NUMBERS[".".join((family, *(axis[0] for axis in AXES[family])))]


def _number(family: str, *labels: int | Ints) -> Ints:
    """Feature numbers from positions on the family's axes."""
    place: int | Ints = 0
    for axis, label in zip(AXES[family], labels, strict=True):
        place = place * len(axis) + label
    return np.asarray(_start(family) + place, dtype=np.int64)


def _width(bits: Ints | int) -> Ints:
    """Position of a width: 8, 16, 32 become 0, 1, 2."""
    return np.asarray(np.asarray(bits) // 16, dtype=np.int64)


@dataclass(frozen=True)
class Terms:
    """Feature `numbers` [candidates, terms], each executed `counts` [terms] times."""

    numbers: Ints
    counts: npt.NDArray[np.float64]

    def times(self, cycles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Cycles [candidates] at `cycles` [features]."""
        return np.asarray(cycles[self.numbers] @ self.counts)

    def matrix(self) -> npt.NDArray[np.float64]:
        """Counts [candidates, features]."""
        result = np.zeros((self.numbers.shape[0], len(FEATURES)))
        for row, numbers in zip(result, self.numbers, strict=True):
            np.add.at(row, numbers, self.counts)
        return result


@dataclass(frozen=True)
class _Operand:
    """`column` of the variable in a batch's bits; -1 for a literal. `place`: position on the axis of places."""

    column: int
    place: int


class CostFeatures:
    """The features of one program's candidates."""

    def __init__(self, program: ir.Program, parameters: Mapping[str, FloatArray]) -> None:
        self._program = program
        self._columns = {v.name: i for i, v in enumerate(program.variables)}
        self._labels = [self._columns[name] for name in ir.label_variables(program)]
        self._parameters = parameters
        self._sparse = stored_sparse(program)
        self._executed = tuple(_executed(program.body, 1))
        self._rounds = float(sum(_rounds(program.body, 1)))

    def terms(self, batch: FixedBatch) -> Terms:
        """All features of a batch."""
        collector = _Collector(batch, self._labels)
        collector.add(1.0, _number("program"))
        collector.add(self._rounds, _number("loop"))
        for row, (operation, times) in enumerate(self._executed):
            self._operation(collector, row, operation, float(times))
        if self._program.result_kind is ir.ResultKind.REAL:
            result = self._operand(self._program.result)
            collector.move(float(self._program.result.size), result, self._columns[self._program.result.variable])
        return collector.collected()

    def _operand(self, item: ir.Operand) -> _Operand:
        if isinstance(item, ir.Literal):
            return _Operand(-1, 0)
        role = self._program.variable(item.variable).role
        return _Operand(self._columns[item.variable], 0 if role is ir.Role.PARAMETER else 1)

    def _operation(self, c: _Collector, row: int, operation: ir.Operation, times: float) -> None:
        kind = type(operation).__name__
        operands = [self._operand(item) for item in operation.operands]
        out = self._columns[operation.out.variable]
        elements = times * operation.out.size
        match operation:
            case ir.MatMul():
                self._dot(c, row, operation, times, *operands)
                return
            case ir.Conv2D():
                self._convolution(c, row, operation, times, *operands)
                return
            case ir.ArgMax():
                c.add(times, _number("start", _kind(kind)))
                c.scan(times * operation.a.size, kind, operands[0])
                return
            case ir.MaxPool():
                taps = elements * operation.kernel[0] * operation.kernel[1]
                c.scan(taps, kind, operands[0])
                c.add(taps * _checks(operation), _number("check"))
            case ir.NormaliseL2():
                c.scan(2.0 * times * operation.a.size, kind, operands[0])
                last = operation.a.shape[-1] if operation.a.shape else 1
                c.add(elements / last, _number("nest", _kind(kind)))
            case _:
                self._elementwise(c, row, operation, elements, operands)
        c.frame(kind, times, elements, _inner_loops(operation))
        c.store(elements, out)
        if isinstance(operation, ir.Fill):
            return
        accumulates = isinstance(operation, ir.Add | ir.Subtract | ir.Multiply | ir.Negate)
        width = c.column(row, Column.ACC_BITS) if accumulates else c.bits(operands[0], row)
        if isinstance(operation, ir.Exp | ir.Sigmoid | ir.Tanh):
            width = c.function_bits(row)
        c.down(elements, width, c.column(row, Column.SHIFT_OUT))

    def _elementwise(
        self, c: _Collector, row: int, operation: ir.Operation, elements: float, operands: list[_Operand]
    ) -> None:
        kind = type(operation).__name__
        accumulator = c.column(row, Column.ACC_BITS)
        for operand in operands:
            c.load(elements, operand, 0)
        if isinstance(operation, ir.Exp | ir.Sigmoid | ir.Tanh):
            c.shifted(elements, operands[0], c.column(row, Column.SHIFT_A), np.maximum(c.bits(operands[0], row), 16))
            c.function(elements, row, kind)
            return
        if isinstance(operation, ir.Add | ir.Subtract | ir.Multiply | ir.Select):
            pair = operands[1:] if isinstance(operation, ir.Select) else operands
            width = c.column(row, Column.BITS) if isinstance(operation, ir.Select) else accumulator
            for operand, shift in zip(pair, (Column.SHIFT_A, Column.SHIFT_B), strict=True):
                if operand.column >= 0:
                    c.shifted(elements, operand, c.column(row, shift), width)
        if isinstance(operation, ir.Multiply):
            a, b = (_width(c.bits(operand, row)) for operand in operands)
            c.add(elements, _number("product", np.maximum(a, b), np.minimum(a, b), _width(accumulator)))
            return
        width = accumulator if isinstance(operation, ir.Add | ir.Subtract | ir.Negate) else c.column(row, Column.BITS)
        c.add(elements, _number("apply", _kind(kind), _width(width)))

    def _dot(self, c: _Collector, row: int, operation: ir.MatMul, times: float, a: _Operand, b: _Operand) -> None:
        length = operation.a.shape[1]
        elements = times * operation.out.size
        sparse = operation.a.variable in self._sparse
        kind, taps = "MatMul", elements * length
        if sparse:
            nonzero = float(np.count_nonzero(self._parameters[operation.a.variable]))
            kind, taps = "SparseMatMul", times * nonzero * operation.b.shape[1]
        c.frame(kind, times, elements, 0.0 if length == 1 and not sparse else elements)
        self._sum(c, row, kind, operation.out, (taps, taps, elements), a, b, length)

    def _convolution(
        self, c: _Collector, row: int, operation: ir.Conv2D, times: float, a: _Operand, b: _Operand
    ) -> None:
        length = ir.count_elements(operation.b.shape[1:4])
        elements = times * operation.out.size
        taps = elements * length
        c.add(taps * _checks(operation), _number("check"))
        inner = operation.b.shape[3]
        kind = "Conv2D" if inner > 1 else "DepthwiseConv2D"
        c.frame(kind, times, elements, taps / inner)
        inside = taps * _inside(operation)
        self._sum(c, row, kind, operation.out, (taps, inside, elements), a, b, length)

    def _sum(
        self,
        c: _Collector,
        row: int,
        kind: str,
        out: ir.View,
        counts: tuple[float, float, float],
        a: _Operand,
        b: _Operand,
        length: int,
    ) -> None:
        """`counts`: rounds of the inner loop, products in it, elements of the result."""
        taps, products, elements = counts
        accumulator = c.column(row, Column.ACC_BITS)
        c.add(taps, _number("tap", _kind(kind)))
        for operand, shift in ((a, Column.SHIFT_A), (b, Column.SHIFT_B)):
            c.load(products, operand, 1)
            c.shifted(products, operand, c.column(row, shift), accumulator)
        widths = [_width(c.bits(operand, row)) for operand in (a, b)]
        c.add(products, _number("mac", np.maximum(*widths), np.minimum(*widths), _width(accumulator)))
        c.down(products, accumulator, c.column(row, Column.SHIFT_TERM))
        halvings = c.column(row, Column.HALVINGS)
        tree = halvings >= 0
        width = _width(accumulator)
        c.add_some(products, tree, _number("tree", 0, width))
        c.add_some(elements, tree, _number("tree", 2, width))
        for level in range((length - 1).bit_length()):
            pairs = elements * (length >> (level + 1))
            c.add_some(pairs, halvings > level, _number("tree", 1, width))
        c.down(elements, accumulator, c.column(row, Column.SHIFT_OUT))
        c.store(elements, self._columns[out.variable])


class _Collector:
    """Terms while they are counted."""

    def __init__(self, batch: FixedBatch, labels: list[int]) -> None:
        self._batch = batch
        self._rows = batch.rows
        self._bits = batch.bits.astype(np.int64)
        self._bits[:, labels] = LABEL_BITS
        self._rounding = _ROUNDINGS.index(batch.rounding.value)
        functions = batch.functions
        self._function_bits = np.array([f.bits for f in functions] or [16], dtype=np.int64)
        self._function_tables = np.array([1 if f.fine else 0 for f in functions] or [0], dtype=np.int64)
        self._numbers: list[Ints] = []
        self._counts: list[float] = []

    def collected(self) -> Terms:
        """Everything so far."""
        count = len(self._batch)
        columns = [np.broadcast_to(numbers, (count,)) for numbers in self._numbers]
        return Terms(np.stack(columns, axis=1), np.array(self._counts))

    def add(self, count: float, numbers: Ints) -> None:
        if count:
            self._numbers.append(numbers)
            self._counts.append(count)

    def add_some(self, count: float, which: npt.NDArray[np.bool_], numbers: Ints) -> None:
        """Only candidates where `which` holds: the others get the feature that costs nothing."""
        if which.any():
            self.add(count, np.where(which, numbers, _FREE))

    def column(self, row: int, column: Column) -> Ints:
        return np.asarray(self._rows[:, row, column], dtype=np.int64)

    def bits(self, operand: _Operand, row: int) -> Ints:
        """Width of an operand; a literal has that of the accumulator."""
        if operand.column < 0:
            return np.maximum(self.column(row, Column.ACC_BITS) // 2, 8)
        return self._bits[:, operand.column]

    def function_bits(self, row: int) -> Ints:
        return np.maximum(self._function_bits[self.column(row, Column.FUNCTION)], 16)

    def load(self, count: float, operand: _Operand, where: int) -> None:
        if operand.column >= 0:
            self.add(count, _number("load", operand.place, _width(self._bits[:, operand.column]), where))

    def store(self, count: float, variable: int) -> None:
        self.add(count, _number("store", _width(self._bits[:, variable])))

    def move(self, count: float, operand: _Operand, variable: int) -> None:
        self.add(count, _number("element", _kind("Copy")))
        self.load(count, operand, 0)
        self.store(count, variable)

    def down(self, count: float, width: Ints, shift: Ints) -> None:
        """A division by 2**shift of numbers of that width; shifts below 0 multiply."""
        amount = np.minimum(np.abs(shift), 31)
        divides = _number("down", self._rounding, _width(width), amount)
        multiplies = _number("up", _width(width), amount)
        numbers = np.where(shift > 0, divides, np.where(shift < 0, multiplies, _FREE))
        if (shift != 0).any():
            self.add(count, numbers)

    def shifted(self, count: float, operand: _Operand, shift: Ints, wide: Ints) -> None:
        """An operand scaled down at its own width, or up at the width `wide`."""
        width = self._bits[:, operand.column] if operand.column >= 0 else wide
        self.down(count, np.where(shift < 0, wide, width), shift)

    def function(self, count: float, row: int, kind: str) -> None:
        number = self.column(row, Column.FUNCTION)
        width, tables = _width(self._function_bits[number]), self._function_tables[number]
        self.add(count, _number("function", _FUNCTIONS.index(kind), width, tables))

    def scan(self, count: float, kind: str, operand: _Operand) -> None:
        self.add(count, _number("scan", _kind(kind), _width(self._bits[:, operand.column])))
        self.load(count, operand, 1)

    def frame(self, kind: str, times: float, elements: float, inner_loops: float) -> None:
        """The loops around an operation."""
        self.add(times, _number("start", _kind(kind)))
        self.add(elements, _number("element", _kind(kind)))
        self.add(inner_loops, _number("nest", _kind(kind)))


_FREE = NUMBERS["down.floor.8.0"]
"""A shift by nothing: what a candidate that lacks a term has in its place."""


def _kind(name: str) -> int:
    return _KINDS.index(name)


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


def _inner_loops(operation: ir.Operation) -> float:
    """How often the innermost loop of an elementwise operation begins, beyond the first time."""
    if isinstance(operation, ir.MaxPool):
        return float(operation.out.size * operation.kernel[0])
    if isinstance(operation, ir.NormaliseL2):
        return 0.0
    views = [operation.out, *(o for o in operation.operands if isinstance(o, ir.View))]
    extents = iterate([v for v in views if v.size == operation.out.size or v.size == 1]).extents
    return float(ir.count_elements(extents[:-1])) if len(extents) > 1 else 0.0


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


def _inside(operation: ir.Conv2D) -> float:
    """The share of taps that lie in the image."""
    shares = 1.0
    for axis in (0, 1):
        kernel, extent = operation.b.shape[1 + axis], operation.out.shape[1 + axis]
        starts = np.arange(extent)[:, None] * operation.stride[axis] - operation.padding[2 * axis]
        places = starts + np.arange(kernel)[None, :] * operation.dilation[axis]
        shares *= float(((places >= 0) & (places < operation.a.shape[1 + axis])).mean())
    return shares
