"""Feature values from programs that run in the array of processing elements.

A program runs once for every distinct shape: all elements compute it at once, and a feature at another place of the window
is the same result read from another element. What the comparison reads is the element that the feature's
place in the window leads to; on the chip, masks of passing windows would move instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kilotune.evaluators.scamp5.array import ARRAY_SIZE, EXACT, FULL_SCALE, Chip, run
from kilotune.experiments.faces.cascade import Cascade
from kilotune.experiments.faces.programs import FeatureProgram
from kilotune.experiments.faces.shapes import FeatureWeights, placed
from kilotune.experiments.faces.windows import Image

MIDDLE = 127.5


@dataclass
class ArrayValues:
    """Feature values of every window of an image that lies in the middle of the array; calls take a feature's number.

    The image must fit (ValueError). With a `chip` that saturates, the image is centred about zero and darkened, program by program, so
    that no register saturates; results are brought back. `largest` is the greatest value that a register held
    before that, `blind` marks windows that some element beyond the array's edge would have been needed for.
    """

    cascade: Cascade
    image: Image
    programs: Mapping[FeatureWeights, FeatureProgram]
    chip: Chip = EXACT
    largest: float = 0.0
    blind: npt.NDArray[np.bool_] = field(init=False)
    _kept: dict[FeatureWeights, tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        rows, columns = self.image.shape
        if max(rows, columns) > ARRAY_SIZE:
            raise ValueError(
                f"The image of {columns} x {rows} pixels does not fit the {ARRAY_SIZE} x {ARRAY_SIZE} array."
            )
        self.blind = np.zeros((rows - self.cascade.height + 1, columns - self.cascade.width + 1), dtype=np.bool_)

    def __call__(self, number: int) -> npt.NDArray[np.float64]:
        feature = placed(self.cascade.features[number])
        program = self.programs[feature.shape]
        if feature.shape not in self._kept:
            self._kept[feature.shape] = self._run(program)
        result, known = self._kept[feature.shape]
        margin = self._margin
        top, left = margin[0] + feature.top + program.north, margin[1] + feature.left - program.west
        there = slice(top, top + self.blind.shape[0]), slice(left, left + self.blind.shape[1])
        self.blind |= ~known[there]
        return result[there]

    @property
    def distinct(self) -> int:
        """How many programs have run."""
        return len(self._kept)

    @property
    def _margin(self) -> tuple[int, int]:
        return (ARRAY_SIZE - self.image.shape[0]) // 2, (ARRAY_SIZE - self.image.shape[1]) // 2

    def _run(self, program: FeatureProgram) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        top, left = self._margin
        array = np.zeros((ARRAY_SIZE, ARRAY_SIZE))
        here = slice(top, top + self.image.shape[0]), slice(left, left + self.image.shape[1])
        noisy = self.chip != EXACT
        array[here] = self.image - MIDDLE if noisy else self.image
        exact = run(program.text, array)
        self.largest = max(self.largest, exact.largest)
        if not noisy:
            return exact.results[0], exact.known[0]
        # All features weigh nothing in total: what the middle takes off every pixel cancels.
        amplitude = min(1.0, FULL_SCALE / exact.largest) if exact.largest else 1.0
        found = run(program.text, array * amplitude, self.chip)
        return found.results[0] / amplitude, found.known[0]
