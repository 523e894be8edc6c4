"""Sums of shifted pixels: what a register of every processing element holds (AUKE Section 2.2, the SOPVR multiset).

A cell `(x, y)` is a pixel x to the east (right) and y to the north (up) of the processing element; a weight counts
parts of `2**-depth` of that pixel. Reading from a neighbour is a shift of all cells: a register that takes the value
of its *eastern* neighbour has its cells moved by (1, 0) (AUKE Section 2.2.2, Example 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

Cell = tuple[int, int]

DIRECTIONS: Mapping[str, Cell] = MappingProxyType({"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)})
"""What a read from the neighbour in that direction adds to every cell."""


class InexactHalfError(ArithmeticError):
    """A weight is odd: its half is no multiple of `2**-depth`."""


@dataclass(frozen=True, slots=True)
class Sum:
    """A multiset of shifted pixels: `terms` are `(cell, weight)`, sorted by cell, no weight zero."""

    terms: tuple[tuple[Cell, int], ...] = ()

    @classmethod
    def of(cls, weights: Mapping[Cell, int] | Iterable[tuple[Cell, int]]) -> Sum:
        """From weights by cell; repeated cells add up, zeros go."""
        gathered: dict[Cell, int] = {}
        pairs = weights.items() if isinstance(weights, Mapping) else weights
        for cell, weight in pairs:
            gathered[cell] = gathered.get(cell, 0) + weight
        return cls(tuple(sorted((cell, weight) for cell, weight in gathered.items() if weight)))

    @classmethod
    def image(cls, depth: int) -> Sum:
        """The input image in parts of `2**-depth` (Definition 4, the initial sum)."""
        return cls((((0, 0), 1 << depth),))

    def __iter__(self) -> Iterator[tuple[Cell, int]]:
        return iter(self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __add__(self, other: Sum) -> Sum:
        return Sum.of(self.terms + other.terms)

    def __sub__(self, other: Sum) -> Sum:
        return Sum.of(self.terms + tuple((cell, -weight) for cell, weight in other.terms))

    def __neg__(self) -> Sum:
        return Sum(tuple((cell, -weight) for cell, weight in self.terms))

    def scaled(self, factor: int) -> Sum:
        """Every weight times an integer."""
        return Sum(tuple((cell, weight * factor) for cell, weight in self.terms)) if factor else Sum()

    def shifted(self, by: Cell) -> Sum:
        """All cells moved by `(x, y)`: the value of the neighbour in that direction."""
        return Sum(tuple(((x + by[0], y + by[1]), weight) for (x, y), weight in self.terms))

    def halved(self) -> Sum:
        """Every weight halved. Raises `InexactHalfError` when one is odd."""
        if any(weight & 1 for _, weight in self.terms):
            raise InexactHalfError("an odd weight has no half at this depth")
        return Sum(tuple((cell, weight // 2) for cell, weight in self.terms))

    def weight(self, cell: Cell) -> int:
        """The weight of a cell, 0 where there is none."""
        return next((weight for at, weight in self.terms if at == cell), 0)

    def weights(self) -> dict[Cell, int]:
        """A new dictionary of the weights by cell."""
        return dict(self.terms)

    @property
    def cardinality(self) -> int:
        """The sum of the absolute weights (`card` of the paper)."""
        return sum(abs(weight) for _, weight in self.terms)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The least x, least y, greatest x and greatest y of the support. Raises `ValueError` for the empty sum."""
        xs, ys = [x for (x, _), _ in self.terms], [y for (_, y), _ in self.terms]
        return min(xs), min(ys), max(xs), max(ys)
