"""How close a program on the real chip comes to the exact convolution: RMSE and SSIM on images (AUKE Figures 13 and 14).

The image is given to the chip as dark as it takes for no register to saturate, and the result brought back: small signals keep
within range, and pay with more of the noise that does not depend on the signal. Results count as the usual libraries
give them, in grey levels: filters that average have a gain of one, whatever the sum of their weights; filters whose weights
add up to nothing are taken as they are. Only pixels that the array's edges leave intact count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.scamp.kernel import Kernel
from kilotune.evaluators.scamp5.array import FULL_SCALE, REAL_CHIP, Chip, run, shifted

MIDDLE = 127.5


@dataclass(frozen=True)
class ImageQuality:
    """How well a program computes its kernels on one set of images. `amplitude`: what part of the full scale the image was given at."""

    rmse_grey_levels: float
    ssim: float
    amplitude: float


def convolve(image: npt.ArrayLike, kernel: Kernel) -> FloatArray:
    """The exact weighted sum at every pixel (AUKE Equation 4); beyond the edges the image is 0."""
    given = np.asarray(image, dtype=np.float64)
    result = np.zeros_like(given)
    for cell, weight in kernel.weights:
        result += float(weight) * shifted(given, cell)
    return result


def measure(text: str, kernels: tuple[Kernel, ...], images: npt.ArrayLike, chip: Chip = REAL_CHIP) -> ImageQuality:
    """The quality of a program that computes the kernels (or approximates them), over 8-bit images [images, rows, columns].

    Raises as `array.run`, and `ModuleNotFoundError` without scikit-image.
    """
    centred = np.asarray(images, dtype=np.float64) - MIDDLE
    exact = run(text, centred)
    full_scale = FULL_SCALE if chip.full_scale is None else chip.full_scale
    amplitude = min(1.0, full_scale / exact.largest) if exact.largest else 1.0
    noisy = run(text, centred * amplitude, replace(chip, full_scale=full_scale))
    errors, similarities = [], []
    for kernel, result, known in zip(kernels, noisy.results, noisy.known, strict=True):
        gain = float(abs(sum(weight for _, weight in kernel.weights))) or 1.0
        wanted, found = convolve(centred, kernel) / gain, result / (amplitude * gain)
        rows, columns = np.flatnonzero(known.any(axis=1)), np.flatnonzero(known.any(axis=0))
        inner = np.ix_(rows, columns)
        for one_wanted, one_found in zip(wanted, found, strict=True):
            difference = one_found[inner] - one_wanted[inner]
            errors.append(float(np.sqrt(np.mean(difference**2))))
            similarities.append(structural_similarity(one_wanted[inner], one_found[inner]))
    return ImageQuality(float(np.mean(errors)), float(np.mean(similarities)), amplitude)


def structural_similarity(wanted: FloatArray, found: FloatArray) -> float:
    """SSIM with the Gaussian window of Wang et al. 2004, on a scale of 255 grey levels."""
    from skimage.metrics import structural_similarity as ssim

    return float(ssim(wanted, found, data_range=255.0, gaussian_weights=True, sigma=1.5, use_sample_covariance=False))
