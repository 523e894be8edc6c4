"""Inputs like those of the training data: what a program is looked at on besides, where the training samples themselves say too little.

A model was trained on its samples, so their margins are wide, and whatever is fitted to them alone is fitted to what is special about
them. Half of the inputs made here are samples with noise, half lie between a sample and one of its nearest neighbours (as in SMOTE,
Chawla et al., JAIR 2002). Noise may leave the range of a feature: held to it, the inputs help half as much on generated models.
"""

from __future__ import annotations

import numpy as np

from kilotune.codegen.arrays import FloatArray

NOISE = 0.3
"""Standard deviations of a feature."""

NEIGHBOURS = 7
"""How many nearest samples each one may be mixed with."""

LOOKED_AT = 1024
"""Samples among which neighbours are looked for, so that the time is linear in the samples."""


MOST_TOUCHED = 200_000_000
"""Values that the float program may write and read on such inputs when nothing but margins is asked for: a tenth of a CPU-second for
recurrent networks, 0.2 to 1 for convolutions (measured on MLPerf Tiny's)."""

LEAST, USUAL = 64, 1024
"""Inputs whose margins are looked at where that takes long, and where it does not: as many as there are samples, if these are more."""


def inputs_for_margins(features: FloatArray, touched: int, seed: int = 0) -> FloatArray:
    """Inputs [inputs, features] like `features` [samples, features] by whose margins flips are expected, of a program that touches
    so many values an input: fewer where these are many."""
    affordable = MOST_TOUCHED // max(1, touched)
    return similar_inputs(features, min(max(USUAL, len(features)), max(LEAST, affordable)), seed)


def similar_inputs(features: FloatArray, count: int, seed: int = 0) -> FloatArray:
    """`count` inputs [count, features] like `features` [samples, features]; the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    noisy, between = _noisy(features, count // 2, rng), _between(features, count - count // 2, rng)
    return np.concatenate([noisy, between])


def labelled_inputs(
    features: FloatArray, labels: FloatArray, count: int, noise: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    """`count` inputs [count, features] that are samples with noise of so many standard deviations of each feature, and the labels [count]
    of these samples (vicinal risk: Chapelle et al., NIPS 2000); the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(features), size=count)
    inputs = features[chosen] + noise * features.std(axis=0) * rng.standard_normal((count, features.shape[1]))
    return np.asarray(inputs), labels[chosen]


def _noisy(features: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    chosen = features[rng.integers(len(features), size=count)]
    return np.asarray(chosen + NOISE * features.std(axis=0) * rng.standard_normal(chosen.shape))


def _between(features: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    known = features[rng.permutation(len(features))[:LOOKED_AT]]
    chosen = rng.integers(len(known), size=count)
    most = min(NEIGHBOURS, len(known) - 1)
    if most < 1:
        return np.asarray(known[chosen])
    squares = (known * known).sum(axis=1)
    distances = squares[:, None] + squares - 2.0 * (known @ known.T)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argpartition(distances, most - 1, axis=1)[:, :most]
    nearest = np.take_along_axis(nearest, np.argsort(np.take_along_axis(distances, nearest, 1), 1, kind="stable"), 1)
    others = known[nearest[chosen, rng.integers(most, size=count)]]
    mixed: FloatArray = known[chosen] + rng.random((count, 1)) * (others - known[chosen])
    return mixed
