"""The exercises data set: a watch's accelerometer and gyroscope while 10 people do 7 shoulder exercises (Burns et al., 2018; in seglearn).

The package seglearn brings the file and need not be imported (`pip install --no-deps seglearn==1.2.5`). A window is 64 samples, 1.28 s, of
which every second is taken: 32 steps of 6 channels. Windows do not overlap; the end of every recording is tested, so the people are known.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from pathlib import Path

import numpy as np

from kilotune.experiments.models.train.split import DataSplit
from kilotune.experiments.models.train.windows import split_windows

WINDOW, TAKEN = 64, 2
STEPS, CHANNELS, CLASSES = WINDOW // TAKEN, 6, 7
TRAIN_SHARE = 0.7
"""How much of every recording, from its beginning, is for training."""

COUNTS = 900, 400
LEVELS = 32

CONTENT = "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"
"""The SHA-256 of the file: it is a pickle, and is not opened before it is known to be this one."""

ATTRIBUTION = (
    "Data: shoulder exercises by smartwatch (D. Burns, N. Leung, M. Hardisty, C. Whyne, P. Henry, S. McLachlin, 2018, "
    "arXiv:1802.01489), BSD-3-Clause, copyright (c) 2018 David M. Burns, as in seglearn 1.2.5's load_watch; windows of 1.28 s at 25 Hz, "
    "channels standardised, 4 deviations are 1; 900 training windows of the first 70 % of the recordings and 400 test windows of the rest."
)


def load_split(file: Path | None = None) -> DataSplit:
    """Labels in column 0, then step after step the 6 channels, in [-1, 1]. `file`: seglearn's `watch_dataset.npy`, by default that of the
    installed package. ModuleNotFoundError where there is none, ValueError for another file."""
    content = (file or _installed()).read_bytes()
    if hashlib.sha256(content).hexdigest() != CONTENT:
        raise ValueError("The file is not the watch_dataset.npy of seglearn 1.2.5.")
    recordings = np.load(io.BytesIO(content), allow_pickle=True).item()
    windows, labels, tested = [], [], []
    for series, label in zip(recordings["X"], recordings["y"], strict=True):
        count = len(series) // WINDOW
        windows.append(series[: count * WINDOW].reshape(count, WINDOW, CHANNELS)[:, ::TAKEN])
        labels += [label] * count
        tested += [place >= TRAIN_SHARE * count for place in range(count)]
    return split_windows(np.concatenate(windows), np.array(labels), np.array(tested), COUNTS, LEVELS)


def _installed() -> Path:
    spec = importlib.util.find_spec("seglearn")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'seglearn': pip install --no-deps seglearn==1.2.5")
    return Path(spec.submodule_search_locations[0]) / "data" / "watch_dataset.npy"
