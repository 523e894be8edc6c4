"""Weights that share 16 integers: the table is the best there is, codes and table taking turns never lose, and zeros stay zero."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.fixed.codebook import cluster_means, coded_weights
from kilotune.codegen.fixed.encoding import ParameterEncoding, RowShifts, stored_integers
from kilotune.codegen.fixed.sequential_rounding import SequentialRounding, WeightGroup


def clustering_error(values: np.ndarray, weights: np.ndarray, means: np.ndarray) -> float:
    return float((weights * np.min((values[:, None] - means[None, :]) ** 2, axis=1)).sum())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 4))
def test_clusters_are_the_best_of_all_cuts(seed: int, count: int, most: int) -> None:
    """Against every way to cut the values, in order, into that many pieces."""
    random = np.random.default_rng(seed)
    values, weights = np.sort(random.normal(0, 10, count)), random.uniform(0.1, 5, count)
    means = cluster_means(values, weights, most)
    pieces = min(most, count)
    tried = []
    for cuts in itertools.combinations(range(1, count), pieces - 1):
        ends = [0, *cuts, count]
        means_of = [np.average(values[a:b], weights=weights[a:b]) for a, b in itertools.pairwise(ends)]
        tried.append(clustering_error(values, weights, np.array(means_of)))
    assert len(means) == pieces
    assert clustering_error(values, weights, means) == pytest.approx(min(tried), abs=1e-9)


def layer(seed: int, sparse: bool = False) -> tuple[np.ndarray, SequentialRounding, np.ndarray]:
    """Weights of 12 sums of 20 products, few of them far from zero; how they are rounded; and the second moment of their inputs."""
    random = np.random.default_rng(seed)
    inputs = random.normal(0, 1, (20, 3)) @ random.normal(0, 1, (3, 200)) + 0.3 * random.normal(0, 1, (20, 200))
    elements = np.arange(240, dtype=np.int32).reshape(20, 12)
    weights = random.standard_t(3, 240)
    weights *= 120 / np.abs(weights).max()
    weights = np.where(random.random(240) < 0.4, 0.0, weights) if sparse else weights
    group = WeightGroup(elements, inputs @ inputs.T)
    return weights, SequentialRounding((group,), sparse), group.damped


def error_of_sums(weights: np.ndarray, integers: np.ndarray, moment: np.ndarray) -> float:
    lost = (weights - integers).reshape(20, 12)
    return float(np.einsum("ps,pq,qs->", lost, moment, lost))


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_keep_their_values_better_than_with_equal_steps(sparse: bool) -> None:
    """Half the error of 4 bits of equal steps, rounded alike, over a few layers; and no more than with codes that are the nearest."""
    uniform, nearest, ours = 0.0, 0.0, 0.0
    for seed in range(6):
        weights, rounding, moment = layer(seed, sparse)
        scale = np.ceil(np.log2(np.abs(weights).max() / 7.5))
        steps = ParameterEncoding(4, rounding=rounding).integers(np.ldexp(weights, int(-scale)), 0) * 2.0**scale
        alone, together = coded_weights(weights, None).integers, coded_weights(weights, rounding).integers
        assert not sparse or ((alone == 0) & (together == 0))[weights == 0].all()
        uniform += error_of_sums(weights, steps, moment)
        nearest += error_of_sums(weights, alone, moment)
        ours += error_of_sums(weights, together, moment)
    assert ours < 0.5 * uniform
    assert ours < nearest


def test_table_and_codes_taking_turns_are_better_than_codes_for_the_first_table() -> None:
    """That of the clusters, rounded. Summed over a few layers 6 % of the error go."""
    first, ours = 0.0, 0.0
    for seed in range(6):
        weights, rounding, moment = layer(seed)
        order, mass = np.argsort(weights), np.repeat(np.diag(moment), 12)
        table = np.unique(np.floor(cluster_means(weights[order], mass[order], 16) + 0.5)).astype(np.int64)
        between = (table[1:] + table[:-1]) / 2
        codes = rounding.codes(weights, lambda numbers, t=table, b=between: t[np.searchsorted(b, numbers)])  # type: ignore[misc]
        first += error_of_sums(weights, codes, moment)
        ours += error_of_sums(weights, coded_weights(weights, rounding).integers, moment)
    assert ours < 0.97 * first


def test_codes_are_places_in_a_table_of_bytes() -> None:
    """Weights of few values are exact; the table is in order and filled up, and codes count from its middle."""
    values = np.array([[-100.0, 3.0, 3.0], [0.0, 90.0, -100.0]]) / 64
    encoding = ParameterEncoding(4, codebook=True)
    table = [-100, 0, 3, *[90] * 13]
    assert encoding.table(values, 6).tolist() == table
    np.testing.assert_array_equal(encoding.codes(values, 6), [[-8, -6, -6], [-7, -5, -8]])
    np.testing.assert_array_equal(stored_integers(values, 8, 6, encoding), [[-100, 3, 3], [0, 90, -100]])
    assert list(encoding.packed(encoding.codes(values, 6).reshape(-1))) == [0x20, 0x12, 0x03]
    assert (encoding.integer_bits, encoding.table_bytes) == (8, 16)
    assert stored_integers(1000 * values, 8, 6, encoding).min() == -128  # what lies beyond 8 bits is clipped
    assert ParameterEncoding(4, codebook=True).integers(np.zeros(3), 0).tolist() == [0, 0, 0]


def test_a_table_is_of_4_bits_without_shifts() -> None:
    for wrong in ({"width": 3}, {"width": 4, "shift": 1}, {"width": 4, "rows": RowShifts((0,), (1, 0))}):
        with pytest.raises(ValueError, match="codes of a table have 4 bits and no shifts"):
            ParameterEncoding(**wrong, codebook=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no table"):
        ParameterEncoding(4).table(np.zeros(1), 0)
