"""From an operator and its values to IR operations, with the type rules of the language (SeeDot Figure 2).

Every method takes the values, the location for errors and for the operation, and the goal of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NoReturn

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Literal, Location, View
from kilotune.codegen.language.emitter import NOWHERE, Destination, Emitter
from kilotune.codegen.language.syntax import BinaryOperator
from kilotune.codegen.language.values import (
    Integer,
    Label,
    Real,
    Value,
    describe,
    describe_shape,
    shape_of,
    size_of,
)
from kilotune.codegen.language.views import broadcast_along_last, may_overlap, reshaped, same_elements, scaled

Elementwise = type[ir.Add] | type[ir.Subtract] | type[ir.Multiply]
TABLE_FUNCTIONS: Mapping[str, type[ir.TableFunction]] = MappingProxyType(
    {kind.function: kind for kind in (ir.Exp, ir.Tanh, ir.Sigmoid)}
)
POINTWISE: Mapping[str, type[ir.Pointwise]] = MappingProxyType(
    {kind.function: kind for kind in ir.POINTWISE if kind.function is not None}
)
"""Elementwise functions by name."""

_ELEMENTWISE: Mapping[BinaryOperator, Elementwise] = MappingProxyType(
    {BinaryOperator.ADD: ir.Add, BinaryOperator.SUBTRACT: ir.Subtract, BinaryOperator.HADAMARD: ir.Multiply}
)
_BY_CHANNEL: Mapping[BinaryOperator, Elementwise] = MappingProxyType(
    {BinaryOperator.CHANNEL_ADD: ir.Add, BinaryOperator.CHANNEL_SUBTRACT: ir.Subtract}
)
"""Operators whose right side is a vector, repeated over all axes but the last; the others multiply."""

_SCALAR = View("", (), ())
"""What an operator is made of where only its function is asked for."""

FUNCTION_NAMES = (*POINTWISE, *TABLE_FUNCTIONS, "argmax", "sgn", "normaliseL2")


def real(value: Value, location: Location, subject: str) -> Real:
    """The value as a real: integer constants become numbers. Raises InputError for other integers and labels."""
    if isinstance(value, Integer) and not value.place.terms:
        return Literal(float(value.place.constant))
    if isinstance(value, Integer | Label):
        raise InputError.at(location, subject, "a real value", describe(value))
    return value


def tensor(value: Value, location: Location, subject: str, rank: int | None = None) -> View:
    """The value as a tensor, of that rank if given. Raises InputError for anything else."""
    expected = "a tensor" if rank is None else {1: "a vector", 2: "a matrix"}.get(rank, f"a tensor with {rank} axes")
    if not isinstance(value, View) or (not value.shape if rank is None else len(value.shape) != rank):
        raise InputError.at(location, subject, expected, describe(value))
    return value


class Lowering:
    """Emits the operations of expressions; the structure of the program (lets, loops) is the elaborator's."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter

    def output(
        self, shape: tuple[int, ...], location: Location, goal: Destination, operands: tuple[Value, ...], aligned: bool
    ) -> View:
        """Where an operation writes: straight into the goal's elements when it is safe, else a new temporary.

        Safe: it reads none of those elements or, `aligned`, each only to compute the same element.
        """
        target = goal.target
        if target is None or target.shape != shape:
            return self.emitter.temporary(shape, location, goal.name)
        views = [operand for operand in operands if isinstance(operand, View)]
        if all((aligned and same_elements(view, target)) or not may_overlap(view, target) for view in views):
            return target
        return self.emitter.temporary(shape, location)

    def copy(self, view: View, location: Location, goal: Destination = NOWHERE) -> View:
        """The elements of a view in a new variable."""
        out = self.emitter.temporary(view.shape, location, goal.name)
        self.emitter.emit(ir.Copy(out, location, view))
        return out

    def fill(self, shape: tuple[int, ...], number: float, location: Location, goal: Destination = NOWHERE) -> View:
        """A new tensor of one number."""
        out = self.output(shape, location, goal, (), aligned=True)
        self.emitter.emit(ir.Fill(out, location, number))
        return out

    # Binary operators

    def binary(self, operator: BinaryOperator, a: Value, b: Value, location: Location, goal: Destination) -> Value:
        """`a operator b`."""
        if isinstance(a, Integer) and isinstance(b, Integer):
            return _integer_arithmetic(operator, a, b, location)
        subject = f"operands of '{operator.value}'"
        left, right = real(a, location, subject), real(b, location, subject)
        if operator in _ELEMENTWISE:
            return self.elementwise(_ELEMENTWISE[operator], left, right, location, goal, subject)
        if operator in _BY_CHANNEL:
            return self.channels(_BY_CHANNEL[operator], left, right, location, goal, subject)
        sparse = operator is BinaryOperator.SPARSE_MULTIPLY
        # of one element is enough to be a scalar, except where the source says that it is a product of matrices
        scalar = any(not shape_of(x) if sparse else size_of(x) == 1 for x in (left, right))
        if scalar:
            return self.elementwise(ir.Multiply, left, right, location, goal, subject)
        return self.product(left, right, location, goal, subject, sparse=sparse)

    def elementwise(
        self, operation: Elementwise, a: Real, b: Real, location: Location, goal: Destination, subject: str
    ) -> Real:
        """Equal shapes, or one operand of size 1 (rules T-M2S, T-S2M); two numbers are folded."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            numbers = np.asarray(a.value), np.asarray(b.value)
            return _fold(lambda: float(operation(_SCALAR, location, a, b).real(*numbers)), location, subject)
        shape = _broadcast_shape(shape_of(a), shape_of(b))
        if shape is None:
            _shapes_differ(a, b, "equal shapes, or a scalar on one side", location, subject)
        out = self.output(shape, location, goal, (a, b), aligned=True)
        self.emitter.emit(operation(out, location, a, b))
        return out

    def channels(
        self, operation: Elementwise, a: Real, b: Real, location: Location, goal: Destination, subject: str
    ) -> Real:
        """`a` (..., C) with a vector (C), repeated over all leading axes."""
        if not isinstance(a, View) or not a.shape or len(shape_of(b)) != 1 or a.shape[-1] != shape_of(b)[-1]:
            wanted = f"a tensor and a vector of {shape_of(a)[-1]}" if shape_of(a) else "a tensor and a vector"
            _shapes_differ(a, b, wanted, location, subject)
        assert isinstance(b, View)
        repeated = broadcast_along_last(b, a.shape)
        return self.elementwise(operation, a, repeated, location, goal, subject)

    def product(self, a: Real, b: Real, location: Location, goal: Destination, subject: str, *, sparse: bool) -> View:
        """`(P, Q) x (Q, R) -> (P, R)`."""
        matching = len(shape_of(a)) == 2 and len(shape_of(b)) == 2 and shape_of(a)[1] == shape_of(b)[0]
        if not matching or not isinstance(a, View) or not isinstance(b, View):
            _shapes_differ(a, b, "matrices (p, q) and (q, r)", location, subject)
        out = self.output((a.shape[0], b.shape[1]), location, goal, (a, b), aligned=False)
        self.emitter.emit(ir.MatMul(out, location, a, b, sparse))
        return out

    # Functions

    def negate(self, value: Value, location: Location, goal: Destination) -> Value:
        """`-value`."""
        if isinstance(value, Integer):
            return Integer(scaled(value.place, -1))
        operand = real(value, location, "operand of '-'")
        if isinstance(operand, Literal):
            return Literal(-operand.value)
        out = self.output(operand.shape, location, goal, (operand,), aligned=True)
        self.emitter.emit(ir.Negate(out, location, operand))
        return out

    def call(self, function: str, arguments: tuple[Value, ...], location: Location, goal: Destination) -> Value:
        """A function of one argument, and of the constants that some take besides, by name.

        Raises InputError for an unknown name, another argument count or a constant that the function does not take.
        """
        if function not in FUNCTION_NAMES:
            known = ", ".join(FUNCTION_NAMES)
            raise InputError.at(location, "function", f"one of {known}", function)
        kind = POINTWISE.get(function)
        most = 1 if kind is None else len(kind.parameter_names()) + 1
        if not 1 <= len(arguments) <= most:
            wanted = "1" if most == 1 else f"1 to {most}"
            raise InputError.at(location, f"arguments of {function}", wanted, str(len(arguments)))
        operand = real(arguments[0], location, f"argument of {function}")
        if kind is not None:
            return self.pointwise(kind, operand, arguments[1:], location, goal)
        if function == "argmax":
            return self.argmax(operand, location, goal)
        if function == "sgn":
            return self.sign(operand, location, goal)
        if function == "normaliseL2":
            view = tensor(operand, location, "argument of normaliseL2")
            out = self.output(view.shape, location, goal, (view,), aligned=False)
            self.emitter.emit(ir.NormaliseL2(out, location, view))
            return out
        tabled = TABLE_FUNCTIONS[function]
        if isinstance(operand, Literal):
            number = operand.value
            return _fold(lambda: tabled(_SCALAR, location, _SCALAR).fold(number), location, f"argument of {function}")
        out = self.output(operand.shape, location, goal, (operand,), aligned=True)
        self.emitter.emit(tabled(out, location, operand))
        return out

    def pointwise(
        self,
        kind: type[ir.Pointwise],
        operand: Real,
        constants: tuple[Value, ...],
        location: Location,
        goal: Destination,
    ) -> Real:
        """A pointwise operator; `constants` are its parameters."""
        subject = f"constants of {kind.function}"
        numbers = []
        for value in constants:
            number = real(value, location, subject)
            if not isinstance(number, Literal):
                raise InputError.at(location, subject, "numbers", describe(number))
            numbers.append(number.value)
        try:
            of_scalar = kind(_SCALAR, location, _SCALAR, *numbers)
        except ValueError as error:
            raise InputError.at(location, subject, str(error), ", ".join(f"{n:g}" for n in numbers)) from None
        if isinstance(operand, Literal):
            argument = np.asarray(operand.value)
            return _fold(lambda: float(of_scalar.real(argument)), location, f"argument of {kind.function}")
        out = self.output(operand.shape, location, goal, (operand,), aligned=True)
        self.emitter.emit(replace(of_scalar, out=out, a=operand))
        return out

    def argmax(self, operand: Real, location: Location, goal: Destination) -> Label:
        """The place of the largest element, in row-major order."""
        view = tensor(operand, location, "argument of argmax")
        out = self.emitter.temporary((), location, goal.name)
        self.emitter.emit(ir.ArgMax(out, location, view))
        return self._label(out, view, view.size)

    def sign(self, operand: Real, location: Location, goal: Destination) -> Label:
        """1 where the one element is positive, else 0."""
        if not isinstance(operand, View) or operand.size != 1:
            raise InputError.at(location, "argument of sgn", "a tensor of one element", describe(operand))
        out = self.emitter.temporary((), location, goal.name)
        self.emitter.emit(ir.Sign(out, location, operand))
        return self._label(out, operand, 2)

    def _label(self, out: View, seen: View, classes: int) -> Label:
        return Label(out, seen, classes, self.emitter.write_count(seen.variable), self.emitter.open_loops)

    def select(self, condition: Value, strict: bool, a: Value, b: Value, location: Location, goal: Destination) -> Real:
        """`condition >= 0 ? a : b`, or `>` when `strict`. Both branches are computed."""
        tested = real(condition, location, "condition")
        positive, negative = real(a, location, "branches of '?'"), real(b, location, "branches of '?'")
        if size_of(tested) != 1:
            raise InputError.at(location, "condition", "a scalar", describe(tested))
        if shape_of(positive) != shape_of(negative) and (size_of(positive), size_of(negative)) != (1, 1):
            _shapes_differ(positive, negative, "equal shapes", location, "branches of '?'")
        if isinstance(tested, Literal):
            holds = tested.value > 0 if strict else tested.value >= 0
            return positive if holds else negative
        shape = max(shape_of(positive), shape_of(negative), key=len)
        first, second = as_shape(positive, shape), as_shape(negative, shape)
        out = self.output(shape, location, goal, (tested, first, second), aligned=True)
        if out == goal.target and may_overlap(tested, out):
            out = self.emitter.temporary(shape, location)  # every element depends on the condition
        self.emitter.emit(ir.Select(out, location, View(tested.variable, (), (), tested.offset), first, second, strict))
        return out


def as_shape(value: Real, shape: tuple[int, ...]) -> Real:
    """A value of one element with another number of axes; anything else unchanged."""
    if isinstance(value, View) and value.shape != shape and value.size == 1:
        return reshaped(value, shape) or value
    return value


def _broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    if a == b:
        return a
    size_a, size_b = ir.count_elements(a), ir.count_elements(b)
    if size_a == 1 and size_b == 1:
        return max(a, b, key=len)
    if size_a == 1:
        return b
    return a if size_b == 1 else None


def _integer_arithmetic(operator: BinaryOperator, a: Integer, b: Integer, location: Location) -> Integer:
    """Sums, differences and products of integers, as far as they stay linear in the loop indices."""
    subject = f"operands of '{operator.value}'"
    if operator is BinaryOperator.ADD:
        return Integer(a.place + b.place)
    if operator is BinaryOperator.SUBTRACT:
        return Integer(a.place + scaled(b.place, -1))
    if operator is not BinaryOperator.MULTIPLY:
        raise InputError.at(location, subject, "real values", "two integers")
    if a.place.terms and b.place.terms:
        raise InputError.at(location, subject, "a constant on one side", "two integers that change with loops")
    varying, constant = (a, b) if a.place.terms else (b, a)
    return Integer(scaled(varying.place, constant.place.constant))


def _fold(compute: Callable[[], float], location: Location, subject: str) -> Literal:
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused below
            result = compute()
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise InputError.at(location, subject, "a finite result", "an overflow")
    return Literal(result)


def _shapes_differ(a: Real, b: Real, expected: str, location: Location, subject: str) -> NoReturn:
    found = f"{describe_shape(shape_of(a))} and {describe_shape(shape_of(b))}"
    raise InputError.at(location, subject, expected, found)
