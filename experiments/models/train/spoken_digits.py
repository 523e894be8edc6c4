"""The spoken digits data set: six people say the English digits 0 to 9, 50 times each (the Free Spoken Digit Dataset).

A file of features is read, which a variable of the environment names: `SPOKEN_DIGITS=fsdd_logmel.npz python -m
kilotune.experiments.models.train gru16-spoken`. It has `X` [recordings, 32 frames, 16 bands], the logarithm of the energy in bands of the
mel scale plus 1e-4, where frames beyond the end of a recording have energy 0; `y`, the digits; and `test`, which marks the data set's own
test recordings: 5 of each person's 50 of a digit, so the people are known.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from kilotune.experiments.models.train.split import DataSplit
from kilotune.experiments.models.train.windows import split_windows

STEPS, CHANNELS, CLASSES = 32, 16, 10
SHIPPED = 600
"""Training recordings that are shipped, of the 2700 that weights are fitted to."""

LEVELS = 8
"""Features are multiples of 1 / LEVELS, so that files are small. A GRU trained so is as right on 540 of the training recordings, held out,
as with 16 or 64 levels (97.6, 97.6, 97.4 %)."""

FILE_VARIABLE = "SPOKEN_DIGITS"

ATTRIBUTION = (
    "Data: Free Spoken Digit Dataset (Z. Jackson and others, github.com/Jakobovski/free-spoken-digit-dataset), CC BY-SA 4.0, as 32 frames "
    "of 16 log-mel bands; bands standardised, 4 deviations are 1, in steps of 1/8; 600 training recordings, of the 2700 that the weights "
    "were fitted to, and the data set's 300 test recordings, of the same six people. Changed files stay under this licence."
)


def load_split(file: Path | None = None) -> DataSplit:
    """Labels in column 0, then frame after frame the 16 bands, in [-1, 1]. `file`: the features. FileNotFoundError without them, ValueError
    for other ones."""
    place = file or Path(os.environ.get(FILE_VARIABLE, "fsdd_logmel.npz"))
    if not place.is_file():
        raise FileNotFoundError(
            f"{place}: expected a file of features of the spoken digits, which {FILE_VARIABLE} names"
        )
    with np.load(place, allow_pickle=False) as archive:
        missing = [name for name in ("X", "y", "test") if name not in archive]
        if missing or archive["X"].shape[1:] != (STEPS, CHANNELS):
            found = f"no {missing[0]}" if missing else f"X of shape {archive['X'].shape}"
            raise ValueError(f"{place.name}: expected X [recordings, {STEPS}, {CHANNELS}], y and test, found {found}")
        values, labels, tested = archive["X"], archive["y"], archive["test"].astype(bool)
    split = split_windows(values.astype(np.float64), labels, tested, (len(labels), len(labels)), LEVELS)
    return DataSplit(split.train[:SHIPPED], split.test, fitted=split.train)
