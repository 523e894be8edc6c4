"""Hypothesis strategies for whole IR programs, and for fixed-point candidates of them whose values overflow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, Int32Array, IntArray
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.encoding import ParameterEncoding, RowShifts
from kilotune.codegen.fixed.parameter_rows import parameter_rows
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch, unencoded

Shape = tuple[int, ...]


@dataclass(frozen=True)
class RandomModel:
    """A program with parameters and samples [samples, features]."""

    program: ir.Program
    parameters: dict[str, FloatArray]
    features: FloatArray


@dataclass
class _Builder:
    """A program while it grows. Temporaries are readable once they are written; `loops` are (index, start, count)."""

    draw: st.DrawFn
    random: np.random.Generator
    variables: dict[str, ir.Variable] = field(default_factory=dict)
    parameters: dict[str, FloatArray] = field(default_factory=dict)
    readable: list[str] = field(default_factory=list)
    loops: list[tuple[str, int, int]] = field(default_factory=list)
    line: int = 0

    def pick(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def choose(self, options: list[str]) -> str:
        return self.draw(st.sampled_from(options))

    def location(self) -> ir.Location:
        self.line += 1
        return ir.Location("random.sd", self.line, 1)

    def variable(self, stem: str, shape: Shape, role: ir.Role, sparse: bool = False) -> ir.Variable:
        made = ir.Variable(f"{stem}{len(self.variables)}", shape, role, ir.Location("random.sd", 1, 1), sparse=sparse)
        self.variables[made.name] = made
        return made

    def parameter(self, shape: Shape, sparse: bool = False) -> ir.Variable:
        made = self.variable("W", shape, ir.Role.PARAMETER, sparse)
        values = self.random.normal(0, 2.0, shape)
        if sparse:
            values = np.where(self.random.random(shape) < 0.5, values, 0.0)
        self.parameters[made.name] = values
        return made

    def temporary(self, shape: Shape) -> ir.View:
        return ir.whole(self.variable("t", shape, ir.Role.TEMPORARY))

    def shape(self, rank: int) -> Shape:
        return tuple(self.pick(1, 4) for _ in range(rank))

    def read(self, shape: Shape) -> ir.View:
        """Some elements of that shape: of an existing variable where one fits, in one of several ways."""
        ways: list[tuple[str, str]] = []
        size = ir.count_elements(shape)
        for name in self.readable[-6:]:
            held = self.variables[name].shape
            if ir.count_elements(held) == size:
                ways += [(name, "reshape")] * 3
                if held == shape[::-1]:
                    ways.append((name, "transpose"))
            elif len(held) == len(shape) and all(h >= s for h, s in zip(held, shape, strict=True)):
                ways.append((name, "slice"))
        ways.append(("", "parameter"))
        name, way = self.draw(st.sampled_from(ways))
        if way == "parameter":
            room = tuple(extent + self.pick(0, 2) for extent in shape)
            name = self.parameter(room).name
        held = self.variables[name].shape
        if way == "reshape":
            return self.reversed(ir.View(name, shape, ir.row_major_strides(shape)))
        if way == "transpose":
            return ir.View(name, shape, ir.row_major_strides(held)[::-1])
        return self.slice(self.variables[name], shape)

    def reversed(self, view: ir.View) -> ir.View:
        if not view.shape or self.pick(0, 4):
            return view
        axis = self.pick(0, len(view.shape) - 1)
        last = (view.shape[axis] - 1) * view.strides[axis]
        strides = tuple(-s if a == axis else s for a, s in enumerate(view.strides))
        return ir.View(view.variable, view.shape, strides, view.offset + ir.Affine(last))

    def slice(self, variable: ir.Variable, shape: Shape) -> ir.View:
        """A part of a variable, which moves with a loop where there is room."""
        offset = ir.Affine()
        strides = ir.row_major_strides(variable.shape)
        for room, extent, stride in zip(variable.shape, shape, strides, strict=True):
            free = room - extent
            fitting = [loop for loop in self.loops if loop[1] + loop[2] - 1 <= free]
            if fitting and self.pick(0, 2):
                index, start, count = fitting[-1]
                offset += ir.Affine(stride * self.pick(0, free - start - count + 1), ((index, stride),))
            else:
                offset += ir.Affine(stride * self.pick(0, free))
        return self.reversed(ir.View(variable.name, shape, strides, offset))

    def wrote(self, out: ir.View) -> None:
        self.readable.append(out.variable)


def _unary(kind: type[ir.Operation]) -> Callable[[_Builder], list[ir.Statement]]:
    def build(b: _Builder) -> list[ir.Statement]:
        shape = b.shape(b.pick(0, 2))
        return [kind(out=b.temporary(shape), location=b.location(), a=b.read(shape))]  # type: ignore[call-arg]

    return build


def _binary(kind: type[ir.Operation]) -> Callable[[_Builder], list[ir.Statement]]:
    def build(b: _Builder) -> list[ir.Statement]:
        shape = b.shape(b.pick(0, 3))
        items: list[ir.Operand] = [b.read(shape)]
        how = b.choose(["equal", "scalar", "literal"])
        if how == "literal":
            items.append(ir.Literal(b.draw(st.sampled_from([0.0, 1.0, -0.5, 3.75, -100.0, 1e-4]))))
        else:
            items.append(b.read(shape if how == "equal" else b.draw(st.sampled_from([(), (1,), (1, 1)]))))
        if b.pick(0, 1):
            items.reverse()
        return [kind(out=b.temporary(shape), location=b.location(), a=items[0], b=items[1])]  # type: ignore[call-arg]

    return build


def _matmul(b: _Builder) -> list[ir.Statement]:
    p, q, r = b.pick(1, 4), b.pick(1, 9), b.pick(1, 3)
    sparse = b.pick(0, 1) == 1
    a = ir.whole(b.parameter((p, q), sparse=True)) if sparse else b.read((p, q))
    return [ir.MatMul(b.temporary((p, r)), b.location(), a, b.read((q, r)), sparse)]


def _conv2d(b: _Builder) -> list[ir.Statement]:
    n, h, w, groups, cin, cout = (b.pick(1, 2), b.pick(2, 5), b.pick(2, 5), b.pick(1, 2), b.pick(1, 2), b.pick(1, 2))
    kernel, dilation, stride, padding = _window(b, h, w, wider=1)
    heights = [
        (extent + sum(pads) - (k - 1) * d - 1) // s + 1
        for extent, pads, k, d, s in zip((h, w), (padding[:2], padding[2:]), kernel, dilation, stride, strict=True)
    ]
    image = b.read((n, h, w, groups * cin))
    weights = b.read((groups, *kernel, cin, cout))
    out = b.temporary((n, *heights, groups * cout))
    return [ir.Conv2D(out, b.location(), image, weights, stride, padding, dilation, groups)]


def _window(
    b: _Builder, height: int, width: int, wider: int = 0
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int, int, int]]:
    """Kernel, dilation, stride and padding that fit an image; padding is smaller than the kernel, and so much `wider`."""
    kernel = (b.pick(1, min(3, height)), b.pick(1, min(3, width)))
    dilation = tuple(b.pick(1, 2) if (k - 1) * 2 + 1 <= e else 1 for k, e in zip(kernel, (height, width), strict=True))
    padding = tuple(b.pick(0, k - 1 + wider) for k in (kernel[0], kernel[0], kernel[1], kernel[1]))
    return (
        kernel,
        (dilation[0], dilation[1]),
        (b.pick(1, 2), b.pick(1, 2)),
        (padding[0], padding[1], padding[2], padding[3]),
    )


def _maxpool(b: _Builder) -> list[ir.Statement]:
    n, h, w, c = b.pick(1, 2), b.pick(2, 5), b.pick(2, 5), b.pick(1, 3)
    kernel, _, stride, padding = _window(b, h, w)
    extents = [
        (extent + sum(pads) - k) // s + 1
        for extent, pads, k, s in zip((h, w), (padding[:2], padding[2:]), kernel, stride, strict=True)
    ]
    out = b.temporary((n, *extents, c))
    return [ir.MaxPool(out, b.location(), b.read((n, h, w, c)), kernel, stride, padding)]


def _normalise(b: _Builder) -> list[ir.Statement]:
    shape = b.shape(b.pick(0, 3))
    return [ir.NormaliseL2(b.temporary(shape), b.location(), b.read(shape))]


def _select(b: _Builder) -> list[ir.Statement]:
    shape = b.shape(b.pick(0, 2))
    items: list[ir.Operand] = [b.read(shape), b.read(shape)]
    if b.pick(0, 2) == 0:
        items[b.pick(0, 1)] = ir.Literal(1.5)
    return [ir.Select(b.temporary(shape), b.location(), b.read(()), items[0], items[1], b.pick(0, 1) == 1)]


def _fill_and_write(b: _Builder) -> list[ir.Statement]:
    """A tensor of constants in which a slice is then overwritten."""
    shape = b.shape(b.pick(1, 3))
    out = b.temporary(shape)
    statements: list[ir.Statement] = [ir.Fill(out, b.location(), float(b.pick(-2, 2)))]
    part = tuple(b.pick(1, extent) for extent in shape)
    value = b.read(part)
    statements.append(ir.Copy(b.slice(b.variables[out.variable], part), b.location(), value))
    b.wrote(out)
    return statements


def _sum_loop(b: _Builder) -> list[ir.Statement]:
    """`$(i = [s:n]) (e)`."""
    shape = b.shape(b.pick(0, 2))
    out = b.temporary(shape)
    fill = ir.Fill(out, b.location(), 0.0)
    # the sum is not readable inside its own loop
    body = _loop_body(b, lambda: [ir.Add(out, b.location(), out, b.read(shape))])
    b.wrote(out)
    return [fill, body]


def _carry_loop(b: _Builder) -> list[ir.Statement]:
    """`loop(i = [s:n], H) (e)`: H enters from outside and is rewritten at the end of the body."""
    shape = b.shape(b.pick(1, 2))
    out = b.temporary(shape)
    start: ir.Statement = ir.Copy(out, b.location(), b.read(shape))
    b.wrote(out)
    kind = b.choose(["copy", "multiply", "slice"])

    def finish() -> list[ir.Statement]:
        value = b.read(shape)
        if value.variable == out.variable:
            value = ir.whole(b.parameter(shape))  # no operation writes what it reads at another place
        if kind == "multiply":
            return [ir.Multiply(out, b.location(), out, value)]
        if kind == "slice":
            part = (1, *shape[1:])
            first = ir.View(value.variable, part, value.strides, value.offset)
            return [ir.Copy(b.slice(b.variables[out.variable], part), b.location(), first)]
        return [ir.Copy(out, b.location(), value)]

    return [start, _loop_body(b, finish)]


def _loop_body(b: _Builder, finish: Callable[[], list[ir.Statement]]) -> ir.Loop:
    index, start, count = f"i{b.line}", b.pick(0, 1), b.pick(1, 3)
    b.loops.append((index, start, count))
    body: list[ir.Statement] = []
    for _ in range(b.pick(0, 2)):
        body += _statement(b, nested=len(b.loops) < 2)
    body += finish()
    b.loops.pop()
    return ir.Loop(index, start, count, tuple(body), b.location())


_SIMPLE: dict[str, Callable[[_Builder], list[ir.Statement]]] = {
    **{k.__name__: _unary(k) for k in (*ir.POINTWISE, ir.Exp, ir.Sigmoid, ir.Tanh)},
    **{k.__name__: _binary(k) for k in (ir.Add, ir.Subtract, ir.Multiply)},
    "MatMul": _matmul,
    "Conv2D": _conv2d,
    "MaxPool": _maxpool,
    "NormaliseL2": _normalise,
    "Select": _select,
    "Fill": _fill_and_write,
}
_LOOPS: dict[str, Callable[[_Builder], list[ir.Statement]]] = {"sum": _sum_loop, "carry": _carry_loop}


def _statement(b: _Builder, nested: bool = True) -> list[ir.Statement]:
    builders = {**_SIMPLE, **(_LOOPS if nested else {})}
    names = list(builders) + ["MatMul", "MatMul", "Conv2D", *_LOOPS][: 5 if nested else 3]
    statements = builders[b.choose(names)](b)
    for statement in statements:
        if isinstance(statement, ir.Operation) and statement.out.variable not in b.readable:
            b.wrote(statement.out)
    return statements


@st.composite
def random_models(draw: st.DrawFn, classifies: bool | None = None) -> RandomModel:
    """Programs of 2 to 7 statements (loops count as one) over one input, and 6 samples that reach far out. `classifies`: whether they
    return a label, some do if it is not said."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    b = _Builder(draw, random)
    if draw(st.integers(0, 9)):
        given = b.variable("X", b.shape(b.pick(1, 3)), ir.Role.INPUT)
        b.readable.append(given.name)
    body: list[ir.Statement] = []
    for _ in range(b.pick(2, 7)):
        body += _statement(b)
    kind = ir.ResultKind.REAL
    temporaries = [name for name in b.readable if b.variables[name].role is ir.Role.TEMPORARY]
    result = ir.whole(b.variables[draw(st.sampled_from(temporaries[-3:]))])
    if draw(st.integers(0, 5)) == 0 if classifies is None else classifies:
        kind = ir.ResultKind.CLASS
        source, result = result, b.temporary(())
        if source.size == 1:
            body.append(ir.Sign(result, b.location(), source))
        else:
            body.append(ir.ArgMax(result, b.location(), source))
    program = ir.Program("random", tuple(b.variables.values()), tuple(body), result, kind)
    features = program.input.size if program.input else 0
    samples = random.normal(0, 1, (6, features)) * np.array([[0.1], [1], [1], [4], [30], [1000]])
    return RandomModel(program, b.parameters, samples)


