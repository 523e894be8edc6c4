"""Random small networks whose products are followed by what may be computed of their sums at once: biases, factors, activations."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from tests.codegen.emit.random_programs import RandomModel

_HERE = ir.Location("finished.sd", 1, 1)


class _Network:
    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._variables: list[ir.Variable] = []
        self.body: list[ir.Statement] = []
        self.parameters: dict[str, FloatArray] = {}

    def made(self, shape: tuple[int, ...], role: ir.Role = ir.Role.TEMPORARY) -> ir.View:
        name = f"v{len(self._variables)}"
        self._variables.append(ir.Variable(name, shape, role, _HERE))
        if role is ir.Role.PARAMETER:
            self.parameters[name] = self._random.uniform(-2, 2, shape)
        return ir.whole(self._variables[-1])

    def convolution(self, a: ir.View) -> ir.View:
        height, width, channels = a.shape[1:]
        kernel = (int(self._random.integers(1, min(height, 3) + 1)), int(self._random.integers(1, min(width, 3) + 1)))
        padding = tuple(int(self._random.integers(0, size)) for size in (kernel[0], kernel[0], kernel[1], kernel[1]))
        stride = (int(self._random.integers(1, 3)), 1)
        groups = channels if channels > 1 and self._random.random() < 0.4 else 1
        filters = 1 if groups > 1 else int(self._random.integers(1, 7))
        weights = self.made((groups, *kernel, channels // groups, filters), ir.Role.PARAMETER)
        size = [
            (e + sum(padding[2 * i : 2 * i + 2]) - kernel[i]) // stride[i] + 1 for i, e in enumerate((height, width))
        ]
        out = self.made((1, *size, groups * filters))
        self.body.append(ir.Conv2D(out, _HERE, a, weights, stride, padding, groups=groups))  # type: ignore[arg-type]
        return out

    def dense(self, a: ir.View) -> ir.View:
        rows, columns = int(self._random.integers(2, 8)), int(self._random.choice([1, 1, 3] if a.size > 2 else [1]))
        length = a.size // columns
        flat = ir.View(a.variable, (length, columns), (1, length), a.offset)
        out = self.made((rows, columns))
        weights = self.made((rows, length), ir.Role.PARAMETER)
        self.body.append(ir.MatMul(out, _HERE, weights, flat, sparse=False))
        return out

    def finished(self, a: ir.View) -> ir.View:
        """One to three operations on every element."""
        axis = len(a.shape) - 1 if len(a.shape) == 4 else 0
        for _ in range(int(self._random.integers(1, 4))):
            out = self.made(a.shape)
            if self._random.random() < 0.5:
                kind = (ir.Relu, ir.Relu6, ir.Negate)[int(self._random.integers(3))]
                self.body.append(kind(out, _HERE, a))
            else:
                row = self.made((a.shape[axis],), ir.Role.PARAMETER)
                strides = tuple(int(number == axis) for number in range(len(a.shape)))
                values = ir.View(row.variable, a.shape, strides)
                kind2 = (ir.Add, ir.Add, ir.Subtract, ir.Multiply)[int(self._random.integers(4))]
                pair = (a, values) if self._random.random() < 0.7 else (values, a)
                self.body.append(kind2(out, _HERE, *pair))
            a = out
        return a

    def added(self, a: ir.View) -> ir.View:
        """With an earlier value of the same shape, where there is one."""
        others = [
            v
            for v in self._variables
            if v.shape == a.shape and v.name != a.variable and v.role is not ir.Role.PARAMETER
        ]
        if not others or self._random.random() < 0.6:
            return a
        out = self.made(a.shape)
        self.body.append(ir.Add(out, _HERE, a, ir.whole(others[int(self._random.integers(len(others)))])))
        return out

    def program(self, result: ir.View) -> ir.Program:
        return ir.Program("finished", tuple(self._variables), tuple(self.body), result, ir.ResultKind.REAL)


def finished_products(seed: int) -> tuple[RandomModel, FixedBatch]:
    """A model on 3 samples, and one candidate."""
    random = np.random.default_rng(seed)
    network = _Network(random)
    shape = (1, *(int(n) for n in random.integers(1, 6, 2)), int(random.integers(1, 7)))
    value = network.made(shape, ir.Role.INPUT)
    for _ in range(int(random.integers(1, 4))):
        value = network.added(network.finished(network.convolution(value)))
    if random.random() < 0.5:
        value = network.finished(network.dense(value))
    program = network.program(value)
    some = ([8, 16], [16], [8, 16, 32])[int(random.integers(3))]
    bits = random.choice(some, (1, len(program.variables)))
    scales = bits - 4 + random.integers(-2, 3, bits.shape)
    rounding = list(Rounding)[int(random.integers(3))]
    accumulator = list(Accumulator)[int(random.integers(len(Accumulator)))]
    batch = ShiftryLowering(program, {}, rounding, accumulator).lower(bits, scales)
    return RandomModel(program, network.parameters, random.normal(0, 2, (3, int(np.prod(shape))))), batch
