"""The typed intermediate representation: what a program over the Reals is, before any decision about integers.

A `Program` is a list of statements in static single storage: every operation writes the elements that one
`View` selects of one `Variable`. Reshaping, transposing, slicing and reversing move no data; they make another
view of the same variable. So each variable is real storage with one bitwidth, one scale and one live range,
and nothing else has any.

Shapes are tuples of positive ints; a scalar is the empty tuple. Element order is row-major.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass


class Role(enum.Enum):
    """Where a variable's elements come from."""

    INPUT = "input"  # the features of the sample; read-only
    PARAMETER = "parameter"  # trained weights; read-only, in flash
    TEMPORARY = "temporary"  # written by the program, in RAM


class ResultKind(enum.Enum):
    """What the program returns."""

    CLASS = "class"  # an integer label (argmax or sgn)
    REAL = "real"  # the elements of a tensor: a numerical (regression) model


@dataclass(frozen=True)
class Location:
    """A place in a source file; line and column count from 1."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Variable:
    """Named storage. `declared_range` is the `in [low, high]` of the source, for information only."""

    name: str
    shape: tuple[int, ...]
    role: Role
    location: Location
    declared_range: tuple[float, float] | None = None
    sparse: bool = False  # stored as non-zero values and their positions (SeeDot Section 5.1); parameters only

    @property
    def size(self) -> int:
        """Number of elements."""
        return count_elements(self.shape)


@dataclass(frozen=True)
class Affine:
    """`constant + sum(factor * loop index)`: an element offset that may move with the enclosing loops."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()  # (loop index name, factor), sorted by name, no zero factor

    def at(self, indices: dict[str, int]) -> int:
        """The value when the loop indices have the values of `indices`."""
        return self.constant + sum(factor * indices[name] for name, factor in self.terms)

    def __add__(self, other: Affine) -> Affine:
        factors = dict(self.terms)
        for name, factor in other.terms:
            factors[name] = factors.get(name, 0) + factor
        terms = tuple(sorted((name, factor) for name, factor in factors.items() if factor))
        return Affine(self.constant + other.constant, terms)


@dataclass(frozen=True)
class View:
    """Elements `offset + sum(index[d] * strides[d])` of a variable, for every index below `shape`."""

    variable: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: Affine = Affine()

    @property
    def size(self) -> int:
        """Number of elements selected."""
        return count_elements(self.shape)


@dataclass(frozen=True)
class Literal:
    """A scalar constant of the program, folded at compile time. It takes the bitwidth of the operand it meets."""

    value: float


Operand = View | Literal


@dataclass(frozen=True)
class Operation:
    """Base of all operations: `out` receives the result; `location` is the source expression."""

    out: View
    location: Location

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What is read, in the order of the fields."""
        fields = self.__dict__.items()
        return tuple(value for name, value in fields if name != "out" and isinstance(value, View | Literal))


@dataclass(frozen=True)
class Fill(Operation):
    """Every element of `out` becomes `value` (`init`)."""

    value: float


@dataclass(frozen=True)
class Copy(Operation):
    """Elementwise copy of `a`, of the shape of `out` (writing a slice, or the last step of a recurrence)."""

    a: View


@dataclass(frozen=True)
class Add(Operation):
    """Elementwise `a + b`; an operand of size 1 is broadcast, otherwise shapes are equal."""

    a: Operand
    b: Operand


@dataclass(frozen=True)
class Subtract(Operation):
    """Elementwise `a - b`; broadcasting as in `Add`."""

    a: Operand
    b: Operand


@dataclass(frozen=True)
class Multiply(Operation):
    """Elementwise (Hadamard) product; broadcasting as in `Add`, so scalar times matrix too."""

    a: Operand
    b: Operand


@dataclass(frozen=True)
class MatMul(Operation):
    """`(P, Q) x (Q, R) -> (P, R)`. `sparse` marks the source operator `|*|` (SeeDot's `x`), whatever the storage."""

    a: View
    b: View
    sparse: bool = False


@dataclass(frozen=True)
class Conv2D(Operation):
    """`a` (N, H, W, Cin) with `b` (G, kH, kW, Cin/G, Cout/G) -> (N, H', W', Cout).

    Output channels are ordered by group. `padding` is (top, bottom, left, right), zeros.
    """

    a: View
    b: View
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1


@dataclass(frozen=True)
class MaxPool(Operation):
    """`a` (N, H, W, C) -> (N, H', W', C). Padded places never win."""

    a: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True)