@st.composite
def shiftry_batches(draw: st.DrawFn, program: ir.Program, count: int = 3) -> FixedBatch:
    """`count` candidates with a bitwidth of 8 or 16, in about half of the draws also of 32, and a scale near or far for every variable;
    in half of the draws the widths of sums of products are drawn one by one."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (count, len(program.variables))
    bits = random.choice(draw(st.sampled_from([[8, 16], [8, 16, 32]])), shape)
    spread = draw(st.sampled_from([2, 6, 20]))
    scales = bits - 4 + random.integers(-spread, spread + 1, shape)
    largest = {row: float(random.normal(0, 2)) for row, _ in enumerate(ir.operations(program.body))}
    rounding, accumulator = draw(st.sampled_from(Rounding)), draw(st.sampled_from(Accumulator))
    encoded, encodings = random_encodings(program, bits, random)
    sum_bits = random.choice([0, 16, 32], (count, len(largest))) if draw(st.booleans()) else None
    lowering = ShiftryLowering(program, largest, rounding, accumulator)
    return lowering.lower(bits, scales, encoded, encodings, sum_bits)


def random_encodings(
    program: ir.Program, bits: IntArray, random: np.random.Generator
) -> tuple[Int32Array, tuple[ParameterEncoding, ...]]:
    """`FixedBatch.encoded` and `encodings` in which about three of four parameters are stored in codes that fit `bits` [N, variables].

    About half of those that have 16 bits, and whose rows are sums, have shifts of their own for each row.
    """
    encodings: dict[ParameterEncoding, int] = {}
    encoded = unencoded(bits.shape)
    rows_of = parameter_rows(program)
    for column, variable in enumerate(program.variables):
        for index in range(len(bits)) if variable.role is ir.Role.PARAMETER else ():
            computed = int(bits[index, column])
            if computed <= 16 and random.random() < 0.75:
                width = int(random.choice([2 if variable.sparse else 1, 2, 3, 4, 6, computed]))
                rows = None
                if computed == 16 and variable.name in rows_of and random.random() < 0.5:
                    width, axes = min(width, 8), rows_of[variable.name]
                    count = ir.count_elements(tuple(variable.shape[axis] for axis in axes))
                    shifts = tuple(random.integers(0, computed - max(width, 2), count).tolist())
                    rows = RowShifts(axes, shifts) if any(shifts) else None
                left = computed - max(width, 2) - (max(rows.shifts) if rows else 0)
                shift = int(random.integers(0, left + 1)) if random.random() < 0.5 else 0
                codebook = width == 4 and rows is None and bool(random.random() < 0.5)
                one = ParameterEncoding(width, 0 if codebook else shift, rows=rows, codebook=codebook)
                encoded[index, column] = encodings.setdefault(one, len(encodings))
    return encoded, tuple(encodings)


@st.composite
def seedot_batches(draw: st.DrawFn, program: ir.Program) -> FixedBatch:
    """One candidate of 8, 16 or 32 bits with any maxscale; magnitudes and exponent ranges are random too."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bits = draw(st.sampled_from([8, 16, 32]))
    choice = SeeDotParameters(bits, draw(st.integers(-2, bits)), draw(st.integers(2, 6)))
    magnitudes = {v.name: float(2.0 ** random.uniform(-4, 5)) for v in program.variables}
    lows = random.normal(-2, 2, len(tuple(ir.operations(program.body))))
    ranges = {row: (float(low), float(low + random.uniform(0.1, 5))) for row, low in enumerate(lows)}
    rounding, accumulator = draw(st.sampled_from(Rounding)), draw(st.sampled_from(Accumulator))
    return SeeDotLowering(program, magnitudes, rounding, accumulator).lower(choice, ranges)
