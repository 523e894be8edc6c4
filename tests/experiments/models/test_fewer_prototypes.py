"""Prototypes that the others make up for are left out, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.float_evaluator import run_float
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.models.train.bundle import write_bundle
from kilotune.experiments.models.train.fewer_prototypes import GaussianSum, classes, fewer, fewest, pruned


def drawn(prototypes: int, scores: int) -> tuple[GaussianSum, np.ndarray]:
    rng = np.random.default_rng(3)
    places = rng.normal(size=(prototypes, 2))
    model = GaussianSum(rng.normal(size=(2, 5)), places, rng.normal(size=(prototypes, scores)), 0.5)
    return model, rng.normal(size=(300, 5))


@pytest.mark.parametrize("scores", [1, 4])
def test_prototypes_that_stand_twice_or_score_nothing_are_left_out(scores: int) -> None:
    plain, samples = drawn(5, scores)
    places = np.concatenate([plain.places, plain.places[:2], [[0.3, 0.4]]])
    model = GaussianSum(
        plain.projection, places, np.concatenate([plain.scores, plain.scores[:2], plain.scores[:1] * 0]), 0.5
    )
    before = model.kernels(samples) @ model.scores
    smaller = {len(one.places): one for one in fewer(model, samples)}
    np.testing.assert_allclose(smaller[5].kernels(samples) @ smaller[5].scores, before, atol=1e-4)
    assert np.abs(smaller[4].kernels(samples) @ smaller[4].scores - before).max() > 1e-2
    found = fewest(model, samples, 0)
    assert len(found.places) <= 5
    after = found.kernels(samples) @ found.scores
    assert (classes(after) == classes(before)).all()
    if scores > 1:
        np.testing.assert_allclose(found.scores.max(axis=1), -found.scores.min(axis=1))


@pytest.mark.parametrize("name", ["protonn-digits", "protonn-cancer"])
def test_the_smaller_bundle_changes_as_many_classes_as_are_permitted(name: str, tmp_path: Path) -> None:
    folder = resolve_model(name)
    made = pruned(folder, 1)
    write_bundle(made, tmp_path)
    labels = []
    for place in (folder, tmp_path):
        bundle = load_bundle(place)
        assert bundle.train is not None
        labels.append(run_float(bundle.program, bundle.parameters, bundle.train.features).outputs[:, 0])
    assert (labels[0] != labels[1]).sum() <= 1
    assert len(made.parameters["B"]) < len(np.load(folder / "B.npy"))
