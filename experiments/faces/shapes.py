"""Haar features as kernels: which of them are one shape, at another place of the window, mirrored or transposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.composition import FLIP, MIRROR, TRANSPOSE
from kilotune.codegen.scamp.kernel import Kernel
from kilotune.codegen.scamp.sums import Sum
from kilotune.experiments.faces.cascade import WeightedRectangle

FeatureWeights = tuple[tuple[int, ...], ...]
"""The weights of a feature as rows, north to south, in the smallest picture that holds them."""


@dataclass(frozen=True)
class PlacedShape:
    """A feature as a shape whose north-western corner lies at column `left` and row `top` of the window."""

    shape: FeatureWeights
    left: int
    top: int


def placed(feature: Sequence[WeightedRectangle]) -> PlacedShape:
    """The shape and place of a feature. Raises `ValueError` for one whose weights cancel everywhere."""
    weights: dict[tuple[int, int], int] = {}
    for box in feature:
        for row in range(box.top, box.top + box.height):
            for column in range(box.left, box.left + box.width):
                weights[row, column] = weights.get((row, column), 0) + box.weight
    cells = [cell for cell, weight in weights.items() if weight]
    if not cells:
        raise ValueError("a feature without a weight")
    top, left = min(row for row, _ in cells), min(column for _, column in cells)
    bottom, right = max(row for row, _ in cells), max(column for _, column in cells)
    rows = tuple(
        tuple(weights.get((row, column), 0) for column in range(left, right + 1)) for row in range(top, bottom + 1)
    )
    return PlacedShape(rows, left, top)


def kernel_sum(shape: FeatureWeights) -> Sum:
    """The shape with its middle (of an even number of columns the left one, of rows the lower one) at the pixel."""
    return Sum.of((cell, int(weight)) for cell, weight in Kernel.of_rows(shape).weights)


def symmetries(shape: FeatureWeights) -> tuple[tuple[FeatureWeights, tuple[Mapping[str, str], ...]], ...]:
    """The eight turned shapes, each with the renamings of directions that bring its plans back to the shape, in order."""
    upright = (shape, ()), (tuple(zip(*shape[::-1], strict=True))[::-1], (TRANSPOSE,))
    flipped = tuple((turning[::-1], (FLIP, *back)) for turning, back in upright)
    mirrored = tuple((tuple(row[::-1] for row in turning), (MIRROR, *back)) for turning, back in (*upright, *flipped))
    return (*upright, *flipped, *mirrored)
