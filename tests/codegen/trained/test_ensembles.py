"""Ensembles of linear models, which use shares of classes before the end: their programs return the classes of onnxruntime."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.importing import import_bundle


def estimator(name: str) -> Any:
    """Unfitted, by a short name."""
    pytest.importorskip("skl2onnx")
    from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    parts = [("one", LogisticRegression()), ("other", LogisticRegression(C=0.01))]
    return {
        "bagging": BaggingClassifier(LogisticRegression(), n_estimators=3, random_state=0),
        "voting": VotingClassifier(parts, voting="soft", weights=np.array([2, 1]), flatten_transform=False),
        "stacking": StackingClassifier(parts, cv=2),
        "polynomial": make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=1000)),
        "cubes": make_pipeline(PolynomialFeatures(3, include_bias=False), LinearRegression()),
        "interactions": make_pipeline(PolynomialFeatures(3, interaction_only=True), LinearRegression()),
    }[name]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["bagging", "voting", "stacking", "polynomial", "cubes", "interactions"])
def test_the_program_says_what_onnxruntime_says(name: str, classes: int, tmp_path: Path) -> None:
    model = estimator(name)
    import onnxruntime
    from skl2onnx import to_onnx

    random = np.random.default_rng(classes)
    features = random.normal(0, 1, (90, 3)).astype(np.float32)
    targets = np.digitize(features[:, 0] * features[:, 1] + features[:, 2], [-0.4, 0.4][: classes - 1])
    numeric = name in ("cubes", "interactions")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features, targets + features[:, 0] if numeric else targets)
        file = to_onnx(model, features[:1], options=None if numeric else {"zipmap": False})
    path = tmp_path / "model.onnx"
    onnx.save(file, str(path))
    session = onnxruntime.InferenceSession(file.SerializeToString())
    expected = session.run(None, {session.get_inputs()[0].name: features})[0].reshape(-1)
    np.savez(tmp_path / "data.npz", X=features)
    bundle = import_bundle(path, tmp_path / "data.npz")
    given = features if bundle.scaling is None else bundle.scaling.apply(features.astype(float))
    found = run_float(bundle.program, bundle.parameters, np.asarray(given, float)).outputs[:, 0]
    np.testing.assert_allclose(found, expected, rtol=0 if not numeric else 1e-4, atol=0 if not numeric else 1e-4)
    assert numeric or len(set(expected.tolist())) == classes
