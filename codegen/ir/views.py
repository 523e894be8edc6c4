"""Storage and what selects its elements: variables, views, literals, and offsets that move with loops.

Shapes are tuples of positive ints; a scalar is the empty tuple. Element order is row-major.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOT_CONTENT: Mapping[str, Any] = {"content": False}
"""Metadata of a field that does not change what a program computes: no fingerprint (`kilotune.search.fingerprint`) has it."""

ABSENT_AS_NONE: Mapping[str, Any] = {"content_absent_as": None}
ABSENT_AS_ZERO: Mapping[str, Any] = {"content_absent_as": 0}
"""Metadata of fields that came later: no fingerprint has them while they have the value that stands for what was before."""


class Role(enum.Enum):
    """Where a variable's elements come from."""

    INPUT = "input"  # the features of the sample; read-only
    PARAMETER = "parameter"  # trained weights; read-only, in flash
    TEMPORARY = "temporary"  # written by the program, in RAM


@dataclass(frozen=True)
class Location:
    """A place in a source file: line and column, which count from 1, or, in a file without lines, a `place` in words."""

    path: str
    line: int
    column: int
    place: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.place is None else f"{self.path}: {self.place}"


@dataclass(frozen=True)
class Variable:
    """Named storage. `declared_range` is the `in [low, high]` of the source, for information only."""

    name: str
    shape: tuple[int, ...]
    role: Role
    location: Location = field(metadata=NOT_CONTENT)
    declared_range: tuple[float, float] | None = field(default=None, metadata=NOT_CONTENT)
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
