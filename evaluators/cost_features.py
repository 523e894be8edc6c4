"""What emitted code does, counted: how often each kind of work is executed in one inference.

A feature is a name such as `load.flash.16.pointer` or `down.toward-zero.32.15.16`; a cost table gives its cycles. Which
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
from kilotune.codegen.emit.storage import LABEL_BITS, make_storage
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
_KINDS = (*(kind.__name__ for kind in _OPERATIONS), "SparseMatMul", "GroupedConv2D", "StridedConv2D")
_FUNCTIONS = ("Exp", "Sigmoid", "Tanh")
_REACHED = ("pointer", "number")
_LENGTHS = ("short", "long")

AXES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "program": (),  # the call, and what surrounds all operations
        "start": (_KINDS,),  # an operation begins
        "loop": (),  # one round of a loop of the program
        "nest": (_KINDS,),  # an inner loop of an operation begins
        "pointer": (_PLACES,),  # a pointer is set where a loop begins
        "element": (_KINDS, _LENGTHS),  # one element of the result; long: counters of 16 bits
        "tap": (_KINDS, _LENGTHS),  # one round of an inner loop
        "store": (_BITS, _REACHED),
        "load": (_PLACES, _BITS, _REACHED),
        "apply": (_KINDS, _BITS),  # the operation itself, at the accumulator's width
        "product": (_BITS, _BITS, _BITS),  # elementwise, by the operands' and the accumulator's width
        "mac": (_BITS, _BITS, _BITS, ("plain", "scaled")),  # a product of a sum, with its addition
        "check": (),  # one comparison with an end of a padded image
        "down": (_ROUNDINGS, _BITS, _SHIFTS, _BITS),  # a division by 2**n: of what width, to what width
        "up": (_BITS, _SHIFTS),
        "function": (_FUNCTIONS, ("8", "16", "32", "64"), ("one", "two")),  # its division's width; tables: one or two
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


@dataclass(frozen=True)
class _Access:
    """How often an element is read or written, and whether by a walking pointer, which is set `pointers` times."""

    times: float
    walks: bool
    pointers: float = 0.0

    @property
    def reached(self) -> int:
        """Position on its axis."""
        return 0 if self.walks else 1


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
        collector = _Collector(batch, self._labels)
        collector.add(1.0, _number("program"))
        collector.add(self._rounds, _number("loop"))
        for row, (operation, times) in enumerate(self._executed):
            self._operation(collector, row, operation, float(times))
        if self._program.result_kind is ir.ResultKind.REAL:
            self._copy_result(collector)
        return collector.collected()

    def _copy_result(self, c: _Collector) -> None:
        result, size = self._program.result, float(self._program.result.size)
        c.add(size, _number("element", _kind("Copy"), 0))
        c.load(self._operand(result), _Access(size, False))
        c.store(self._columns[result.variable], _Access(size, False))

    def _operand(self, item: ir.Operand) -> _Operand:
        if isinstance(item, ir.Literal):
            return _Operand(-1, 0)
        role = self._program.variable(item.variable).role
        return _Operand(self._columns[item.variable], 0 if role is ir.Role.PARAMETER else 1)

    def _operation(self, c: _Collector, row: int, operation: ir.Operation, times: float) -> None:
        kind = type(operation).__name__
        match operation:
            case ir.MatMul() if operation.a.variable in self._storage.sparse:
                self._sparse(c, row, operation, times)
            case ir.MatMul():
                self._dense(c, row, operation, times)
            case ir.Conv2D():
                self._convolution(c, row, operation, times)
            case ir.ArgMax(a=a):
                c.add(times, _number("start", _kind(kind)))
                c.scan(times * a.size, kind, self._operand(a))
            case ir.MaxPool(a=a, kernel=kernel):
                elements = times * operation.out.size
                taps = elements * kernel[0] * kernel[1]
                c.frame(kind, times, elements, elements * kernel[0], operation.out.shape[-1])
                c.scan(taps, kind, self._operand(a))
                c.add(taps * _checks(operation), _number("check"))
                self._finish(c, row, operation, c.bits(self._operand(a), row, 0), _Access(elements, False))
            case ir.NormaliseL2(a=a):
                elements = times * operation.out.size
                last = a.shape[-1] if a.shape else 1
                c.frame(kind, times, elements, 2.0 * elements / last, last)
                c.scan(2.0 * elements, kind, self._operand(a))
                wide = np.full(len(c), 32, dtype=np.int64)
                self._finish(c, row, operation, wide, _Access(elements, False))
            case _:
                self._elementwise(c, row, operation, times)

    def _finish(self, c: _Collector, row: int, operation: ir.Operation, width: Ints, access: _Access) -> None:
        """The last division of an element, to the width of the result, and its storing."""
        c.down(access.times, width, c.column(row, Column.SHIFT_OUT), c.column(row, Column.BITS))
        c.store(self._columns[operation.out.variable], access)

    def _elementwise(self, c: _Collector, row: int, operation: ir.Operation, times: float) -> None:
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
            write = _Access(elements, False)
        accumulator, width = c.column(row, Column.ACC_BITS), c.column(row, Column.BITS)
        if isinstance(operation, ir.Exp | ir.Sigmoid | ir.Tanh):
            wide = np.maximum(c.bits(operands[0], row, 0), 16)
            c.shifted(elements, operands[0], c.column(row, Column.SHIFT_A), wide)
            c.function(elements, row, kind)
            self._finish(c, row, operation, c.function_bits(row), write)
            return
        if isinstance(operation, ir.Fill | ir.Sign):
            c.add(elements, _number("apply", _kind(kind), _width(width)))
            c.store(self._columns[operation.out.variable], write)
            return
        if isinstance(operation, ir.Add | ir.Subtract | ir.Multiply | ir.Select):
            pair = operands[1:] if isinstance(operation, ir.Select) else operands
            wide = width if isinstance(operation, ir.Select) else accumulator
            for operand, shift in zip(pair, (Column.SHIFT_A, Column.SHIFT_B), strict=True):
                if operand.column >= 0:
                    c.shifted(elements, operand, c.column(row, shift), wide)
            if isinstance(operation, ir.Multiply):
                c.add(elements, _number("product", *c.factors(row, operands[0], operands[1]), _width(accumulator)))
            else:
                c.add(elements, _number("apply", _kind(kind), _width(wide)))
            self._finish(c, row, operation, wide, write)
            return
        wide = accumulator if isinstance(operation, ir.Negate) else c.bits(operands[0], row, 0)
        c.add(elements, _number("apply", _kind(kind), _width(wide)))
        self._finish(c, row, operation, wide, write)

    def _dense(self, c: _Collector, row: int, operation: ir.MatMul, times: float) -> None:
        a, b, out = operation.a, operation.b, operation.out
        (height, length), width = a.shape, b.shape[1]
        elements = times * out.size
        (a0, a1), (b0, b1) = self._storage.strides(a), self._storage.strides(b)
        extents = (height, width, length)
        loads = [_access(times, extents, (a0, 0, a1)), _access(times, extents, (0, b1, b0))]
        c.frame("MatMul", times, elements, elements if length > 1 else 0.0, max(height, width))
        c.add(elements * length, _number("tap", _kind("MatMul"), _length(length)))
        for item, access in zip((a, b), loads, strict=True):
            c.load(self._operand(item), access)
        self._sum(c, row, (elements * length, elements), (self._operand(a), self._operand(b)), length)
        self._finish(c, row, operation, c.column(row, Column.ACC_BITS), _access(times, (height, width), out.strides))

    def _sparse(self, c: _Collector, row: int, operation: ir.MatMul, times: float) -> None:
        a, b = self._operand(operation.a), self._operand(operation.b)
        products = times * float(np.count_nonzero(self._parameters[operation.a.variable])) * operation.b.shape[1]
        elements = times * operation.out.size
        c.frame("SparseMatMul", times, elements, elements, operation.a.shape[0])
        c.add(products, _number("tap", _kind("SparseMatMul"), _length(operation.a.shape[1])))
        c.load(a, _Access(products, True))
        c.load(b, _Access(products, False))
        self._sum(c, row, (products, elements), (a, b), operation.a.shape[1])
        self._finish(c, row, operation, c.column(row, Column.ACC_BITS), _Access(elements, False))

    def _convolution(self, c: _Collector, row: int, operation: ir.Conv2D, times: float) -> None:
        a, b = self._operand(operation.a), self._operand(operation.b)
        length = ir.count_elements(operation.b.shape[1:4])
        elements = times * operation.out.size
        inside = elements * length * _inside(operation)
        runs = operation.groups == 1 and operation.dilation == (1, 1)
        runs = runs and operation.a.strides[2:] == (operation.a.shape[3], 1)
        weights = self._storage.strides(operation.b)
        straight = weights[3] == 1 and weights[2] == operation.b.shape[3]
        kind = "GroupedConv2D" if not runs else "Conv2D" if straight else "StridedConv2D"
        taps = inside if runs else elements * length
        c.frame(kind, times, elements, elements * operation.b.shape[1], operation.b.shape[4])
        c.add(taps, _number("tap", _kind(kind), 0))
        if not runs:
            c.add(taps * _checks(operation), _number("check"))
        c.load(a, _Access(inside, runs))
        c.load(b, _Access(inside, runs and straight))
        self._sum(c, row, (inside, elements), (a, b), length)
        self._finish(c, row, operation, c.column(row, Column.ACC_BITS), _Access(elements, False))

    def _sum(
        self, c: _Collector, row: int, counts: tuple[float, float], factors: tuple[_Operand, _Operand], length: int
    ) -> None:
        """`counts`: products, and elements of the result."""
        products, elements = counts
        accumulator = c.column(row, Column.ACC_BITS)
        shifts = [c.column(row, column) for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)]
        for operand, shift in zip(factors, shifts[:2], strict=True):
            c.shifted(products, operand, shift, accumulator)
        scaled = np.asarray((shifts[0] != 0) | (shifts[1] != 0) | (shifts[2] != 0), dtype=np.int64)
        c.add(products, _number("mac", *c.factors(row, *factors), _width(accumulator), scaled))
        c.down(products, accumulator, shifts[2], accumulator)
        halvings = c.column(row, Column.HALVINGS)
        tree, width = halvings > 0, _width(accumulator)
        c.add_some(products, tree, _number("tree", 0, width))
        c.add_some(elements, tree, _number("tree", 2, width))
        for level in range((length - 1).bit_length()):
            pairs = elements * (length >> (level + 1))
            c.add_some(pairs, halvings > level, _number("tree", 1, width))


class _Collector:
    """Terms while they are counted."""

    def __init__(self, batch: FixedBatch, labels: list[int]) -> None:
        self._count = len(batch)
        self._rows = batch.rows
        self._bits = batch.bits.astype(np.int64)
        self._bits[:, labels] = LABEL_BITS
        self._rounding = _ROUNDINGS.index(batch.rounding.value)
        functions = batch.functions
        self._function_bits = np.array([f.bits for f in functions] or [16], dtype=np.int64)
        self._function_scales = np.array([f.scale for f in functions] or [14], dtype=np.int64)
        self._function_tables = np.array([1 if f.fine else 0 for f in functions] or [0], dtype=np.int64)
        self._numbers: list[Ints] = []
        self._counts: list[float] = []

    def __len__(self) -> int:
        return self._count

    def collected(self) -> Terms:
        """Everything so far."""
        columns = [np.broadcast_to(numbers, (self._count,)) for numbers in self._numbers]
        return Terms(np.stack(columns, axis=1), np.array(self._counts))

    def add(self, count: float, numbers: Ints) -> None:
        if count:
            self._numbers.append(numbers)
            self._counts.append(count)

    def add_some(self, count: float, which: npt.NDArray[np.bool_], numbers: Ints) -> None:
        """Only candidates where `which` holds: the others get the feature that costs nothing."""
        if which.any():
            self.add(count, np.where(which, numbers, FREE))

    def column(self, row: int, column: Column) -> Ints:
        return np.asarray(self._rows[:, row, column], dtype=np.int64)

    def bits(self, operand: _Operand, row: int, place: int) -> Ints:
        """Width of an operand; a literal has the least that holds it."""
        if operand.column >= 0:
            return self._bits[:, operand.column]
        value = self.column(row, Column.CONSTANT_A if place == 0 else Column.CONSTANT_B)
        magnitude = np.where(value < 0, -value - 1, value)
        return np.where(magnitude < 1 << 7, 8, np.where(magnitude < 1 << 15, 16, 32))

    def factors(self, row: int, a: _Operand, b: _Operand) -> tuple[Ints, Ints]:
        """Positions of both factors' widths, the wider first; what is multiplied up has the accumulator's."""
        accumulator = self.column(row, Column.ACC_BITS)
        widths = []
        for place, (operand, shift) in enumerate(((a, Column.SHIFT_A), (b, Column.SHIFT_B))):
            own = self.bits(operand, row, place)
            up = (self.column(row, shift) < 0) & (operand.column >= 0)
            widths.append(_width(np.where(up, accumulator, np.minimum(own, accumulator))))
        return np.maximum(*widths), np.minimum(*widths)

    def function_bits(self, row: int) -> Ints:
        return np.maximum(self._function_bits[self.column(row, Column.FUNCTION)], 16)

    def load(self, operand: _Operand, access: _Access) -> None:
        self.add(access.pointers, _number("pointer", operand.place))
        self.add(access.times, _number("load", operand.place, _width(self._bits[:, operand.column]), access.reached))

    def store(self, variable: int, access: _Access) -> None:
        self.add(access.pointers, _number("pointer", 1))
        self.add(access.times, _number("store", _width(self._bits[:, variable]), access.reached))

    def down(self, count: float, width: Ints, shift: Ints, result: Ints) -> None:
        """A division by 2**shift of numbers of that width; shifts below 0 multiply at the width of the result."""
        if not shift.any():
            return
        amount = np.minimum(np.abs(shift), 31)
        wide = np.where(amount >= width, 32, width)
        divides = _number("down", self._rounding, _width(wide), amount, _width(np.minimum(wide, result)))
        multiplies = _number("up", _width(result), amount)
        self.add(count, np.where(shift > 0, divides, np.where(shift < 0, multiplies, FREE)))

    def shifted(self, count: float, operand: _Operand, shift: Ints, wide: Ints) -> None:
        """An operand scaled down at its own width, or up at the width `wide`."""
        width = self._bits[:, operand.column]
        self.down(count, width, shift, np.where(shift < 0, wide, width))

    def function(self, count: float, row: int, kind: str) -> None:
        number = self.column(row, Column.FUNCTION)
        tables = self._function_tables[number]
        width = np.asarray(self._function_bits[number] // 16)
        if kind != "Exp":  # the quotient's dividend has twice the scale
            needed = 2 * self._function_scales[number] + 3
            width = np.where(needed <= 16, 1, np.where(needed <= 32, 2, 3))
        self.add(count, _number("function", _FUNCTIONS.index(kind), width, tables))

    def scan(self, count: float, kind: str, operand: _Operand) -> None:
        self.add(count, _number("scan", _kind(kind), _width(self._bits[:, operand.column])))
        self.load(operand, _Access(count, False))

    def frame(self, kind: str, times: float, elements: float, inner_loops: float, longest: int) -> None:
        """The loops around an operation."""
        self.add(times, _number("start", _kind(kind)))
        self.add(elements, _number("element", _kind(kind), _length(longest)))
        self.add(inner_loops, _number("nest", _kind(kind)))


FREE = NUMBERS["down.floor.8.0.8"]
"""A shift by nothing: what a candidate that lacks a term has in its place."""


def _access(times: float, extents: tuple[int, ...], strides: tuple[int, ...]) -> _Access:
    """As `codegen.emit.walk` emits it: a pointer where elements lie beside each other, read as far outside as it can be."""
    moving = [d for d, (s, e) in enumerate(zip(strides, extents, strict=True)) if s and e != 1]
    if not moving:
        return _Access(times, False)
    last = moving[-1]
    reads = times * ir.count_elements(extents[: last + 1])
    if strides[last] != 1:
        return _Access(reads, False)
    start, reach = last, extents[last]
    while start > 0 and (extents[start - 1] == 1 or strides[start - 1] == reach):
        start -= 1
        reach *= extents[start]
    return _Access(reads, True, times * ir.count_elements(extents[:start]))


def _length(count: int) -> int:
    """Position of a trip count: below 256 an 8-bit counter does."""
    return 0 if count < 256 else 1


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
