"""Operators of single elements: sums, products and functions, with NumPy's broadcasting.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.array_files import RealArray
from kilotune.codegen.ir import Literal, Operand, View
from kilotune.codegen.language.lowering import POINTWISE, TABLE_FUNCTIONS
from kilotune.codegen.language.views import permuted
from kilotune.codegen.trained.builder import Builder, Tensor, inverse, memory_order
from kilotune.codegen.trained.model import TrainedNode

BinaryOperation = type[ir.Add] | type[ir.Subtract] | type[ir.Multiply]


def add(builder: Builder, view: View, offset: RealArray, name: str, output: str) -> View:
    """`view` plus constants that broadcast to its shape; `name` is that of the constants."""
    return combine(builder, ir.Add, view, offset, (name, output))


def scale(builder: Builder, view: View, factor: RealArray, name: str, output: str) -> View:
    """`view` times constants that broadcast to its shape."""
    return combine(builder, ir.Multiply, view, factor, (name, output))


def combine(
    builder: Builder, operation: BinaryOperation, a: View | RealArray, b: View | RealArray, names: tuple[str, str]
) -> View:
    """`a operation b`, at least one of which is a view; `names`: of the constant, and of the result."""
    (first, second), shape, order = aligned_operands(builder, a, b, names[0])
    out = builder.temporary(tuple(shape[axis] for axis in order), names[1])
    builder.emit(operation(out, builder.location, first, second))
    return permuted(out, inverse(order))


def aligned_operands(
    builder: Builder, a: View | RealArray, b: View | RealArray, constant: str
) -> tuple[list[Operand], tuple[int, ...], tuple[int, ...]]:
    """Two operands, at least one of them a view, as they broadcast, with their axes in the order in which elements lie in memory; the
    shape of the result, and that order. `constant`: the name of the one that is no view."""
    shape = broadcast_shape(a.shape, b.shape)
    leader = next((v for v in (a, b) if isinstance(v, View) and v.shape == shape), None)
    order = tuple(range(len(shape))) if leader is None else memory_order(leader)
    operands: list[Operand] = []
    for value in (a, b):
        if isinstance(value, View):
            operands.append(permuted(_broadcast(value, shape), order))
        elif value.size == 1:
            operands.append(Literal(float(value.reshape(-1)[0])))
        else:
            aligned = value.reshape((1,) * (len(shape) - value.ndim) + value.shape).transpose(order)
            kept = [extent for extent in aligned.shape if extent != 1]
            stored = builder.parameter(constant, np.ascontiguousarray(aligned).reshape(kept), "constants")
            operands.append(_spread(stored, aligned.shape, tuple(shape[axis] for axis in order)))
    return operands, shape, order


def broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's. ValueError "expected X, found Y"."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise ValueError(f"expected shapes that broadcast, found {list(a)} and {list(b)}") from None


def _broadcast(view: View, shape: tuple[int, ...]) -> View:
    """The view repeated along new axes, and along those of extent 1."""
    missing = len(shape) - len(view.shape)
    strides = [0] * missing + [0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True)]
    return replace(view, shape=shape, strides=tuple(strides))


def _spread(stored: View, aligned: tuple[int, ...], shape: tuple[int, ...]) -> View:
    """A parameter without its axes of extent 1, repeated where `aligned` has them."""
    strides = iter(stored.strides)
    return replace(stored, shape=shape, strides=tuple(0 if extent == 1 else next(strides) for extent in aligned))


def binary(operation: BinaryOperation) -> Callable[[Builder, TrainedNode], None]:
    """The converter of Add, Sub or Mul."""

    def convert(builder: Builder, node: TrainedNode) -> None:
        first, second = node.inputs
        values: list[View | RealArray] = []
        for name in (first, second):
            values.append(builder.weights(name, "constants") if name in builder.constants else _operand(builder, name))
        constant = first if first in builder.constants else second
        builder.bind(node.output, combine(builder, operation, values[0], values[1], (constant, node.output)))

    return convert


def extreme(builder: Builder, node: TrainedNode) -> None:
    """Max or Min of two operands: a + relu(b - a), or a - relu(a - b); with one number it is a bound."""
    if len(node.inputs) != 2:
        raise ValueError(f"expected {node.kind} of two operands, found {len(node.inputs)}")
    largest = node.kind == "Max"
    number = next((name for name in node.inputs if name in builder.constants), "")
    if number and builder.weights(number, "bound").size == 1:
        other = next(name for name in node.inputs if name != number)
        check_axes(builder.constants[number].ndim, len(builder.tensor(other).shape))
        bound = float(builder.constants[number].reshape(-1)[0])
        low, high = (bound, math.inf) if largest else (-math.inf, bound)
        clip(builder, node.in_its_place("Clip", other, min=low, max=high))
        return
    values = [builder.weights(n, "constants") if n in builder.constants else _operand(builder, n) for n in node.inputs]
    first, second = values if largest else values[::-1]
    relu, names = maker(builder, "relu"), (number, node.output)
    above = apply(builder, combine(builder, ir.Subtract, second, first, names), node.output, relu)
    builder.bind(node.output, combine(builder, ir.Add if largest else ir.Subtract, values[0], above, names))


def summed(builder: Builder, node: TrainedNode) -> None:
    """The sum of any number of operands, one after the other."""
    if len(node.inputs) < 2:
        builder.bind(node.output, _operand(builder, node.inputs[0]))
        return
    total = node.inputs[0]
    for place, name in enumerate(node.inputs[1:], start=2):
        written = node.output if place == len(node.inputs) else f"{node.output}_of_{place}"
        binary(ir.Add)(builder, replace(node, inputs=(total, name), outputs=(written,)))
        total = written


def power(builder: Builder, node: TrainedNode) -> None:
    """Elements to the power of a constant, 1 or 2."""
    exponent = builder.constant(node.inputs[1], "exponent")
    if exponent.size != 1 or float(exponent.reshape(-1)[0]) not in (1.0, 2.0):
        found = f"{exponent.reshape(-1)[0]:g}" if exponent.size == 1 else f"{exponent.size} numbers"
        raise ValueError(f"expected the exponent 1 or 2, found {found}")
    view = _operand(builder, node.inputs[0])
    check_axes(exponent.ndim, len(view.shape))
    is_square = float(exponent.reshape(-1)[0]) == 2.0
    builder.bind(node.output, combine(builder, ir.Multiply, view, view, ("", node.output)) if is_square else view)


def check_axes(axes: int, rank: int) -> None:
    """ValueError for a number of more axes than the value has that it meets, which the result would have, too."""
    if axes > rank:
        raise ValueError(f"expected a number of at most {rank} axes, found one of {axes}")


def _operand(builder: Builder, name: str) -> View:
    return builder.view(builder.tensor(name))


def divide(builder: Builder, node: TrainedNode) -> None:
    """By constants."""
    divisor = builder.weights(node.inputs[1], "divisor")
    if not divisor.all():
        raise ValueError("expected a divisor, found 0")
    view = _operand(builder, node.inputs[0])
    builder.bind(node.output, scale(builder, view, 1.0 / divisor, node.inputs[1], node.output))


def unary(builder: Builder, node: TrainedNode, make: Callable[[View, View], ir.Operation]) -> None:
    """One function of every element; `make` gets the result and the operand."""
    tensor = builder.tensor(node.inputs[0])
    builder.tensors[node.output] = Tensor(apply(builder, tensor.view, node.output, make), tensor.shape)


def apply(builder: Builder, view: View, name: str, make: Callable[[View, View], ir.Operation]) -> View:
    """A new variable with one function of every element of `view`."""
    order = memory_order(view)
    operand = permuted(view, order)
    out = builder.temporary(operand.shape, name)
    builder.emit(make(out, operand))
    return permuted(out, inverse(order))


def function(name: str, *constants: float) -> Callable[[Builder, TrainedNode], None]:
    """The converter of a function that programs have under `name`."""

    def convert(builder: Builder, node: TrainedNode) -> None:
        unary(builder, node, maker(builder, name, *constants))

    return convert


def maker(builder: Builder, name: str, *constants: float) -> Callable[[View, View], ir.Operation]:
    """What makes the operation of a function, of the result and the operand. ValueError for constants that it does not take."""
    location = builder.location
    if name in TABLE_FUNCTIONS:
        table = TABLE_FUNCTIONS[name]
        return lambda out, a: table(out, location, a)
    kind = POINTWISE[name]
    try:
        kind(View("", (), ()), location, View("", (), ()), *constants)
    except ValueError as error:
        raise ValueError(f"expected {error}, found {', '.join(f'{c:g}' for c in constants)}") from None
    return lambda out, a: kind(out, location, a, *constants)


def leaky_relu(builder: Builder, node: TrainedNode) -> None:
    """x where it is positive, else alpha * x."""
    rectify(builder, node, np.asarray(node.number("alpha", 0.01)), "alpha")


def prelu(builder: Builder, node: TrainedNode) -> None:
    """As `leaky_relu`, with a slope for every channel."""
    rectify(builder, node, builder.weights(node.inputs[1], "slopes"), node.inputs[1])


def rectify(builder: Builder, node: TrainedNode, slope: RealArray, name: str) -> None:
    """x where it is positive, else `slope` times x. A slope that the program's own operator cannot have becomes the difference of two
    halves, relu(x) - slope * relu(-x)."""
    if slope.size == 1 and 0 <= float(slope.reshape(-1)[0]) <= 1:
        unary(builder, node, maker(builder, "leakyrelu", float(slope.reshape(-1)[0])))
        return
    view = _operand(builder, node.inputs[0])
    positive = apply(builder, view, node.output, maker(builder, "relu"))
    location = builder.location
    turned = apply(builder, view, node.output, lambda out, a: ir.Negate(out, location, a))
    negative = apply(builder, turned, node.output, maker(builder, "relu"))
    scaled = scale(builder, negative, slope, name, node.output)
    builder.bind(node.output, combine(builder, ir.Subtract, positive, scaled, (name, node.output)))


def clip(builder: Builder, node: TrainedNode) -> None:
    """Between two bounds. Without an upper one above 0 it is a relu; both become sums of relus."""
    low, high = _bounds(builder, node)
    if (low, high) == (0.0, math.inf):
        unary(builder, node, maker(builder, "relu"))
        return
    if (low, high) == (0.0, 6.0):
        unary(builder, node, maker(builder, "relu6"))
        return
    builder.bind(node.output, bounded(builder, _operand(builder, node.inputs[0]), low, high, node.output))


def _bounds(builder: Builder, node: TrainedNode) -> tuple[float, float]:
    found = []
    for place, attribute, otherwise in ((1, "min", -math.inf), (2, "max", math.inf)):
        name = builder.optional(node, place)
        if name is None:
            found.append(node.number(attribute, otherwise))
        else:
            found.append(float(builder.constant(name, f"{attribute}imum").reshape(-1)[0]))
    low, high = (otherwise if abs(b) > 1e30 else b for b, otherwise in zip(found, (-math.inf, math.inf), strict=True))
    if math.isnan(low) or math.isnan(high) or low > high:
        raise ValueError(f"expected a minimum and a maximum, found {low:g} and {high:g}")
    return low, high


def bounded(builder: Builder, view: View, low: float, high: float, name: str) -> View:
    """max(low, min(x, high)) as low + relu(x - low), and the same from above."""
    result, names = view, ("bound", name)
    relu = maker(builder, "relu")
    if low > -math.inf:
        above = combine(builder, ir.Subtract, result, np.asarray(low), names) if low else result
        result = apply(builder, above, name, relu)
        result = add(builder, result, np.asarray(low), *names) if low else result
    if high < math.inf:
        below = apply(builder, combine(builder, ir.Subtract, np.asarray(high), result, names), name, relu)
        result = combine(builder, ir.Subtract, np.asarray(high), below, names)
    return result
