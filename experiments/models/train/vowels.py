"""The vowels data set: nine men say two Japanese vowels in a row; who is it? (Kudo, Toyama, Shimbo, 1999; UCI's Japanese Vowels).

The package aeon brings the recordings as text and need not be imported (`pip install --no-deps aeon==1.6.0`). An utterance is 25 steps of
12 cepstral coefficients of linear prediction; the archive stretched all to that length. The archive's own split: 270 to train, 370 to test.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.experiments.models.train.split import DataSplit
from kilotune.experiments.models.train.windows import split_windows

STEPS, CHANNELS, CLASSES = 25, 12, 9
COUNTS = 270, 370
LEVELS = 64

ATTRIBUTION = (
    "Data: Japanese Vowels (M. Kudo, J. Toyama, M. Shimbo; UCI Machine Learning Repository, 1999), CC BY 4.0, as in aeon 1.6.0, all "
    "stretched to 25 steps; coefficients standardised, 4 deviations are 1; the archive's 270 training and 370 test utterances."
)


def load_split(folder: Path | None = None) -> DataSplit:
    """Labels in column 0, then step after step the 12 coefficients, in [-1, 1]. `folder`: with `JapaneseVowels_eq_TRAIN.ts` and `_TEST.ts`,
    by default that of the installed package. ModuleNotFoundError where there is none, ValueError for a file of other utterances."""
    place = folder or _installed()
    parts = [read_utterances(place / f"JapaneseVowels_eq_{part}.ts") for part in ("TRAIN", "TEST")]
    values, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    tested = np.repeat([False, True], [len(some) for _, some in parts])
    return split_windows(values, labels, tested, COUNTS, LEVELS)


def read_utterances(path: Path) -> tuple[FloatArray, IntArray]:
    """Utterances [count, STEPS, CHANNELS] of a file of the archive, and who spoke [count], from 0 on. A line after `@data` is an utterance:
    coefficient after coefficient its steps, with colons between the coefficients, and last the speaker from 1 on."""
    lines = [line for line in path.read_text(encoding="utf-8").split("@data", 1)[1].splitlines() if line]
    values, labels = [], []
    for line in lines:
        *coefficients, speaker = line.split(":")
        values.append([[float(number) for number in steps.split(",")] for steps in coefficients])
        labels.append(int(speaker) - 1)
    found = np.array(values)
    if found.shape[1:] != (CHANNELS, STEPS):
        raise ValueError(f"{path.name} has utterances of {found.shape[1:]} values, expected {(CHANNELS, STEPS)}.")
    return found.transpose(0, 2, 1), np.array(labels)


def _installed() -> Path:
    spec = importlib.util.find_spec("aeon")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'aeon': pip install --no-deps aeon==1.6.0")
    return Path(spec.submodule_search_locations[0]) / "datasets" / "data" / "JapaneseVowels"
