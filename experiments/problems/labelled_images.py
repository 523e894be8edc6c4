"""Images with labels from an `.npz` file: the arrays are called images (or X) and labels (or y)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen.array_files import array_names, check_finite, read_array
from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError

IMAGE_NAMES, LABEL_NAMES = ("images", "X", "x"), ("labels", "y")


def read_images(path: Path) -> tuple[str, Array]:
    """The array of images, with its name. InputError for a file without one, and for fewer than two images."""
    names = array_names(path)
    found = next((name for name in IMAGE_NAMES if name in names), None)
    if found is None:
        shown = ", ".join(sorted(names)) or "none"
        raise InputError(str(path), subject="arrays", expected="one called images or X", found=shown)
    raw = read_array(path, found)
    check_finite(raw, path)
    return found, raw


def read_labels(path: Path, images: int, classes: int | None = None) -> npt.NDArray[np.int64] | None:
    """A class for each image; None where the file has none. InputError for another number of them, for numbers that are no classes, and for
    those that are none of the `classes` that a network tells apart, counted from 0."""
    name = next((name for name in LABEL_NAMES if name in array_names(path)), None)
    if name is None:
        return None
    labels = read_array(path, name).reshape(-1)
    if len(labels) != images or (labels != np.floor(labels)).any():
        found = f"{len(labels)}" if len(labels) != images else "numbers that are no classes"
        raise InputError(str(path), subject=f"array {name}", expected=f"{images} classes, one an image", found=found)
    if classes is not None and ((labels < 0) | (labels >= classes)).any():
        expected = f"classes from 0 to {classes - 1}, as the network has them"
        found = f"classes from {labels.min():g} to {labels.max():g}"
        raise InputError(str(path), subject=f"array {name}", expected=expected, found=found)
    return labels.astype(np.int64)


def read_labelled_images(path: Path, side: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Square grey images [images, side, side], and their classes. InputError as the two above, and for another shape or no labels."""
    name, raw = read_images(path)
    if raw.ndim < 2 or raw[0].size != side * side or not len(raw):
        found = "x".join(map(str, raw.shape))
        raise InputError(str(path), subject=f"array {name}", expected=f"images of {side}x{side}", found=found)
    labels = read_labels(path, len(raw))
    if labels is None:
        raise InputError(str(path), subject="arrays", expected="one called labels or y", found="none")
    return raw.reshape(-1, side, side), labels
