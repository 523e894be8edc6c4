"""What every operation says of itself: its operands, the order in which it visits them, and how much it computes."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import ClassVar

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.ir.numbers import Constant, Constants, Numbers, T
from kilotune.codegen.ir.views import NOT_CONTENT, Literal, Location, Operand, View


class Order(enum.Enum):
    """In which order an operation reads its operands and writes its result.

    Results are written in row-major order whatever the order of reading. `straight_line`, `in_place` and `hazards` ask for
    nothing else, so an operation of an order that they do not know is refused instead of being taken for another one.
    """

    ELEMENTS = "elements"  # element n of every operand, then element n of the result; one of size 1 is read every time
    PRODUCTS = "products"  # row p of the first operand and column r of the second, then element (p, r)
    WINDOWS = "windows"  # all places under a window of the operand, then the element
    ROWS = "rows"  # a whole row along the last axis, then again each element of the row before it is written
    READS_FIRST = "reads first"  # everything, then the result


@dataclass(frozen=True)
class OperationBase:
    """An operation: `out` receives the result; `location` is the source expression."""

    out: View
    location: Location = field(metadata=NOT_CONTENT)

    order: ClassVar[Order]
    content_kind: ClassVar[str]
    """What fingerprints call it, once and for all: stored studies hang on it, whatever becomes of the class's name."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What is read, in the order of the fields."""
        items = self.__dict__.items()
        return tuple(value for name, value in items if name != "out" and isinstance(value, View | Literal))

    @property
    def work(self) -> tuple[int, int]:
        """Multiplications and additions at the accumulator's width, for one element of the result; with zeros of sparse matrices."""
        return 0, 0

    @property
    def steps(self) -> int:
        """How many steps of a straight line (`codegen.straight_line`) one execution is."""
        return 1


@dataclass(frozen=True)
class Pointwise(OperationBase):
    """One function of every element of `a`, written with sums, products, comparisons and divisions by powers of two.

    Whatever anybody needs to know of such a function is said by its class, in a module of `codegen/ir/pointwise`: adding one is
    adding a module, a line of C for the batch kernel (`evaluators/fixed_point/pointwise.h`) and a test. The result keeps the
    scale of `a`, so the function must not be larger than its argument in magnitude. Fields after `a` are constants of the
    program, with defaults; in the language they follow the operand.
    """

    a: View

    order = Order.ELEMENTS
    function: ClassVar[str | None] = None  # its name in the language; None: something else than a call makes it
    scales_along: ClassVar[bool] = False  # whether a positive factor of the argument is one of the result

    def __init_subclass__(cls) -> None:
        if cls.function is not None:
            cls.content_kind = cls.function

    def real(self, a: FloatArray) -> FloatArray:
        """The function itself, elementwise."""
        raise NotImplementedError(type(self).__name__)

    def real_c(self, a: str, literal: Callable[[float], str]) -> str:
        """Its C expression in floats; `a` is a variable, `literal` writes a constant."""
        raise NotImplementedError(type(self).__name__)

    def constants(self, bits: Constant, scale: Constant) -> Constants:
        """The integers that it needs, when `a` has so many bits (8, 16 or 32) and that scale."""
        return Constants()

    def integer(self, n: Numbers[T], a: T, constants: Constants) -> T:
        """The function in integers, at the scale of `a`."""
        raise NotImplementedError(type(self).__name__)

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """The fields that hold constants of the program."""
        return tuple(field.name for field in fields(cls)[len(fields(Pointwise)) :])
