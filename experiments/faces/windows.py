"""A cascade's decisions on every window of an image, and feature values from the integral image (the reference).

Arrays over windows are [rows - height + 1, columns - width + 1]: the entry is the window's north-western pixel. The decisions follow
OpenCV's arithmetic operation by operation: features are exact integers, everything else is single precision but for the sum
of the votes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import BoolArray
from kilotune.experiments.faces.cascade import Cascade, Stump, WeightedRectangle

Image = npt.NDArray[np.uint8]
FeatureValues = Callable[[int], npt.NDArray[np.float64]]
"""By feature number: its weighted sum over every window, in grey levels."""

LEAST_DEVIATION = 10.0
"""OpenCV rejects windows whose grey levels deviate less than this before the first stage."""


def integral(image: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Sums of all pixels above and to the left, one row and column more than the image."""
    pixels = np.asarray(image, dtype=np.int64)
    return np.pad(pixels.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))


def box_sums(sums: npt.NDArray[np.int64], box: WeightedRectangle, size: tuple[int, int]) -> npt.NDArray[np.int64]:
    """The pixels of a rectangle (its weight left out) added up in every window of `size` (rows, columns)."""
    rows, columns = sums.shape[0] - size[0], sums.shape[1] - size[1]
    corners = [
        sums[top : top + rows, left : left + columns]
        for top in (box.top, box.top + box.height)
        for left in (box.left, box.left + box.width)
    ]
    return corners[3] - corners[2] - corners[1] + corners[0]


def reference_values(cascade: Cascade, image: Image) -> FeatureValues:
    """Feature values by the integral image (Viola and Jones, Section 2.1)."""
    sums, size = integral(image), (cascade.height, cascade.width)

    def values(number: int) -> npt.NDArray[np.float64]:
        parts = [box.weight * box_sums(sums, box, size) for box in cascade.features[number]]
        return np.asarray(np.sum(parts, axis=0), dtype=np.float64)

    return values


def normalisation(cascade: Cascade, image: Image) -> tuple[npt.NDArray[np.float32], BoolArray]:
    """What feature values are multiplied by, one over area times deviation of the window without its border, and which
    windows deviate enough to be looked at."""
    inner = WeightedRectangle(1, 1, cascade.width - 2, cascade.height - 2, 1)
    size = (cascade.height, cascade.width)
    area = float(inner.width * inner.height)
    total = box_sums(integral(image), inner, size).astype(np.float64)
    squares = box_sums(integral(np.square(image.astype(np.int64))), inner, size).astype(np.float64)
    spread = area * squares - total * total
    factor = (1.0 / np.sqrt(np.where(spread > 0, spread, 1.0))).astype(np.float32)
    eligible = (spread > 0) & (np.float32(area) * factor < 1.0 / LEAST_DEVIATION)
    return factor, eligible


def passing(cascade: Cascade, image: Image, values: FeatureValues, stages: int | None = None) -> Iterator[BoolArray]:
    """The windows that stand at the start, then after every stage. Ends early when none is left."""
    factor, alive = normalisation(cascade, image)
    yield alive
    for stage in cascade.stages[:stages]:
        votes = np.zeros(alive.shape)
        for stump in stage.stumps:
            votes += vote(stump, values(stump.feature).astype(np.float32) * factor)
        alive = alive & (votes >= stage.threshold)
        yield alive
        if not alive.any():
            return


def vote(stump: Stump, value: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """What a stump says to the normalised feature in every window."""
    return np.where(value < stump.threshold, stump.below, stump.above).astype(np.float64)


def visited(stands: Sequence[BoolArray], step: int) -> BoolArray:
    """The windows that OpenCV looks at: every `step`th in both directions, and it leaves one more out behind each that
    the first stage rejects. `stands` are the masks of `passing`."""
    start, first = stands[0], stands[1]
    looked = np.zeros(start.shape, dtype=np.bool_)
    for row in range(0, start.shape[0], step):
        column = 0
        while column < start.shape[1]:
            looked[row, column] = True
            column += step
            if start[row, column - step] and not first[row, column - step]:
                column += step
    return looked
