"""Random programs whose layers walk along time: convolutions, pools and elementwise operations, then something that needs all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.language.views import permuted

Window = tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int], tuple[int, int]]
"""Kernel, stride, padding and dilation."""

HERE = ir.Location("walk.sd", 1, 1)


@dataclass
class WalkingPrograms:
    """`padded`: whether windows may lie on padding along time; `wide`: whether columns have a second spatial axis."""

    random: np.random.Generator
    padded: bool = True
    wide: bool = True
    variables: list[ir.Variable] = field(default_factory=list)
    body: list[ir.Operation] = field(default_factory=list)
    parameters: dict[str, FloatArray] = field(default_factory=dict)

    def program(self, layers: int) -> tuple[ir.Program, dict[str, FloatArray], FloatArray]:
        """A program, its parameters, and features [samples, features]. Images are (1, time, height, channels)."""
        times, height = int(self.random.integers(8, 20)), int(self.random.integers(1, 4)) if self.wide else 1
        channels = int(self.random.integers(1, 4))
        given = ir.Variable("X", (1, times, height, channels), ir.Role.INPUT, HERE)
        self.variables.append(given)
        last = self._seen(given)
        for _ in range(layers):
            makers = [self._residual] if self.padded else []
            makers += [self._convolution, self._depthwise, self._pool, self._function, self._bias, self._skip]
            made = makers[self.random.integers(len(makers))](last)
            last = last if made is None else made
        result = self._dense(last)
        features = self.random.normal(0, 1, (5, given.size))
        program = ir.Program("walk", tuple(self.variables), tuple(self.body), result, ir.ResultKind.REAL)
        return program, self.parameters, features

    def _seen(self, given: ir.Variable) -> ir.View:
        """The input, its time the first or the last axis of the sample."""
        if self.random.random() < 0.5:
            return ir.whole(given)
        _, times, height, _ = given.shape
        return ir.View("X", given.shape, (given.size, 1, times, times * height))

    def _temporary(self, shape: tuple[int, ...]) -> ir.View:
        made = ir.Variable(f"t{len(self.variables)}", shape, ir.Role.TEMPORARY, HERE)
        self.variables.append(made)
        return ir.whole(made)

    def _parameter(self, shape: tuple[int, ...]) -> ir.View:
        made = ir.Variable(f"P{len(self.variables)}", shape, ir.Role.PARAMETER, HERE)
        self.variables.append(made)
        self.parameters[made.name] = self.random.uniform(-1, 1, shape)
        return ir.whole(made)

    def _window(self, shape: tuple[int, ...], padded: bool) -> Window:
        kernel = int(self.random.integers(1, min(5, shape[1]) + 1)), int(self.random.integers(1, min(2, shape[2]) + 1))
        dilation = 2 if (kernel[0] - 1) * 2 < shape[1] and self.random.random() < 0.3 else 1
        span = (kernel[0] - 1) * dilation + 1
        along = (
            tuple(int(n) for n in self.random.integers(0, span, 2)) if padded and self.random.random() < 0.6 else (0, 0)
        )
        return kernel, (int(self.random.integers(1, 3)), 1), (*along, 0, 0), (dilation, 1)

    def _made(self, view: ir.View, window: Window, channels: int) -> ir.View:
        kernel, stride, padding, dilation = window
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        extents = [
            (n + padding[2 * a] + padding[2 * a + 1] - spans[a]) // stride[a] + 1 for a, n in enumerate(view.shape[1:3])
        ]
        return self._temporary((1, *extents, channels))

    def _convolution(self, view: ir.View) -> ir.View | None:
        outputs, window = int(self.random.integers(1, 5)), self._window(view.shape, self.padded)
        filters = self._parameter((1, *window[0], view.shape[3], outputs))
        out = self._made(view, window, outputs)
        self.body.append(ir.Conv2D(out, HERE, view, filters, *window[1:]))
        return out

    def _depthwise(self, view: ir.View) -> ir.View | None:
        groups, window = view.shape[3], self._window(view.shape, self.padded)
        filters = self._parameter((groups, *window[0], 1, 1))
        out = self._made(view, window, groups)
        self.body.append(ir.Conv2D(out, HERE, view, filters, *window[1:], groups))
        return out

    def _pool(self, view: ir.View) -> ir.View | None:
        kernel, stride, padding, _ = self._window(view.shape, False)
        out = self._made(view, (kernel, stride, padding, (1, 1)), view.shape[3])
        if self.random.random() < 0.5:
            self.body.append(ir.MaxPool(out, HERE, view, kernel, stride, padding))
            return out
        filters = self._parameter((1, *kernel, 1, 1))
        channels, target = (permuted(one, (3, 1, 2, 0)) for one in (view, out))
        self.body.append(ir.Conv2D(target, HERE, channels, filters, stride, padding))
        return out

    def _function(self, view: ir.View) -> ir.View | None:
        out = self._temporary(view.shape)
        self.body.append(ir.Relu(out, HERE, view) if self.random.random() < 0.7 else ir.Tanh(out, HERE, view))
        return out

    def _bias(self, view: ir.View) -> ir.View | None:
        numbers, out = self._parameter((view.shape[3],)), self._temporary(view.shape)
        spread = ir.View(numbers.variable, view.shape, (0, 0, 0, 1))
        kind = ir.Add if self.random.random() < 0.5 else ir.Multiply
        self.body.append(kind(out, HERE, view, spread))
        return out

    def _skip(self, view: ir.View) -> ir.View | None:
        """The sum with an earlier image of the same shape."""
        alike = [
            o.out for o in self.body if o.out.shape == view.shape and o.out.strides == view.strides and o.out != view
        ]
        if not alike:
            return None
        out = self._temporary(view.shape)
        self.body.append(ir.Add(out, HERE, view, alike[self.random.integers(len(alike))]))
        return out

    def _residual(self, view: ir.View) -> ir.View | None:
        """The sum of an image and what one to three convolutions with padding make of it."""
        made = view
        for _ in range(int(self.random.integers(1, 4))):
            before, behind = (int(n) for n in self.random.integers(0, 3, 2))
            if before + behind + 1 > view.shape[1]:
                return None
            filters = self._parameter((1, before + behind + 1, 1, view.shape[3], view.shape[3]))
            out = self._temporary(view.shape)
            self.body.append(ir.Conv2D(out, HERE, made, filters, padding=(before, behind, 0, 0)))
            made = out
        out = self._temporary(view.shape)
        self.body.append(ir.Add(out, HERE, made, view))
        return out

    def _dense(self, view: ir.View) -> ir.View:
        """A product with everything, and perhaps with everything of an earlier image too, or the sum over time."""
        if view.variable == "X" or self.random.random() < 0.3:
            kernel = (view.shape[1], view.shape[2])
            out = self._temporary((1, 1, 1, 2))
            filters = self._parameter((1, *kernel, view.shape[3], 2))
            self.body.append(ir.Conv2D(out, HERE, view, filters))
            return out
        out, weights = self._temporary((1, 2)), self._parameter((view.size, 2))
        row = ir.View(view.variable, (1, view.size), (view.size, 1))
        earlier = [o.out for o in self.body if o.out.variable != view.variable and not o.out.offset.terms]
        self.body.append(ir.MatMul(out, HERE, row, weights))
        if not earlier or self.random.random() < 0.5:
            return out
        other = earlier[self.random.integers(len(earlier))]
        both, besides, more = self._temporary((1, 2)), self._temporary((1, 2)), self._parameter((other.size, 2))
        self.body.append(ir.MatMul(besides, HERE, ir.View(other.variable, (1, other.size), (other.size, 1)), more))
        self.body.append(ir.Add(both, HERE, out, besides))
        return both
