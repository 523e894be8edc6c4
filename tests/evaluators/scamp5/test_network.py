"""A network on the array against counts by hand, and against a convolution that shares nothing with programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen.scamp.kernel import KernelSet
from kilotune.codegen.scamp.network import ChipNetwork, DenseLayer, Region
from kilotune.codegen.scamp.text import parse_program
from kilotune.evaluators.scamp5.array import REAL_CHIP, Chip
from kilotune.evaluators.scamp5.kernel_accuracy import KernelAccuracy
from kilotune.evaluators.scamp5.network import (
    EVENT_US,
    LEAST_MARGIN,
    PRODUCT_US,
    accuracy,
    frame_cost,
    margin_of,
    noisy_accuracy,
    run_network,
)
from kilotune.evaluators.scamp5.stages import images_after
from kilotune.experiments.problems.reverse_split.filters import FILTERS
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.space import ReverseSplitSpace

BRIGHTER = "# scamp5; image in A; results in B, A\nB = sub(A, A)\nB = movx(A, east)\n"


def two_halves(side: int, thresholds: tuple[int, ...], level: int = 20) -> ChipNetwork:
    """Which half of the image has more set pixels of the first kernel."""
    regions = (Region(0, 0, side, side // 2), Region(0, side // 2, side, side))
    rows = [(1, 0), (0, 1)] + [(0, 0)] * (2 * len(thresholds) - 2)
    return ChipNetwork(side, 100, level, thresholds, regions, (DenseLayer(tuple(rows), (0, 0)),), 2)


def test_counts_events_and_classes_by_hand() -> None:
    images = np.zeros((2, 8, 8))
    images[0, 1:4, 0:3] = 100  # nine pixels in the west; seen from the west they lie one column further west
    images[1, :, 4] = 255
    images[1, 0, 0] = 99  # not bright enough
    network = two_halves(8, (10, 10))
    found = run_network(BRIGHTER, network, images)
    assert found.counts.tolist() == [[6, 0, 9, 0], [8, 0, 0, 8]]
    assert found.events.tolist() == [18, 16]  # three of them lie outside the image's window
    assert network.classes(found.counts).tolist() == [0, 0]
    assert network.classes(found.counts[:, [2, 3, 0, 1]]).tolist() == [0, 1]
    assert accuracy(BRIGHTER, network, images, [0, 1]) == 0.5
    assert network.unseen(5).tolist() == [True, False, True, False, True]


FAR = "# scamp5; image in A; results in B\nB = mov2x(A, west, west)\n" + "".join(
    f"B = mov2x(B, {way}, {way})\n" for way in ("west",) * 3 + ("east",) * 4
)
"""The image, eight columns to the east and back."""


def test_what_goes_far_beyond_the_image_comes_back() -> None:
    network, images = two_halves(28, (10,)), np.full((1, 28, 28), 255)
    assert margin_of(FAR, 28) == 8
    assert run_network(FAR, network, images).counts.tolist() == [[14 * 28, 14 * 28]]
    assert margin_of(BRIGHTER, 28) == LEAST_MARGIN


def test_what_goes_beyond_the_array_does_not() -> None:
    """Of an image as wide as the array eight columns of 256 are lost."""
    network, images = two_halves(256, (10,)), np.full((1, 256, 256), 255)
    assert margin_of(FAR, 256) == margin_of(BRIGHTER, 256) == 0
    assert run_network(FAR, network, images).counts.tolist() == [[128 * 256, 120 * 256]]
    assert margin_of(FAR, 250) == 3


def test_programs_give_the_counts_of_a_plain_convolution() -> None:
    generator = np.random.default_rng(0)
    kernels = FILTERS["analognet2"].kernels
    wanted = KernelSet(kernels.kernels).approximate(2)
    space = ReverseSplitSpace(SplitProblem(wanted, "scamp5", 6))
    text = space.program(space.program_candidate(space.first_plan)).text
    images = np.kron(generator.random((12, 5, 5)) < 0.4, np.ones((4, 4))) * 255
    network = two_halves(20, (10, 10, 10), 80)
    network = replace(
        network, layers=(DenseLayer(tuple(map(tuple, generator.integers(-9, 9, (6, 3)).tolist())), (3, -2, 0)),)
    )
    labels = network.classes(run_network(text, network, images).counts)
    assert len(set(labels.tolist())) > 1
    assert KernelAccuracy(network, wanted.sums, 2, images, labels).accuracy == 1.0


def test_changing_a_weight_is_computing_with_another_one() -> None:
    generator = np.random.default_rng(1)
    images, labels = (generator.random((400, 10, 10)) < 0.5) * 200, generator.integers(0, 2, 400)
    network = two_halves(10, (25,))
    (total,) = FILTERS["sobel"].kernels.approximate(0).sums
    meter = KernelAccuracy(network, [total], 0, images, labels)
    cell = (1, 0)
    changed = type(total).of({**dict(total), cell: total.weight(cell) + 3})
    other = KernelAccuracy(network, [changed], 0, images, labels)
    assert meter.accuracy_with(0, cell, 3) == other.accuracy != meter.accuracy
    meter.change(0, cell, 3)
    assert meter.accuracy == other.accuracy
    assert meter.accuracy_with(0, (0, 1), -2) == other.accuracy_with(0, (0, 1), -2)


def test_noise_is_a_draw_a_seed_and_costs_accuracy_where_thresholds_are_near() -> None:
    generator = np.random.default_rng(2)
    images = (generator.random((60, 8, 8)) < 0.5) * 255
    near = two_halves(8, (19, 10))
    labels = near.classes(run_network(BRIGHTER, near, images).counts)
    assert accuracy(BRIGHTER, near, images, labels, REAL_CHIP) == accuracy(BRIGHTER, near, images, labels, REAL_CHIP)
    noisy = noisy_accuracy(BRIGHTER, near, images, labels, REAL_CHIP, 6)
    assert noisy.mean < 0.95
    assert noisy.half_width > 0
    far = two_halves(8, (10, 10))
    assert (
        noisy_accuracy(BRIGHTER, far, images, far.classes(run_network(BRIGHTER, far, images).counts), REAL_CHIP, 6).mean
        == 1.0
    )
    silent = Chip(noise=None)
    assert accuracy(BRIGHTER, near, images, labels, silent) == 1.0


def test_a_frame_by_hand() -> None:
    """Two macros of two transfers, two thresholds; three inputs to two outputs."""
    network = two_halves(8, (10, 10))
    cost = frame_cost(parse_program(BRIGHTER), network, [10, 30])
    assert cost.instructions == 9 + 2 + 2 * 5
    assert cost.array_us == pytest.approx((12 + 4 + 2 * 6) / 10)
    assert cost.frame_us == pytest.approx(2.8 + 20 * EVENT_US + 8 * PRODUCT_US)
    assert cost.array_uj == pytest.approx(2.8 * 1.23)


def test_stages_are_the_images_on_the_way() -> None:
    image = np.arange(16.0).reshape(4, 4)
    first, second = images_after(BRIGHTER, image)
    assert not first.any()
    assert np.array_equal(second[:, :-1], image[:, 1:])
