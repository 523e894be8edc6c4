"""Weights rounded together: their sums keep their values better than with each weight on its own."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.sequential_rounding import SequentialRounding, WeightGroup, sequential_roundings

MODELS = Path(__file__).parents[3] / "experiments" / "models"


def nearest(values: np.ndarray) -> np.ndarray:
    return np.clip(np.floor(values + 0.5), -2, 1).astype(np.int64)


def drawn_group(seed: int, length: int, sums: int) -> tuple[np.random.Generator, WeightGroup]:
    """Inputs that hang together, as those of a layer do."""
    random = np.random.default_rng(seed)
    inputs = random.normal(0, 1, (length, 2)) @ random.normal(0, 1, (2, 200)) + 0.3 * random.normal(0, 1, (length, 200))
    elements = random.permutation(length * sums).reshape(length, sums).astype(np.int32)
    return random, WeightGroup(elements, inputs @ inputs.T)


def error(group: WeightGroup, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """d^T H d of every sum."""
    lost = (weights - codes)[group.elements]
    return np.asarray(np.einsum("qr,qs,sr->r", lost, group.damped, lost))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 3))
def test_no_other_code_alone_is_better_and_brute_force_is_near(seed: int, length: int, sums: int) -> None:
    random, group = drawn_group(seed, length, sums)
    weights = random.normal(0, 1, length * sums)
    codes = SequentialRounding((group,), sparse=False).codes(weights, nearest)
    found = error(group, weights, codes)
    for place in range(length * sums):
        for other in (-2, -1, 0, 1):
            changed = codes.copy()
            changed[place] = other
            assert (error(group, weights, changed) >= found - 1e-6).all()
    best = np.full(sums, np.inf)
    for tried in itertools.product((-2, -1, 0, 1), repeat=length):
        everywhere = np.zeros(length * sums, dtype=np.int64)
        everywhere[group.elements] = np.array(tried)[:, None]
        best = np.minimum(best, error(group, weights, everywhere))
    assert (found >= best - 1e-6).all()
    assert found.sum() <= error(group, weights, nearest(weights)).sum() * (1 + 1e-9) or found.sum() <= 2 * best.sum()


def test_it_is_much_better_than_the_nearest_codes() -> None:
    """On a dozen layers of 16 inputs: half the error at most, summed."""
    ours, theirs = 0.0, 0.0
    for seed in range(12):
        random, group = drawn_group(seed, 16, 4)
        weights = random.normal(0, 0.7, 64)
        ours += error(group, weights, SequentialRounding((group,), sparse=False).codes(weights, nearest)).sum()
        theirs += error(group, weights, nearest(weights)).sum()
    assert ours < 0.5 * theirs


def test_zeros_of_a_sparse_matrix_stay_zero() -> None:
    random, group = drawn_group(5, 12, 6)
    weights = random.normal(0, 1, 72) * (random.random(72) < 0.4)
    codes = SequentialRounding((group,), sparse=True).codes(weights, nearest)
    assert not codes[weights == 0].any()
    assert error(group, weights, codes).sum() < error(group, weights, nearest(weights)).sum()


def test_what_is_in_no_group_goes_to_the_nearest_code() -> None:
    _, group = drawn_group(1, 3, 1)
    codes = SequentialRounding((group,), sparse=False).codes(np.array([[9.0, 9.0], [9.0, 0.6]]), nearest)
    assert codes.tolist() == [[1, 1], [1, 1]]


def test_second_moments_are_those_of_the_inputs_on_the_data() -> None:
    """LeNet's first filters see patches of padded images, its dense layer 48 numbers; FastGRNN's W a row of pixels in every round."""
    lenet, gru = (load_bundle(MODELS / f"{name}-digits") for name in ("lenet", "fastgrnn16"))
    assert lenet.train is not None
    features = lenet.train.features[:5]
    found = sequential_roundings(lenet.program, lenet.parameters, features)
    assert set(found) == {"F1", "F2", "FC"}
    images = np.pad(features.reshape(5, 8, 8), ((0, 0), (1, 1), (1, 1)))
    patches = np.stack([images[:, y : y + 8, x : x + 8].reshape(-1) for y in range(3) for x in range(3)])
    (group,) = found["F1"].groups
    np.testing.assert_allclose(group.moment, patches @ patches.T)
    np.testing.assert_array_equal(group.elements, np.arange(54).reshape(9, 6))
    rounds = sequential_roundings(gru.program, gru.parameters, features)
    assert set(rounds) == {"W", "U", "FC"}
    pixels = features.reshape(-1, 8)
    np.testing.assert_allclose(rounds["W"].groups[0].moment, pixels.T @ pixels)


def test_an_encoding_rounds_with_it() -> None:
    _, group = drawn_group(3, 8, 2)
    rounding, values = SequentialRounding((group,), sparse=False), np.random.default_rng(0).normal(0, 1, (8, 2))
    encoding = ParameterEncoding(3, 2, rounding)
    expected = rounding.codes(values * 2.0, lambda x: np.clip(np.floor(x + 0.5), -4, 3).astype(np.int64))
    np.testing.assert_array_equal(encoding.codes(values, 3), expected)
    assert (expected != ParameterEncoding(3, 2).codes(values, 3)).any()
