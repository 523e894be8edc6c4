"""Small networks for the chip: kernels, a threshold each, set pixels counted by region, and dense layers behind the chip.

That is the form of AnalogNet2 (Wong et al., "AnalogNet", 2020; Guillard, "CNNs on FPSPs"): the image is made black and white, the array
computes the kernels, every result is compared with a threshold, the addresses of the set pixels are read out, and a microcontroller
counts them by region and computes what is left in integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CountArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Region:
    """A rectangle of pixels from (top, left) up to, without, (bottom, right); rows count from the north, columns from the west."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass(frozen=True)
class DenseLayer:
    """Integer weights [inputs][outputs] and biases [outputs]."""

    weights: tuple[tuple[int, ...], ...]
    biases: tuple[int, ...]

    @property
    def products(self) -> int:
        """Multiplications."""
        return len(self.weights) * len(self.biases)


@dataclass(frozen=True)
class ChipNetwork:
    """What follows and precedes the kernels.

    `side`: of the square image. A pixel of at least `binarised_at` (2 to 255) enters the array as `level` grey levels, any other one as 0.
    `thresholds`: one a kernel, in grey levels; a pixel whose result is above it is set. The counts of set pixels, kernel by kernel and
    within a kernel by `regions`, are the inputs of `layers`, with a rectifier between two layers; the largest output is the class.
    `held_out`: training saw no sample whose number is a multiple of it; 0 says that nothing is known about that.
    """

    side: int
    binarised_at: int
    level: int
    thresholds: tuple[int, ...]
    regions: tuple[Region, ...]
    layers: tuple[DenseLayer, ...]
    held_out: int = 0

    @property
    def products(self) -> int:
        """Multiplications behind the chip, an image."""
        return sum(layer.products for layer in self.layers)

    def classes(self, counts: CountArray) -> CountArray:
        """The classes of counts [images, kernels * regions]: of equal outputs the first."""
        values = counts
        for number, layer in enumerate(self.layers):
            values = np.maximum(values, 0) if number else values
            values = values @ np.array(layer.weights, dtype=np.int64) + np.array(layer.biases, dtype=np.int64)
        return np.asarray(values.argmax(axis=1), dtype=np.int64)

    def unseen(self, samples: int) -> npt.NDArray[np.bool_]:
        """Which of so many samples training did not see; all of them where nothing is known."""
        return np.asarray(np.arange(samples) % max(self.held_out, 1) == 0, dtype=np.bool_)
