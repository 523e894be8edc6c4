"""Random programs that exercise every operation at many shapes, widths and shifts: what cost tables are fitted to besides models."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding, get_scale
from kilotune.codegen.fixed.encoding import LAYOUTS, ParameterEncoding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch, unencoded
from kilotune.codegen.profile import Profile, profile

_HERE = ir.Location("probe.sd", 1, 1)
SAMPLES = 4
FEATURES = 24
NARROW_COMPUTED_BITS = 8
"""What parameters of fewer bits are computed with."""


@dataclass(frozen=True)
class ProbeProgram:
    """A program with parameters, samples [samples, features], and one candidate."""

    parameters: dict[str, FloatArray]
    features: FloatArray
    batch: FixedBatch


@dataclass
class _ProbeBuilder:
    random: np.random.Generator
    variables: list[ir.Variable] = field(default_factory=list)
    parameters: dict[str, FloatArray] = field(default_factory=dict)
    body: list[ir.Statement] = field(default_factory=list)

    def pick(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def variable(self, shape: tuple[int, ...], role: ir.Role = ir.Role.TEMPORARY, sparse: bool = False) -> ir.View:
        made = ir.Variable(f"v{len(self.variables)}", shape, role, _HERE, sparse=sparse)
        self.variables.append(made)
        return ir.whole(made)

    def parameter(self, shape: tuple[int, ...], sparse: bool = False) -> ir.View:
        view = self.variable(shape, ir.Role.PARAMETER, sparse)
        values = self.random.normal(0, 0.5, shape)
        if sparse:
            values = np.where(self.random.random(shape) < self.random.uniform(0.1, 0.6), values, 0.0)
        self.parameters[view.variable] = values
        return view


def probe(seed: int, narrow: bool = False) -> ProbeProgram:
    """A program of 2 to 6 operations, each reading what the one before wrote; formats are random, scales near those that fit. `narrow`:
    its parameters are codes of random widths from 1 to 6 bits, which everything else is computed with as without."""
    random = np.random.default_rng(seed)
    b = _ProbeBuilder(random)
    last = b.variable((FEATURES, 1), ir.Role.INPUT)
    loops = b.pick(0, 3) == 0
    for _ in range(b.pick(2, 6)):
        last = _operation(b, last)
    body: tuple[ir.Statement, ...] = tuple(b.body)
    if loops:
        body = (body[0], ir.Loop("i", 0, b.pick(2, 6), body[1:], _HERE))
    kind = ir.ResultKind.REAL
    if b.pick(0, 2) == 0:
        label = b.variable(())
        body, last, kind = (*body, ir.ArgMax(label, _HERE, last)), label, ir.ResultKind.CLASS
    program = ir.Program("probe", tuple(b.variables), body, last, kind)
    features = random.normal(0, 1, (SAMPLES, FEATURES))
    seen, _ = profile(program, b.parameters, features)
    share = random.random()
    bits = np.where(random.random((1, len(b.variables))) < share, 8, 16)
    # as searches choose them: as large as the values allow, or a little more or less
    best = [get_scale(seen.magnitude(v.name), int(w)) for v, w in zip(program.variables, bits[0], strict=True)]
    scales = np.array([best]) + random.integers(-2, 3, bits.shape)
    largest = {row: float(values.max()) for row, values in seen.exponents.items()}
    rounding = list(Rounding)[b.pick(0, 2)]
    accumulator = list(Accumulator)[b.pick(0, len(Accumulator) - 1)]
    lowering = ShiftryLowering(program, largest, rounding, accumulator)
    if narrow:
        return ProbeProgram(b.parameters, features, _narrow_batch(lowering, bits, scales, seen, seed))
    return ProbeProgram(b.parameters, features, lowering.lower(bits, scales))


def _narrow_batch(lowering: ShiftryLowering, bits: IntArray, scales: IntArray, seen: Profile, seed: int) -> FixedBatch:
    """Parameters as codes of random widths, each at the scale that holds its largest value; of one bit no sparse ones, which have zeros."""
    random, encodings = np.random.default_rng([seed, 3]), tuple(ParameterEncoding(width) for width in LAYOUTS)
    encoded = unencoded(bits.shape)
    for column, variable in enumerate(lowering.program.variables):
        if variable.role is ir.Role.PARAMETER:
            number = int(random.integers(variable.sparse, len(encodings)))
            encoded[0, column], bits[0, column] = number, NARROW_COMPUTED_BITS
            scales[0, column] = get_scale(seen.magnitude(variable.name), encodings[number].width)
    return lowering.lower(bits, scales, encoded, encodings)


_UNARY = (ir.Negate, ir.Relu, ir.Relu6, ir.Exp, ir.Sigmoid, ir.Tanh, ir.Copy)
_BINARY = (ir.Add, ir.Subtract, ir.Multiply)

SIZES = (7, 24, 60)
"""Elements of programs of one operation."""


def single_operations() -> list[ProbeProgram]:
    """Programs of one elementwise operation each, in which nothing else has the loop: in others it mostly shares one."""
    made = []
    for number, size, bits in itertools.product(range(len(_UNARY)), SIZES, (8, 16)):
        b = _ProbeBuilder(np.random.default_rng(size))
        given = b.variable((size, 1), ir.Role.INPUT)
        out = b.variable((size, 1))
        b.body.append(_UNARY[number](out, _HERE, given))
        program = ir.Program("probe", tuple(b.variables), tuple(b.body), out, ir.ResultKind.REAL)
        features = b.random.normal(0, 1, (SAMPLES, size))
        seen, _ = profile(program, {}, features)
        best = [get_scale(seen.magnitude(v.name), bits) for v in program.variables]
        largest = {row: float(values.max()) for row, values in seen.exponents.items()}
        made.append(ProbeProgram({}, features, ShiftryLowering(program, largest).lower([[bits, bits]], [best])))
    return made


def convolutions(count: int, seed: int) -> list[ProbeProgram]:
    """Programs of one to three convolutions of an image, with channels and extents like those of small networks: windows of 1 to 5 pixels,
    padded or not, strides of 1 and 2, and filters of each channel alone."""
    return [_convolutions(np.random.default_rng([seed, number])) for number in range(count)]


def _convolutions(random: np.random.Generator) -> ProbeProgram:
    b = _ProbeBuilder(random)
    side, channels = b.pick(3, 9), (1, 2, 3, 4, 8, 12, 16, 24)[b.pick(0, 7)]
    shape = (1, side, side, channels)
    last = given = b.variable(shape, ir.Role.INPUT)
    for _ in range(b.pick(1, 3)):
        last = _window(b, last)
        if b.pick(0, 1):
            out = b.variable(last.shape)
            b.body.append(ir.Relu(out, _HERE, last))
            last = out
    program = ir.Program("probe", tuple(b.variables), tuple(b.body), last, ir.ResultKind.REAL)
    features = random.normal(0, 1, (SAMPLES, given.size))
    seen, _ = profile(program, b.parameters, features)
    bits = np.where(random.random((1, len(b.variables))) < random.random(), 8, 16)
    best = [get_scale(seen.magnitude(v.name), int(w)) for v, w in zip(program.variables, bits[0], strict=True)]
    largest = {row: float(values.max()) for row, values in seen.exponents.items()}
    lowering = ShiftryLowering(
        program, largest, list(Rounding)[b.pick(0, 2)], list(Accumulator)[b.pick(0, len(Accumulator) - 1)]
    )
    return ProbeProgram(b.parameters, features, lowering.lower(bits, [best]))


def _window(b: _ProbeBuilder, image: ir.View) -> ir.View:
    side, channels = image.shape[1], image.shape[3]
    kernel = min(side, (1, 1, 2, 3, 3, 5)[b.pick(0, 5)])
    pad, stride = b.pick(0, kernel // 2), b.pick(1, 2)
    extent = (side + 2 * pad - kernel) // stride + 1
    alone = channels > 1 and b.pick(0, 4) == 0
    filters = channels if alone else b.pick(2, 24)
    groups, each = (channels, 1) if alone else (1, filters)
    weights = b.parameter((groups, kernel, kernel, channels // groups, each))
    out = b.variable((1, extent, extent, filters))
    b.body.append(ir.Conv2D(out, _HERE, image, weights, (stride, stride), (pad, pad, pad, pad)))
    return out


def _operation(b: _ProbeBuilder, last: ir.View) -> ir.View:
    size = last.size
    choice = b.pick(0, 9)
    if choice <= 2:
        rows = b.pick(2, 20)
        out = b.variable((rows, 1))
        flat = ir.View(last.variable, (size, 1), (1, 1))
        sparse = b.pick(0, 2) == 0
        b.body.append(ir.MatMul(out, _HERE, b.parameter((rows, size), sparse), flat, sparse))
        return out
    if choice <= 4:
        out = b.variable(last.shape)
        kind = _BINARY[b.pick(0, 2)]
        choices: list[ir.Operand] = [
            b.parameter(last.shape),
            b.parameter(()),
            ir.Literal(float(b.random.normal())),
            last,
        ]
        other = choices[b.pick(0, 3)]
        b.body.append(kind(out, _HERE, last, other))
        return out
    if choice == 5:
        return _image_operation(b, last)
    if choice == 6:
        out = b.variable(last.shape)
        condition = ir.View(last.variable, (), ())
        b.body.append(ir.Select(out, _HERE, condition, last, b.parameter(last.shape)))
        return out
    if choice == 7:
        # a product with a matrix on the right, as FastGRNN has: the weights are read down their columns
        columns = b.pick(2, 16)
        out = b.variable((1, columns))
        flat = ir.View(last.variable, (1, size), (1, 1))
        b.body.append(ir.MatMul(out, _HERE, flat, b.parameter((size, columns))))
        return out
    if b.pick(0, len(_UNARY)) == 0:  # along the last axis, so one row
        out = b.variable((1, size))
        b.body.append(ir.NormaliseL2(out, _HERE, ir.View(last.variable, (1, size), (1, 1))))
        return out
    out = b.variable(last.shape)
    b.body.append(_UNARY[b.pick(0, len(_UNARY) - 1)](out, _HERE, last))
    return out


def _image_operation(b: _ProbeBuilder, last: ir.View) -> ir.View:
    """A convolution or a pooling of a small image; before it, a product that makes the image."""
    channels, side = b.pick(1, 3), b.pick(3, 5)
    pixels = channels * side * side
    made = b.variable((pixels, 1))
    b.body.append(
        ir.MatMul(
            made, _HERE, b.parameter((pixels, last.size), True), ir.View(last.variable, (last.size, 1), (1, 1)), True
        )
    )
    strides = ir.row_major_strides((1, side, side, channels))
    image = ir.View(made.variable, (1, side, side, channels), strides)
    kernel, pad = b.pick(2, 3), b.pick(0, 1)
    extent = side + 2 * pad - kernel + 1
    padding = (pad, pad, pad, pad)
    if b.pick(0, 2) == 0:
        pooled = b.variable((1, extent, extent, channels))
        b.body.append(ir.MaxPool(pooled, _HERE, image, (kernel, kernel), (1, 1), padding))
        return pooled
    out_channels = b.pick(1, 3)
    out = b.variable((1, extent, extent, out_channels))
    weights = b.parameter((1, kernel, kernel, channels, out_channels))
    b.body.append(ir.Conv2D(out, _HERE, image, weights, (1, 1), padding))
    return out
