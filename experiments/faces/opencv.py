"""OpenCV's own detector on the same image: its scales, its shrunken images, and the windows that it passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import BoolArray
from kilotune.experiments.faces.cascade import Cascade
from kilotune.experiments.faces.windows import Image, visited

Box = tuple[int, int, int, int]
"""Left, top, width and height in pixels of the image."""


@dataclass(frozen=True)
class Scale:
    """`factor`: how many pixels of the image one of the window's stands for; `step`: how far OpenCV's windows are apart."""

    factor: np.float32
    image: Image

    @property
    def step(self) -> int:
        return 1 if self.factor >= 2 else 2


def pyramid(image: Image, cascade: Cascade, ratio: float) -> tuple[Scale, ...]:
    """The image as OpenCV shrinks it, each scale `ratio` times smaller, until the window does not fit."""
    import cv2

    scales, factor = [], 1.0
    while min(image.shape) >= max(round(cascade.height * factor), round(cascade.width * factor)):
        single = np.float32(factor)
        rows, columns = (round(float(np.float32(length) / single)) for length in image.shape)
        shrunk = cv2.resize(image, (columns, rows), interpolation=cv2.INTER_LINEAR_EXACT)
        scales.append(Scale(single, np.asarray(shrunk, dtype=np.uint8)))
        factor *= ratio
    return tuple(scales)


def passed_boxes(scale: Scale, stands: Sequence[BoolArray], cascade: Cascade) -> set[Box]:
    """The windows of the last mask that OpenCV would have looked at, where it would have reported them."""
    if len(stands) <= len(cascade.stages):
        return set()
    rows, columns = np.nonzero(stands[-1] & visited(stands, scale.step))
    size = (
        round(float(np.float32(cascade.width) * scale.factor)),
        round(float(np.float32(cascade.height) * scale.factor)),
    )
    return {
        (round(float(np.float32(column) * scale.factor)), round(float(np.float32(row) * scale.factor)), *size)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    }


def opencv_boxes(path: Path, image: Image, ratio: float, neighbours: int = 0) -> set[Box]:
    """What `detectMultiScale` finds; without neighbours, every window that passes all stages."""
    import cv2

    found = cv2.CascadeClassifier(str(path)).detectMultiScale(image, scaleFactor=ratio, minNeighbors=neighbours)
    return {(int(left), int(top), int(width), int(height)) for left, top, width, height in found}
