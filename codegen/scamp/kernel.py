"""Convolution kernels and their approximation in canonical signed digits (AUKE Section 2.1).

A kernel of n columns and m rows is read as a picture: the first row is the northern one. Its centre, the cell (0, 0), is the
middle; of an even number of columns it is the left one of the two middle ones, of an even number of rows the lower
one, so that x runs from -(n-2)/2 to n/2 and y from -(m-2)/2 to m/2 (the set R of Section 2.1.2). The result at a
pixel is the sum over the cells of weight times the pixel at that cell (Equation 4: a correlation, not mirrored).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kilotune.codegen.scamp.sums import Cell, Sum

MAXIMUM_DEPTH = 24
"""Weights finer than `2**-24` of a pixel mean nothing on an analogue chip, and sums must fit machine words."""


@dataclass(frozen=True)
class Kernel:
    """Exact weights by cell; cells that are not there weigh zero. `rows` and `columns` are those of the picture."""

    weights: tuple[tuple[Cell, Fraction], ...]
    rows: int
    columns: int

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int | float | Fraction]]) -> Kernel:
        """From rows, north to south. Raises `ValueError` for no or ragged rows and for weights that are not finite."""
        height, width = len(rows), len(rows[0]) if rows else 0
        if not height or not width:
            raise ValueError("a kernel needs at least one weight")
        if any(len(row) != width for row in rows):
            raise ValueError("the rows of a kernel must be of equal length")
        weights: dict[Cell, Fraction] = {}
        for down, row in enumerate(rows):
            for across, weight in enumerate(row):
                if not isinstance(weight, (int, Fraction)) and not math.isfinite(weight):
                    raise ValueError(f"the weight {weight} is not finite")
                if weight:
                    weights[across - (width - 1) // 2, height // 2 - down] = Fraction(weight)
        return cls(tuple(sorted(weights.items())), height, width)

    @classmethod
    def of_sum(cls, total: Sum, depth: int) -> Kernel:
        """The kernel that a sum in units of `2**-depth` computes, in the smallest picture that holds it."""
        weights = tuple((cell, Fraction(weight, 1 << depth)) for cell, weight in total.terms)
        west, south, east, north = total.box if total else (0, 0, 0, 0)
        rows, columns = _extent(south, north), _extent(west, east)
        return cls(weights, rows, columns)

    def picture(self) -> tuple[tuple[Fraction, ...], ...]:
        """The weights as rows, north to south, zeros included."""
        by_cell = dict(self.weights)
        return tuple(
            tuple(
                by_cell.get((across - (self.columns - 1) // 2, self.rows // 2 - down), Fraction(0))
                for across in range(self.columns)
            )
            for down in range(self.rows)
        )

    def moved(self, by: Cell) -> Kernel:
        """All weights moved by `(x, y)`: the kernel of the pixel there."""
        return replace(self, weights=tuple(((x + by[0], y + by[1]), weight) for (x, y), weight in self.weights))

    def exact_depth(self) -> int | None:
        """The least depth that represents every weight; None when a weight is no sum of halves."""
        depth = 0
        for _, weight in self.weights:
            power = weight.denominator.bit_length() - 1
            if weight.denominator != 1 << power:
                return None
            depth = max(depth, power)
        return depth


@dataclass(frozen=True)
class Approximation:
    """A kernel in units of `2**-depth`, and what every approximated weight differs by from the wanted one."""

    total: Sum
    depth: int
    errors: Mapping[Cell, Fraction]

    @property
    def largest_error(self) -> Fraction:
        """The largest absolute difference of a weight."""
        return max((abs(error) for error in self.errors.values()), default=Fraction(0))


def signed_digits(weight: Fraction | float, depth: int) -> tuple[tuple[int, int], ...]:
    """The canonical signed digits of a weight, truncated at depth: pairs (d, sign) that stand for `sign * 2**-d`.

    Most significant first; no two are neighbours (Equation 1; Example 1: 0.6 at depth 3 is 2**-1 + 2**-3). Their sum is
    the multiple of `2**-depth` nearest to the weight, of two equally near ones the even one.
    """
    count, digits, power = round(Fraction(weight) * (1 << depth)), [], 0
    while count:
        if count & 1:
            sign = 2 - (count & 3)
            digits.append((depth - power, sign))
            count -= sign
        count >>= 1
        power += 1
    return tuple(reversed(digits))


def approximate(kernel: Kernel, depth: int) -> Approximation:
    """The kernel in canonical signed digits to `2**-depth`; nothing is clipped, large weights take more digits.

    Raises `ValueError` for a depth below 0 or above `MAXIMUM_DEPTH`.
    """
    if not 0 <= depth <= MAXIMUM_DEPTH:
        raise ValueError(f"a depth must lie between 0 and {MAXIMUM_DEPTH}, not at {depth}")
    counts: dict[Cell, int] = {}
    errors: dict[Cell, Fraction] = {}
    for cell, weight in kernel.weights:
        counts[cell] = sum(sign << (depth - d) for d, sign in signed_digits(weight, depth))
        error = Fraction(counts[cell], 1 << depth) - weight
        if error:
            errors[cell] = error
    return Approximation(Sum.of(counts), depth, errors)  # a plain dict: workers are sent it


@dataclass(frozen=True)
class KernelSet:
    """Kernels that one program computes from one image: a set of final sums."""

    kernels: tuple[Kernel, ...]

    def exact_depth(self) -> int | None:
        """The least depth at which all kernels are exact; None when there is none."""
        depths = [kernel.exact_depth() for kernel in self.kernels]
        return None if any(depth is None for depth in depths) else max((d for d in depths if d is not None), default=0)

    def approximate(self, depth: int) -> ApproximatedSet:
        """All kernels at one depth. Raises as `approximate`."""
        return ApproximatedSet(depth, tuple(approximate(kernel, depth) for kernel in self.kernels))


@dataclass(frozen=True)
class ApproximatedSet:
    """Kernels at one depth: what a program has to compute.

    `position`: an element holds every kernel's result at the pixel that is `(x, y)` from it, x to the east and y to the north.
    """

    depth: int
    approximations: tuple[Approximation, ...]
    position: Cell = (0, 0)

    @property
    def sums(self) -> tuple[Sum, ...]:
        """The final sums in units of `2**-depth` (Definition 3), one a kernel."""
        return tuple(approximation.total.shifted(self.position) for approximation in self.approximations)

    def at(self, position: Cell) -> ApproximatedSet:
        """These kernels with results at another position."""
        return replace(self, position=position)

    @property
    def largest_error(self) -> Fraction:
        return max((approximation.largest_error for approximation in self.approximations), default=Fraction(0))

    def reduced(self) -> ApproximatedSet:
        """These kernels at the least depth that holds them exactly: smaller counts, equal programs."""
        every = math.gcd(1 << self.depth, *(weight for total in self.sums for _, weight in total.terms))
        depth = self.depth - (every.bit_length() - 1)
        parts = tuple(
            Approximation(Sum.of((cell, weight // every) for cell, weight in a.total.terms), depth, a.errors)
            for a in self.approximations
        )
        return replace(self, depth=depth, approximations=parts)


def _extent(low: int, high: int) -> int:
    """The least count of rows (or columns) whose cells reach from low to high; see the module's text on centres."""
    count = 1
    while not (-((count - 1) // 2) <= low and high <= count // 2):
        count += 1
    return count
