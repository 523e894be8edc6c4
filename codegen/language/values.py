"""What an expression stands for while a program is elaborated, and how messages speak of it."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.codegen.ir import Affine, Literal, View


@dataclass(frozen=True)
class Integer:
    """An integer known up to the loop indices: `3`, `i`, `4*i + 1`. It selects elements, or, constant, is a number."""

    place: Affine


@dataclass(frozen=True)
class Label:
    """The integer that `argmax` or `sgn` computed: `view` is the scalar that holds it, `seen` what it was computed of.

    `writes` (to the variable of `seen`) and `loops` say when and where that was. It is below `classes`.
    """

    view: View
    seen: View
    classes: int
    writes: int
    loops: tuple[str, ...]


Real = View | Literal
Value = Real | Integer | Label


def describe_shape(shape: tuple[int, ...]) -> str:
    """`(10, 64)` as the language writes it, `a scalar` for the empty shape."""
    return f"({', '.join(map(str, shape))})" if shape else "a scalar"


def describe(value: Value) -> str:
    """A value in words, for messages."""
    match value:
        case Literal():
            return f"the number {value.value:g}"
        case View():
            return f"shape {describe_shape(value.shape)}" if value.shape else "a scalar"
        case Label():
            return "the label that argmax or sgn returns"
        case Integer(place) if not place.terms:
            return f"the integer {place.constant}"
        case _:
            return "an integer that changes with the loop"


def shape_of(value: Real) -> tuple[int, ...]:
    """The shape of a real value; a number is a scalar."""
    return value.shape if isinstance(value, View) else ()


def size_of(value: Real) -> int:
    """The number of elements of a real value."""
    return value.size if isinstance(value, View) else 1
