"""Windows of a sensor as rows of a data set: standardised, on a grid that float16 holds, in a fixed random order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.experiments.models.train.split import SEED, DataSplit

DEVIATIONS = 4.0
"""So many standard deviations of a channel become 1; what is beyond is clipped."""


def split_windows(
    values: FloatArray, labels: IntArray, tested: npt.NDArray[np.bool_], counts: tuple[int, int], levels: int
) -> DataSplit:
    """`values` [windows, steps, channels] as rows: the label in column 0, then step after step the channels, in [-1, 1].

    Channels have the mean 0 and the deviation 1 / DEVIATIONS over the windows that are not `tested`. Values are multiples of 1 / `levels`,
    a power of two of 1024 at most, so that float16 holds them exactly and files are small. `counts`: how many windows are taken, by
    chance, for training and of those that are tested."""
    trained = values[~tested].reshape(-1, values.shape[2])
    standard = (values - trained.mean(axis=0)) / trained.std(axis=0) / DEVIATIONS
    features = np.round(levels * np.clip(standard, -1.0, 1.0)) / levels
    rows = np.column_stack([labels, features.reshape(len(features), -1)]).astype(np.float16)
    random = np.random.default_rng(SEED)
    train, test = (rows[random.permutation(np.flatnonzero(some))] for some in (~tested, tested))
    return DataSplit(train[: counts[0]], test[: counts[1]])
