"""A network with its digits at the front door: what a candidate's program makes of them, and what a frame takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.scamp.network import ChipNetwork
from kilotune.codegen.scamp.text import parse_program
from kilotune.evaluators.scamp5.network import frame_cost, run_network
from kilotune.experiments.problems.labelled_images import read_labelled_images
from kilotune.search.space import Metrics


@dataclass(frozen=True, eq=False)
class ChipDigits:
    """images [images, side, side], 0 to 255; labels; and which of them measure programs: those that training did not see."""

    images: Array
    labels: Array
    measuring: Array

    def halves(self) -> tuple[Array, Array]:
        """Those that measure, in turn: to choose by, and to measure on."""
        turn = np.cumsum(self.measuring) % 2 == 1
        return self.measuring & turn, self.measuring & ~turn


@dataclass(frozen=True, eq=False)
class MeasuredNetwork:
    """The network that follows the kernels, and digits to measure it on, where there are any."""

    network: ChipNetwork
    digits: ChipDigits | None = None

    def metrics(self, text: str) -> Metrics | None:
        """accuracy without noise, and instructions, time and energy of a frame; None without digits."""
        return None if self.digits is None else dict(_measured(self, text))

    def sentence(self, text: str) -> str:
        """What of a frame the array does."""
        network, program = self.network, parse_program(text)
        cost = frame_cost(program, network, [0])
        return (
            f"As a network: {cost.instructions} instructions a frame, {cost.array_us:.1f} us and {cost.array_uj:.1f} uJ on the array with "
            f"thresholds; then set pixels are read out and {network.products} products computed behind the chip."
        )


def read_digits(path: Path, network: ChipNetwork) -> ChipDigits:
    """The images of a file. Raises as `read_labelled_images`."""
    images, labels = read_labelled_images(path, network.side)
    return ChipDigits(images, labels, network.unseen(len(images)))


@lru_cache(maxsize=16)
def _measured(measured: MeasuredNetwork, text: str) -> tuple[tuple[str, float], ...]:
    digits, network = measured.digits, measured.network
    if digits is None:
        return ()
    images, labels = digits.images[digits.measuring], digits.labels[digits.measuring]
    exact = run_network(text, network, images)
    cost = frame_cost(parse_program(text), network, exact.events)
    return (
        ("accuracy", float(np.mean(network.classes(exact.counts) == labels))),
        ("frame_instructions", float(cost.instructions)),
        ("frame_us", cost.frame_us),
        ("frame_energy_uj", cost.frame_uj),
    )


def first_digit(measured: MeasuredNetwork) -> Array | None:
    """An image to draw: the first that training did not see."""
    return None if measured.digits is None else measured.digits.images[measured.digits.measuring][0]


def network_with_digits(network: ChipNetwork | None, data: str | None, name: str) -> MeasuredNetwork | None:
    """What follows the kernels of an input, with the digits of the file `data`; None for kernels alone. ValueError where digits are given
    for these."""
    if network is None:
        if data is not None:
            raise ValueError(f"{name}: --data has images for a network, and these are kernels alone.")
        return None
    return MeasuredNetwork(network, None if data is None else read_digits(Path(data), network))
