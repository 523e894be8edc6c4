"""A network on the array: every step as the chip would, from the black and white image to the classes, and what a frame takes.

Time: a bus transfer and a digital instruction take a cycle each. Reading out and what the microcontroller computes are taken from the
published profile of AnalogNet on the chip (Guillard, "CNNs on FPSPs", loop unrolling): 273 us to read and bin 100 addresses of each of
three results, 109 us for dense layers of 27 to 50 to 10 with constant weights. Energy: the chip's 1.23 W over that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.scamp.instructions import CLOCK_HZ, POWER_W
from kilotune.codegen.scamp.network import ChipNetwork, CountArray
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.evaluators.scamp5.array import ARRAY_SIZE, EXACT, Chip, run, written
from kilotune.evaluators.scamp5.symbolic import reach

LEAST_MARGIN = 6
"""Rows and columns around the image that are there at least."""

IMAGES_AT_ONCE = 250

INPUT_INSTRUCTIONS, INPUT_CYCLES = 9, 12
"""To make the image black and white and load it: three macros of two transfers, six digital instructions."""

THRESHOLD_INSTRUCTIONS, THRESHOLD_CYCLES = 5, 6
"""For each result: the threshold is added in one macro of two transfers, four digital instructions keep what is above it."""

EVENT_US = 273 / 300
PRODUCT_US = 109 / (27 * 50 + 50 * 10)

STUDENT_95 = {5: 2.571, 9: 2.262, 19: 2.093}
"""The 97.5 % points of Student's t by degrees of freedom, for the usual numbers of draws."""


@dataclass(frozen=True)
class NetworkRun:
    """counts: set pixels [images, kernels * regions]; events: all set pixels [images], that is what is read out."""

    counts: CountArray
    events: CountArray


@dataclass(frozen=True)
class FrameCost:
    """What a frame takes; `array_us` of it on the array."""

    instructions: int
    array_us: float
    readout_us: float
    dense_us: float

    @property
    def frame_us(self) -> float:
        return self.array_us + self.readout_us + self.dense_us

    @property
    def array_uj(self) -> float:
        """The array at full load for its time."""
        return self.array_us * POWER_W

    @property
    def frame_uj(self) -> float:
        """The chip's power over the whole frame."""
        return self.frame_us * POWER_W


@dataclass(frozen=True)
class NoisyAccuracy:
    """The mean over draws of the noise, and the half of its 95 % interval (Student's t)."""

    mean: float
    half_width: float
    draws: int


def run_network(text: str, network: ChipNetwork, images: npt.ArrayLike, chip: Chip = EXACT) -> NetworkRun:
    """Counts of grey images [images, side, side], 0 to 255, by the program of the kernels. Raises as `array.run`."""
    given = np.asarray(images)
    counts, events = [], []
    for number, start in enumerate(range(0, len(given), IMAGES_AT_ONCE)):
        # Another seed for each part: one draw covers all images.
        part = replace(chip, seed=chip.seed * 1_000_003 + number)
        some = _counted(text, network, given[start : start + IMAGES_AT_ONCE], part)
        counts.append(some.counts)
        events.append(some.events)
    return NetworkRun(np.concatenate(counts), np.concatenate(events))


def margin_of(text: str, side: int) -> int:
    """Rows and columns around an image in which a program may keep what it needs later, as far as the array goes; beyond, every register
    would hold 0 too. Raises as `array.run`."""
    return min(max(LEAST_MARGIN, reach(text)), (ARRAY_SIZE - side) // 2)


def results_of(text: str, network: ChipNetwork, images: npt.NDArray[Any], chip: Chip) -> tuple[FloatArray, ...]:
    """What the thresholds are compared with, by kernel [images, side + 2 * margin, ...], in grey levels above them; see `margin_of`."""
    generator, around = np.random.default_rng((chip.seed, 1)), (margin_of(text, network.side),) * 2
    loaded = written(np.where(images >= network.binarised_at, float(network.level), 0.0), 2, chip, generator)
    window = np.pad(loaded, ((0, 0), around, around))
    above = []
    for result, threshold in zip(run(text, window, chip).results, network.thresholds, strict=True):
        constant = written(np.full(result.shape, -threshold), 2, chip, generator)
        above.append(written(result + constant, 2, chip, generator))
    return tuple(above)


def _counted(text: str, network: ChipNetwork, images: npt.NDArray[Any], chip: Chip) -> NetworkRun:
    counts, events, margin = [], np.zeros(len(images), dtype=np.int64), margin_of(text, network.side)
    for above in results_of(text, network, images, chip):
        is_set = above > 0
        events += is_set.sum(axis=(1, 2))
        inner = is_set[:, margin : margin + network.side, margin : margin + network.side]
        counts += [inner[:, r.top : r.bottom, r.left : r.right].sum(axis=(1, 2)) for r in network.regions]
    return NetworkRun(np.stack(counts, axis=1).astype(np.int64), events)


def accuracy(
    text: str, network: ChipNetwork, images: npt.ArrayLike, labels: npt.ArrayLike, chip: Chip = EXACT
) -> float:
    """The share of images whose class is their label."""
    return float(np.mean(network.classes(run_network(text, network, images, chip).counts) == np.asarray(labels)))


def noisy_accuracy(
    text: str, network: ChipNetwork, images: npt.ArrayLike, labels: npt.ArrayLike, chip: Chip, draws: int = 10
) -> NoisyAccuracy:
    """Over draws of the chip's noise, from its seed on. KeyError for a number of draws that `STUDENT_95` does not have."""
    found = [accuracy(text, network, images, labels, replace(chip, seed=chip.seed + draw)) for draw in range(draws)]
    half_width = STUDENT_95[draws - 1] * float(np.std(found, ddof=1)) / np.sqrt(draws)
    return NoisyAccuracy(float(np.mean(found)), float(half_width), draws)


def frame_cost(program: ScampProgram, network: ChipNetwork, events: Sequence[int] | CountArray) -> FrameCost:
    """What a frame takes with the mean number of events."""
    kernels = len(network.thresholds)
    cycles = INPUT_CYCLES + program.bus_transfers + kernels * THRESHOLD_CYCLES
    instructions = INPUT_INSTRUCTIONS + program.instructions + kernels * THRESHOLD_INSTRUCTIONS
    return FrameCost(
        instructions, 1e6 * cycles / CLOCK_HZ, float(np.mean(events)) * EVENT_US, network.products * PRODUCT_US
    )
