"""Bounds of integer tensors: no image leaves them, and they are no wider than they have to be where all is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kilotune.codegen.onnx.bounds import bits_of, partial_sum_bits, product_bounds
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from tests.codegen.cm.networks import RandomNetwork


@pytest.mark.parametrize("seed", range(30))
def test_no_image_leaves_them(seed: int) -> None:
    graph = import_model(RandomNetwork(seed).model(12), "random")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 2, seed))
    rng = np.random.default_rng(seed)
    low, high = quantised.bounds[graph.input]
    for image in rng.choice([low, 0, high], (20, *graph.shapes[graph.input])):
        for name, tensor in evaluate(quantised.graph, image, integer=True).items():
            assert quantised.bounds[name][0] <= tensor.min()
            assert tensor.max() <= quantised.bounds[name][1]


def test_products_reach_their_bounds() -> None:
    rows, bias = np.array([[3, -2, 1], [-5, 0, 4]]), np.array([10, -7])
    for operand in ((-3, 5), (0, 7), (2, 4)):
        ends = (min(operand[0], 0), max(operand[1], 0))
        vectors = np.array(list(itertools.product(ends, repeat=3)))
        partial = np.concatenate([vectors @ rows.T, vectors @ rows.T + bias])
        assert product_bounds(rows, operand, bias) == (partial.min(), partial.max())


@pytest.mark.parametrize(
    ("bounds", "bits"), [((0, 0), 1), ((0, 1), 1), ((0, 255), 8), ((-127, 127), 8), ((-128, 127), 8), ((-1, 128), 9)]
)
def test_bits_that_hold_them(bounds: tuple[int, int], bits: int) -> None:
    assert bits_of(bounds) == bits


@pytest.mark.parametrize("operand", [(-127, 127), (0, 255)])
@pytest.mark.parametrize("rows", [1, 2, 64, 192, 256])
def test_partial_sums_fit_and_need_their_bits(operand: tuple[int, int], rows: int) -> None:
    largest = rows * 127 * max(-operand[0], operand[1])
    bits = partial_sum_bits(operand, 8, rows)
    assert bits_of((-largest, largest)) in (bits - 1, bits)
