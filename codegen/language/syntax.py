"""The syntax tree of a program in the SeeDot language.

Every node carries the location that an error about it should name: the operator for `a + b`, the bracket for
`e[i]`, else the first character.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, fields

from kilotune.codegen.ir import Location

RowsAndColumns = tuple[int, int]
Sides = tuple[int, int, int, int]  # top, bottom, left, right


class BinaryOperator(enum.Enum):
    """Operators between two expressions, as written."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    SPARSE_MULTIPLY = "|*|"
    HADAMARD = "<*>"
    CHANNEL_ADD = "<+>"
    CHANNEL_SUBTRACT = "<->"
    CONVOLVE = "#"


@dataclass(frozen=True)
class Expression:
    """Base of all expressions."""

    location: Location


@dataclass(frozen=True)
class Number(Expression):
    """`0.5` or, with `integer`, `3`."""

    value: float
    integer: bool


@dataclass(frozen=True)
class Name(Expression):
    """A use of a name bound by `let`, or of a loop's index."""

    name: str


@dataclass(frozen=True)
class Shape(Expression):
    """`(10, 64)`: part of a declaration, no value by itself."""

    extents: tuple[int, ...]


@dataclass(frozen=True)
class Declaration(Expression):
    """`(10, 64) in [-1.0, 1.0]`: a parameter, or the input."""

    shape: tuple[int, ...]
    low: float
    high: float


@dataclass(frozen=True)
class Init(Expression):
    """`init([1, 16], 0.0)`."""

    shape: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class Transpose(Expression):
    """`operand^T`."""

    operand: Expression


@dataclass(frozen=True)
class Reshape(Expression):
    """`reshape(operand, shape, order)`; `order` counts the operand's axes from 1, None is their own order."""

    operand: Expression
    shape: tuple[int, ...]
    order: tuple[int, ...] | None


@dataclass(frozen=True)
class Span:
    """`[start:+length]`."""

    location: Location
    start: Expression
    length: int


@dataclass(frozen=True)
class Slice(Expression):
    """`operand[a:+n][b:+m]`, one span for each axis."""

    operand: Expression
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Index(Expression):
    """`operand[index]`."""

    operand: Expression
    index: Expression


@dataclass(frozen=True)
class MaxPoolExpression(Expression):
    """`maxpool(operand, {k ..}, {p ..}, {s ..})`; `maxpool(operand, n)` is one of n x n blocks."""

    operand: Expression
    kernel: RowsAndColumns
    padding: Sides
    stride: RowsAndColumns


@dataclass(frozen=True)
class ConvolutionExpression(Expression):
    """`conv2d(operand, filters, {s ..}, {p ..}, {d ..}, {g ..})`."""

    operand: Expression
    filters: Expression
    stride: RowsAndColumns
    padding: Sides
    dilation: RowsAndColumns
    groups: int


@dataclass(frozen=True)
class ConvolutionStage:
    """`[filters, scale, bias]` of an inverted bottleneck."""

    filters: Expression
    scale: Expression
    bias: Expression


@dataclass(frozen=True)
class BottleneckExpression(Expression):
    """`mbconv(operand, [F1, W1, B1], [F2, W2, B2], [F3, W3, B3], {s ..}, {p ..})`."""

    operand: Expression
    expand: ConvolutionStage
    depthwise: ConvolutionStage
    project: ConvolutionStage
    stride: RowsAndColumns
    padding: Sides


@dataclass(frozen=True)
class Reverse(Expression):
    """`reverse(operand, axis)`; axes count from 0."""

    operand: Expression
    axis: int


@dataclass(frozen=True)
class CallExpression(Expression):
    """`function(arguments)`: relu, exp, argmax, ..."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class UnaryExpression(Expression):
    """`-operand`, or `+operand` when not `negative`."""

    negative: bool
    operand: Expression


@dataclass(frozen=True)
class BinaryExpression(Expression):
    """`left operator right`."""

    operator: BinaryOperator
    left: Expression
    right: Expression


@dataclass(frozen=True)
class SumExpression(Expression):
    """`$(index = [start:stop]) body`; `stop` is excluded."""

    index: str
    start: int
    stop: int
    body: Expression


@dataclass(frozen=True)
class LoopExpression(Expression):
    """`loop(index = [start:stop], carried) body`; `stop` is excluded."""

    index: str
    start: int
    stop: int
    carried: Name
    body: Expression


@dataclass(frozen=True)
class ConditionalExpression(Expression):
    """`condition >= 0 ? positive : negative`; `>` when `strict`."""

    condition: Expression
    strict: bool
    positive: Expression
    negative: Expression


@dataclass(frozen=True)
class LetExpression(Expression):
    """`let name = value in body`, or with `spans` an assignment to a slice of `name`."""

    name: str
    spans: tuple[Span, ...]
    value: Expression
    body: Expression


def parts(node: Expression) -> Iterator[Expression]:
    """The expressions directly inside a node, in the order in which they are evaluated."""
    for field in fields(node):
        yield from _expressions(getattr(node, field.name))


def _expressions(value: object) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, Span):
        yield value.start
    elif isinstance(value, ConvolutionStage):
        yield from (value.filters, value.scale, value.bias)
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions(item)
