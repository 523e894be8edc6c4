"""Real images for a network, from an .npz file: some to calibrate on, the others to see what the integers cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.graph import TensorShape
from kilotune.experiments.problems.labelled_images import read_images, read_labels

CALIBRATION_IMAGES = 64
"""By default; no more than half of those that there are."""


@dataclass(frozen=True, eq=False)
class ImageData:
    """images: float32 [images, channels, height, width], in the order in which they are used; labels: [images], or None.
    calibration: how many of them, the first, are for calibration."""

    images: Array
    labels: Array | None
    calibration: int

    @property
    def seen(self) -> Array:
        """Those for calibration."""
        return self.images[: self.calibration]

    @property
    def unseen(self) -> tuple[Array, Array | None]:
        """The others, with their labels."""
        return self.images[self.calibration :], None if self.labels is None else self.labels[self.calibration :]


def load_images(path: Path, shape: TensorShape, calibration: int | None, classes: int | None = None) -> ImageData:
    """The images of a file, as values of the network's input; its arrays are called `images` (or X) and `labels` (or y).

    Images are [images, channels, height, width], [images, height, width, channels], [images, height, width] or
    [images, elements], sequences also [images, channels, length]; which of them are for calibration is drawn once for all. InputError
    for a file or a shape that does not fit the network's input `shape`, when fewer than one image is left for comparing, and for labels
    that are none of the network's `classes` (None: how many it has is not known).
    """
    found, raw = read_images(path)
    images = _in_order(raw, shape, path, found)
    if len(images) < 2:
        raise InputError(str(path), subject=f"array {found}", expected="at least 2 images", found=str(len(images)))
    labels = read_labels(path, len(images), classes)
    count = min(CALIBRATION_IMAGES, len(images) // 2) if calibration is None else calibration
    if not 1 <= count < len(images):
        expected = f"from 1 to {len(images) - 1} images for calibration, so that some are left to compare on"
        raise InputError(str(path), expected=expected, found=str(count))
    order = np.random.default_rng(0).permutation(len(images))
    return ImageData(images[order].astype(np.float32), None if labels is None else labels[order], count)


def _in_order(raw: Array, shape: TensorShape, path: Path, name: str) -> Array:
    channels, high, wide = shape
    inner = raw.shape[1:]
    sequences = high == 1 and inner == (channels, wide)
    if inner == shape or inner == (math.prod(shape),) or sequences or (channels == 1 and inner == (high, wide)):
        return raw.reshape(-1, *shape)
    if inner == (high, wide, channels):
        return np.moveaxis(raw, 3, 1)
    expected = f"images of {channels}x{high}x{wide}, as the network's input"
    found = "x".join(map(str, inner)) or "numbers"
    raise InputError(str(path), subject=f"array {name}", expected=expected, found=found)
