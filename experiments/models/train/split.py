"""Training and test samples of a data set, and the scaling that the training samples decide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.experiments.models.train.bundle import FeatureRows

SEED = 0


@dataclass(frozen=True)
class DataSplit:
    """Training and test rows, column 0 the label (or target). `fitted`: the rows that weights are fitted to where those are more than the
    training rows that are shipped."""

    train: FeatureRows
    test: FeatureRows
    fitted: FeatureRows | None = None


def cut(rows: FeatureRows, train_samples: int) -> DataSplit:
    """The rows in a fixed random order, cut in two."""
    order = np.random.default_rng(SEED).permutation(len(rows))
    return DataSplit(rows[order[:train_samples]], rows[order[train_samples:]])


def standardise(split: DataSplit, limit: float, first: int = 1) -> DataSplit:
    """Columns from `first` on with mean 0 and deviation 1 over the training rows, clipped to [-limit, limit].

    Rounded to float16, so that the files are small; the models are trained on the rounded values.
    """
    mean = split.train[:, first:].mean(axis=0)
    deviation = split.train[:, first:].std(axis=0)

    def scaled(rows: FeatureRows) -> FeatureRows:
        values = np.clip((rows[:, first:] - mean) / deviation, -limit, limit)
        return np.column_stack([rows[:, :first], values]).astype(np.float16)

    return DataSplit(scaled(split.train), scaled(split.test))
