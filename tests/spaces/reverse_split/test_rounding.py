"""Digits go while the accuracy lasts, and what is left is said with its errors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.network import ChipNetwork, DenseLayer, Region
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.kernel_accuracy import KernelAccuracy
from kilotune.spaces.reverse_split.rounding import rounded

KERNELS = KernelSet((Kernel.of_rows([[Fraction(1, 4), 0, -1], [0, Fraction(7, 4), 0], [0, 0, 0]]),))
NETWORK = ChipNetwork(
    8, 100, 40, (50.0,), (Region(0, 0, 8, 4), Region(0, 4, 8, 8)), (DenseLayer(((1, 0), (0, 1)), (0, 0)),)
)


def meter() -> KernelAccuracy:
    """Labels are what the kernels find themselves."""
    images = (np.random.default_rng(3).random((200, 8, 8)) < 0.5) * 255
    wanted = KERNELS.approximate(2)
    silent = KernelAccuracy(NETWORK, wanted.sums, 2, images, np.zeros(200))
    labels = NETWORK.classes(silent._counts)
    return KernelAccuracy(NETWORK, wanted.sums, 2, images, labels)


def test_all_that_costs_nothing_goes() -> None:
    """40 grey levels times 7/4 - 1 + 1/4 are on the same side of 50 as times 2 - 1: only what decides stays."""
    found = rounded(KERNELS.approximate(2), meter(), 1.0)
    assert found.sums == (Sum.of({(0, 0): 2, (1, 1): -1}),)
    assert found.depth == 0
    assert found.approximations[0].errors == {(0, 0): Fraction(1, 4), (-1, 1): Fraction(-1, 4)}
    assert found.largest_error == Fraction(1, 4)


@pytest.mark.parametrize("least", [1.0, 0.9, 0.6, 0.0])
def test_the_accuracy_is_kept_and_no_kernel_vanishes(least: float) -> None:
    found = rounded(KERNELS.approximate(2), meter(), least)
    scale = 4 >> found.depth
    after = meter()
    for cell in {cell for cell, _ in KERNELS.approximate(2).sums[0]}:
        after.change(
            0, cell, scale // 1 * found.sums[0].weight(cell) // 1 - KERNELS.approximate(2).sums[0].weight(cell)
        )
    assert after.accuracy >= least
    assert found.sums[0].terms
    if least == 0.0:
        assert len(found.sums[0].terms) == 1
