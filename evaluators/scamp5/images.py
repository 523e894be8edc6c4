"""Real photographs to measure on: those that scikit-image ships inside its wheel, as 256 x 256 grey images."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from kilotune.evaluators.scamp5.array import ARRAY_SIZE

PHOTOGRAPHS = (
    "camera",
    "astronaut",
    "chelsea",
    "coffee",
    "rocket",
    "coins",
    "moon",
    "page",
    "text",
    "brick",
    "grass",
    "gravel",
    "retina",
    "hubble_deep_field",
    "immunohistochemistry",
    "clock",
)


LIBRARIES = (
    *(
        "skimage.data:camera",
        "skimage.color:rgb2gray",
        "skimage.transform:resize",
        "skimage.metrics:structural_similarity",
    ),
    *("skimage.io:imread", "imageio.plugins.pillow"),
)
"""What photographs and the quality on them import; modules of scikit-image are empty until a function is taken from them."""


def photographs_are_loaded() -> bool:
    """Whether `photographs` answers at once: scikit-image takes about a second to import."""
    return "skimage.transform" in sys.modules


def photographs(count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Grey images [count, 256, 256]: random windows of the photographs, in turn, reproducible by seed.

    A window is as large as the photograph's shorter side or smaller, and brought to 256 x 256. Raises
    `ModuleNotFoundError` without scikit-image.
    """
    from skimage import data
    from skimage.color import rgb2gray
    from skimage.transform import resize

    generator = np.random.default_rng(seed)
    greys = []
    for name in PHOTOGRAPHS[: min(count, len(PHOTOGRAPHS))]:
        picture = getattr(data, name)()
        greys.append(rgb2gray(picture) if picture.ndim == 3 else picture / 255.0)
    images = []
    for number in range(count):
        grey = greys[number % len(greys)]
        shorter = min(grey.shape)
        side = int(generator.integers(min(ARRAY_SIZE, shorter), shorter + 1))
        top, left = (int(generator.integers(0, length - side + 1)) for length in grey.shape)
        window = grey[top : top + side, left : left + side]
        scaled = resize(window, (ARRAY_SIZE, ARRAY_SIZE), anti_aliasing=side > ARRAY_SIZE)
        images.append(np.clip(np.rint(scaled * 255.0), 0, 255).astype(np.uint8))
    return np.stack(images)
