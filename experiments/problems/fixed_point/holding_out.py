"""Training samples that no search sees, on which its finalists are compared: `--validation SHARE`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from kilotune.codegen.dataset import Dataset
from kilotune.experiments.presentation.wording import counted

LEAST_SAMPLES = 20
"""One sample more or less of fewer is over five points of accuracy."""

LEAST_OF_A_CLASS = 5
"""So many for each class, of which every class has a share."""


def hold_out(data: Dataset, share: float, seed: int, classifies: bool) -> tuple[Dataset, Dataset]:
    """The samples for the search and those that are held out, each in their old order.

    From every class `share` of the samples is held out, rounded, and one at least stays; real targets are one class. Which ones hangs on
    the seed and on nothing else, by a hash of it and of their numbers: another NumPy would shuffle otherwise. ValueError,
    a sentence, for what is no share and where one of the two would be empty.
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"--validation {share:g}: expected a share between 0 and 1.")
    classes = data.targets if classifies else np.zeros(len(data.targets))
    held = [number for label in np.unique(classes) for number in _drawn(np.flatnonzero(classes == label), share, seed)]
    chosen = np.zeros(len(data.targets), dtype=bool)
    chosen[held] = True
    if not held:
        raise ValueError(
            f"--validation {share:g}: expected a share that holds out at least one training sample and leaves one of each class, "
            f"found {counted(len(chosen), 'sample')}."
        )
    return Dataset(data.features[~chosen], data.targets[~chosen]), Dataset(data.features[chosen], data.targets[chosen])


def too_few(share: float, searched: int, held: int, classes: int | None) -> str | None:
    """That a share leaves the search, or what is held out of it, so few samples that they say little; None where both have enough.
    `classes`: None of a model that returns numbers."""
    least = max(LEAST_SAMPLES, LEAST_OF_A_CLASS * (classes or 0))
    if min(searched, held) >= least:
        return None
    return (
        f"--validation {share:g} leaves {counted(searched, 'training sample')} to the search and holds out {held}: "
        f"expected {least} of each at least, as fewer say little about new samples."
    )


def _drawn(numbers: Sequence[int] | np.ndarray, share: float, seed: int) -> list[int]:
    """Some of the samples of one class."""
    count = min(round(share * len(numbers)), len(numbers) - 1)
    by_hash = sorted((int(n) for n in numbers), key=lambda n: hashlib.sha256(f"{seed} {n}".encode()).digest())
    return by_hash[:count]