class Negate(Operation):
    """Elementwise `-a`."""

    a: View


@dataclass(frozen=True)
class Relu(Operation):
    """Elementwise `max(a, 0)`."""

    a: View


@dataclass(frozen=True)
class Relu6(Operation):
    """Elementwise `min(max(a, 0), 6)`."""

    a: View


@dataclass(frozen=True)
class Exp(Operation):
    """Elementwise `e ** a`."""

    a: View


@dataclass(frozen=True)
class Sigmoid(Operation):
    """Elementwise `1 / (1 + e ** -a)`."""

    a: View


@dataclass(frozen=True)
class Tanh(Operation):
    """Elementwise hyperbolic tangent."""

    a: View


@dataclass(frozen=True)
class NormaliseL2(Operation):
    """`a / sqrt(sum(a ** 2))` along the last axis; a row of zeros stays zero."""

    a: View


@dataclass(frozen=True)
class Select(Operation):
    """`a` where the scalar `condition >= 0` (`> 0` when `strict`), else `b`; `a` and `b` of the shape of `out`."""

    condition: View
    a: Operand
    b: Operand
    strict: bool = False


@dataclass(frozen=True)
class ArgMax(Operation):
    """Index of the first largest element of `a` in row-major order; `out` is a scalar integer."""

    a: View


@dataclass(frozen=True)
class Sign(Operation):
    """`1` where `a > 0`, else `0`; `out` is a scalar integer (the label of a binary classifier, `sgn`)."""

    a: View


@dataclass(frozen=True)
class Loop:
    """`body` once for each value start, start+1, ..., start+count-1 of `index` (names unique in the program)."""

    index: str
    start: int
    count: int
    body: tuple[Statement, ...]
    location: Location


Statement = Operation | Loop

INTEGER_RESULTS = (ArgMax, Sign)
"""Operations whose output is an exact integer, with no scale."""


@dataclass(frozen=True)
class Program:
    """A whole program. `result` is what it returns; for ResultKind.CLASS a scalar written by ArgMax or Sign."""

    name: str
    variables: tuple[Variable, ...]
    body: tuple[Statement, ...]
    result: View
    result_kind: ResultKind

    def variable(self, name: str) -> Variable:
        """The variable of that name; KeyError when there is none."""
        for candidate in self.variables:
            if candidate.name == name:
                return candidate
        raise KeyError(name)

    @property
    def input(self) -> Variable | None:
        """The features `X`, or None for a program that has only constants."""
        return next((v for v in self.variables if v.role is Role.INPUT), None)


def count_elements(shape: tuple[int, ...]) -> int:
    """Product of the extents; 1 for a scalar."""
    size = 1
    for extent in shape:
        size *= extent
    return size


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous tensor of that shape."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def whole(variable: Variable) -> View:
    """The view of all elements of a variable."""
    return View(variable.name, variable.shape, row_major_strides(variable.shape))


def operations(body: tuple[Statement, ...]) -> Iterator[Operation]:
    """Every operation of a body in program order, loop bodies once."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from operations(statement.body)
        else:
            yield statement


def label_variables(program: Program) -> frozenset[str]:
    """Variables that hold labels: exact integers, which no bitwidth or scale is decided for."""
    return frozenset(o.out.variable for o in operations(program.body) if isinstance(o, INTEGER_RESULTS))


def used_variables(program: Program) -> frozenset[str]:
    """Variables that some operation reads or writes, or that the program returns."""
    views = [program.result]
    for operation in operations(program.body):
        views += [operation.out, *(operand for operand in operation.operands if isinstance(operand, View))]
    return frozenset(view.variable for view in views)
