"""Phase-change cells: what becomes of programmed weights, by the statistical model of IBM's analogue hardware acceleration kit.

The model is fitted to a million devices (Nandakumar et al. 2019, "Phase-change memory models for deep learning training and inference";
Joshi et al. 2020, "Accurate deep neural network inference using computational phase-change memory"; in words and formulas in the
toolkit's documentation, "Inference and PCM statistical model"). A weight is two cells, one for each sign, of which one is programmed to
|weight| / largest weight of the layer, 1 being 25 microsiemens, and the other one to 0.
"""

from __future__ import annotations

import numpy as np

from kilotune.codegen.arrays import FloatArray

SEMANTICS = 2
"""Version of the model, part of what names measurements on noisy cells."""

LARGEST_CONDUCTANCE_US = 25.0
PROGRAMMING_US = (-1.1731, 1.9650, 0.2635)
"""The deviation of a programmed conductance is a polynomial of its target (0 to 1): the factors of the square, of the target, and of 1."""

FIRST_READ_SECONDS = 20.0
"""From programming to the first reading, after which times are counted: conductances are as programmed then, and drift from then on."""

READ_PULSE_SECONDS = 250e-9


def programmed(targets: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Conductances after programming, of targets from 0 to 1."""
    deviation = np.maximum(np.polyval(PROGRAMMING_US, targets), 0) / LARGEST_CONDUCTANCE_US
    return np.asarray(np.maximum(targets + deviation * generator.standard_normal(targets.shape), 0))


def drifted(
    conductances: FloatArray, targets: FloatArray, seconds: float, generator: np.random.Generator
) -> FloatArray:
    """Conductances so long after the first reading; none grows."""
    with np.errstate(divide="ignore"):
        logarithm = np.log(targets)  # of 0, minus infinity: the exponent is at its limits
    mean = np.clip(-0.0155 * logarithm + 0.0244, 0.049, 0.1)
    deviation = np.clip(-0.0125 * logarithm - 0.0059, 0.008, 0.045)
    exponents = np.abs(mean + deviation * generator.standard_normal(targets.shape))
    return np.asarray(conductances * ((seconds + FIRST_READ_SECONDS) / FIRST_READ_SECONDS) ** -exponents)


def read(conductances: FloatArray, fresh: FloatArray, seconds: float, generator: np.random.Generator) -> FloatArray:
    """What reading them gives: 1/f noise since programming, as strong as what was programmed (`fresh`) says; none is negative."""
    with np.errstate(divide="ignore"):
        strength = np.minimum(0.0088 / fresh**0.65, 0.2)
    since = seconds + FIRST_READ_SECONDS
    spread = np.sqrt(np.log((since + READ_PULSE_SECONDS) / (2 * READ_PULSE_SECONDS)))
    return np.asarray(conductances * np.maximum(1 + strength * spread * generator.standard_normal(fresh.shape), 0))


def weights_after(weights: FloatArray, largest: float, seconds: float, generator: np.random.Generator) -> FloatArray:
    """What a matrix of weights [columns, rows] of a layer, whose largest magnitude is given, computes with so long after programming.

    The drift that all columns have in common is compensated by one factor, as in the toolkit: what the columns give together of one
    row after the other, in magnitude, after programming, over what they give now.
    """
    if not largest:
        return weights
    sides = []
    for sign in (1, -1):
        targets = np.maximum(sign * weights, 0) / largest
        fresh = programmed(targets, generator)
        sides.append((fresh, read(drifted(fresh, targets, seconds, generator), fresh, seconds, generator)))
    fresh, now = (plus - minus for plus, minus in zip(*sides, strict=True))
    before, after = (float(np.abs(matrix).sum()) for matrix in (fresh, now))
    return np.asarray(now * largest * (before / after if after else 1.0))
