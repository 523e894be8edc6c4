"""Inputs for the reference models of MLPerf Tiny, whose test sets are not at hand: like what a microphone or a camera gives.

- Keyword spotting: a second of a voice made of a pulse train behind three resonances (formants), with fricative noise, at a random
  level in a room's noise; 49 frames of 10 mel cepstral coefficients, computed as MLPerf Tiny's reference does (480 samples every 320,
  40 mel bands from 20 to 4000 Hz, the logarithm of what is 1e-6 larger, DCT-II divided by the root of 80).
- Anomaly detection: a machine's hum (harmonics of a rotation, filtered noise); five frames of 128 mel bands in decibels as the
  reference has them (1024 samples every 512, bands of equal area on Slaney's scale).
- Images: crops of random place and size out of photographs that scikit-learn and scikit-image bring, mirrored, brighter or darker,
  scaled down.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import signal
from scipy.fft import dct
from skimage import data
from skimage.transform import resize
from sklearn.datasets import load_sample_images

from kilotune.codegen.arrays import FloatArray

RATE_HZ = 16000


def spoken(count: int, rng: np.random.Generator) -> FloatArray:
    """[count, 490] mel cepstral coefficients of made-up words."""
    lowest, highest = _htk(np.array([20.0, 4000.0])).tolist()
    bands = _triangles(_hertz_of_htk(np.linspace(lowest, highest, 42)), 512)
    rows = []
    for _ in range(count):
        wave = _word(rng)
        frames = np.lib.stride_tricks.sliding_window_view(wave, 480)[::320][:49]
        window = np.hanning(481)[:480]
        loudness = np.log(np.abs(np.fft.rfft(frames * window, 512)) @ bands.T + 1e-6)
        rows.append((dct(loudness, type=2) / np.sqrt(80.0))[:, :10].ravel())
    return np.asarray(rows)


def _word(rng: np.random.Generator) -> FloatArray:
    """A second of one to three syllables, 16000 samples."""
    time = np.arange(RATE_HZ) / RATE_HZ
    pitch = rng.uniform(90, 240) * (1 + 0.15 * np.sin(2 * np.pi * rng.uniform(0.5, 2) * time + rng.uniform(0, 6)))
    pulses = np.diff(np.floor(np.cumsum(pitch) / RATE_HZ), prepend=0.0)
    wave = np.zeros(RATE_HZ)
    start = rng.uniform(0.1, 0.35)
    for _ in range(rng.integers(1, 4)):
        length = rng.uniform(0.08, 0.3)
        inside = np.clip((time - start) / 0.03, 0, 1) * np.clip((start + length - time) / 0.05, 0, 1)
        voiced = signal.lfilter([1.0], [1.0, -0.95], pulses) * inside
        for low, high in ((250, 900), (800, 2400), (2000, 3400)):
            voiced = (
                signal.lfilter(*signal.iirpeak(rng.uniform(low, high), rng.uniform(3, 9), RATE_HZ), voiced)
                + 0.2 * voiced
            )
        hiss = rng.normal(0, rng.uniform(0.002, 0.1), RATE_HZ) * np.exp(
            -(((time - start) / rng.uniform(0.02, 0.08)) ** 2)
        )
        wave += voiced + signal.lfilter([1, -0.9], [1.0], hiss)
        start += length + rng.uniform(0.0, 0.1)
    loud = rng.uniform(0.03, 0.8) * wave / max(1e-9, float(np.abs(wave).max()))
    return np.asarray(np.clip(loud + rng.normal(0, 10 ** rng.uniform(-4.5, -2), RATE_HZ), -1, 1))


def machines(count: int, rng: np.random.Generator) -> FloatArray:
    """[count, 640] levels in decibels of a running machine, five frames each."""
    bands = _triangles(_hertz_of_slaney(np.linspace(0.0, float(_slaney(RATE_HZ / 2)), 130)), 1024, areas=True)
    time = np.arange(1024 + 4 * 512) / RATE_HZ
    rows = []
    for _ in range(count):
        turn = rng.uniform(20, 60)
        wave = np.zeros(len(time))
        for number in range(1, rng.integers(10, 60)):
            level = 10 ** rng.uniform(-4, -2) / np.sqrt(number)
            wave += level * np.sin(2 * np.pi * turn * number * time + rng.uniform(0, 6.3))
        noise = signal.lfilter(
            [1.0], [1.0, -rng.uniform(0.3, 0.97)], rng.normal(0, 10 ** rng.uniform(-3.5, -1.5), len(time))
        )
        frames = np.lib.stride_tricks.sliding_window_view(wave + noise, 1024)[::512]
        power = np.abs(np.fft.rfft(frames * np.hanning(1025)[:1024])) ** 2 @ bands.T
        rows.append((10 * np.log10(power + np.finfo(float).eps)).ravel())
    return np.asarray(rows)


def photographs(count: int, side: int, largest: float, rng: np.random.Generator) -> FloatArray:
    """[count, side * side * 3] crops in colour, channels last, from 0 to `largest`."""
    pictures = [*load_sample_images().images, data.astronaut(), data.chelsea(), data.coffee()]
    return np.asarray(crops(pictures, count, (side, side), rng).reshape(count, -1) * largest)


def crops(
    pictures: Sequence[NDArray[np.uint8]], count: int, size: tuple[int, int], rng: np.random.Generator
) -> FloatArray:
    """[count, height, width, 3] crops of random place and extent in colour, from 0 to 1, mirrored and brighter or darker, scaled to `size`
    (height, width)."""
    rows, (high, wide) = [], size
    for _ in range(count):
        picture = pictures[int(rng.integers(len(pictures)))] / 255.0
        most = min(picture.shape[0], picture.shape[1] * high // wide)
        extent = int(np.exp(rng.uniform(np.log(min(48, most)), np.log(most))))
        top = rng.integers(0, picture.shape[0] - extent + 1)
        left = rng.integers(0, picture.shape[1] - extent * wide // high + 1)
        crop = picture[top : top + extent, left : left + extent * wide // high]
        small = resize(crop[:, :: rng.choice((-1, 1))], size, anti_aliasing=True)
        rows.append(np.clip(small * rng.uniform(0.6, 1.3), 0, 1))
    return np.asarray(rows)


def _htk(hertz: FloatArray) -> FloatArray:
    return np.asarray(1127.0 * np.log1p(hertz / 700.0))


def _hertz_of_htk(mel: FloatArray) -> FloatArray:
    return np.asarray(700.0 * np.expm1(mel / 1127.0))


def _slaney(hertz: float) -> float:
    """Linear to 1000 Hz, logarithmic above."""
    return hertz * 3 / 200 if hertz < 1000 else 15 + float(np.log(hertz / 1000)) / (np.log(6.4) / 27)


def _hertz_of_slaney(mel: FloatArray) -> FloatArray:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))


def _triangles(edges: FloatArray, length: int, areas: bool = False) -> FloatArray:
    """[bands, frequencies] weights of a Fourier transform of `length` samples; `areas`: each band's sum is the same."""
    hertz = np.linspace(0, RATE_HZ / 2, length // 2 + 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    weights = np.maximum(0, np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)))
    return np.asarray(weights * 2 / (high - low) if areas else weights)
