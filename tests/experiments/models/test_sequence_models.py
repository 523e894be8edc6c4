"""FastGRNNs trained in NumPy: gradients are those of the loss, and the bundle computes what was trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.float_evaluator import run_float
from kilotune.experiments.models.train.bundle import write_bundle
from kilotune.experiments.models.train.sequence_models import Windows, gradients, read_windows, run, start, trained


def loss(weights: dict[str, np.ndarray], values: np.ndarray, labels: np.ndarray) -> float:
    scores = run(weights, values)[0]
    return float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(labels)), labels]).mean())


def test_gradients_are_slopes_of_the_loss() -> None:
    random = np.random.default_rng(0)
    weights = start(3, 4, 5, random)
    values, labels = random.normal(size=(6, 7, 3)), random.integers(0, 5, 6)
    found = gradients(weights, values, labels)
    for name, value in weights.items():
        for place in np.ndindex(value.shape):
            ends = []
            for by in (1e-5, -1e-5):
                moved = value.copy()
                moved[place] += by
                ends.append(loss({**weights, name: moved}, values, labels))
            assert abs((ends[0] - ends[1]) / 2e-5 - found[name][place]) < 1e-7


def test_the_bundle_computes_what_was_trained(tmp_path: Path) -> None:
    """Windows of two classes that differ in their first step only, so what was seen has to be kept."""
    random = np.random.default_rng(0)
    values = random.normal(0.0, 0.1, (80, 6, 2))
    labels = np.arange(80) % 2
    values[:, 0] += np.where(labels, 1.0, -1.0)[:, None]
    np.savez(tmp_path / "w.npz", X=values, y=labels, test=np.arange(80) >= 60)
    parts = read_windows(tmp_path / "w.npz")
    assert [part.values.shape for part in parts] == [(60, 6, 2), (20, 6, 2)]
    assert all(isinstance(part, Windows) and np.abs(part.values).max() <= 1.0 for part in parts)
    write_bundle(trained("w", parts, hidden=4, epochs=60), tmp_path / "w")
    bundle = load_bundle(tmp_path / "w")
    assert bundle.test is not None
    found = run_float(bundle.program, bundle.parameters, bundle.test.features).labels
    assert (found == bundle.test.targets).all()
    assert "test 100.00 %" in (tmp_path / "w" / "README.md").read_text()
