"""Every classifier and regressor of scikit-learn that skl2onnx converts, trained on small data, and whether what it becomes is what
onnxruntime says."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from skl2onnx import supported_converters, to_onnx
from sklearn.base import is_classifier
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators

from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.forest.importing import read_forest
from kilotune.codegen.trained.classical import TREES
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from kilotune.codegen.trained.onnx_models import read_onnx

TOLERANCE = 1e-4
"""onnxruntime sums in 32 bits, whose errors grow with what is summed: relative to the largest result."""

KERNELS = ("linear", "poly", "rbf", "sigmoid")


def estimator_verdicts(match: str, folder: Path) -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Name and kind of every estimator whose name has `match` in it, alone and behind a scaler, and what says in what its program
    differs from onnxruntime's results: classes where it is a classifier, else numbers."""
    for kind, made in _estimators():
        if match not in kind:
            continue
        for scaled in (False, True):
            name = f"scaled {kind}" if scaled else kind
            file = _converted(make_pipeline(StandardScaler(), made) if scaled else made)
            results = None if file is None else _results(file)
            if file is not None and results is not None:
                path = folder / "estimator.onnx"
                onnx.save(file, str(path))
                yield name, kind.split("(")[0], partial(_difference, path, results, is_classifier(made))


def _estimators() -> Iterator[tuple[str, Any]]:
    """All that can be made without being told what of, and some with other kernels."""
    known = {name.removeprefix("Sklearn") for name in supported_converters(True)} | set(supported_converters(False))
    for kind in ("classifier", "regressor", "outlier_detector"):
        for name, family in all_estimators(type_filter=kind) if kind != "outlier_detector" else _detectors():
            if name not in known:
                continue
            arguments = inspect.signature(family).parameters
            given: dict[str, Any] = {"random_state": 0} if "random_state" in arguments else {}
            if "estimators" in arguments:
                base = LogisticRegression() if kind == "classifier" else Ridge()
                given["estimators"] = [("first", base), ("second", base)]
            elif arguments.get("estimator") is not None and arguments["estimator"].default is inspect.Parameter.empty:
                given["estimator"] = LogisticRegression() if kind == "classifier" else Ridge()
            yield name, family(**given)
            if "kernel" in arguments and arguments["kernel"].default == "rbf":
                yield from (
                    (f"{name}({kernel})", family(kernel=kernel, **given)) for kernel in KERNELS if kernel != "rbf"
                )


def _detectors() -> list[tuple[str, Any]]:
    return [
        (name, family)
        for name, family in all_estimators()
        if getattr(family, "_estimator_type", "") == "outlier_detector" or name == "OneClassSVM"
    ]


def _converted(estimator: Any) -> onnx.ModelProto | None:
    """The file of a fitted estimator; None where scikit-learn cannot fit it to plain data, or skl2onnx does not convert it."""
    features, classes = load_iris(return_X_y=True)
    features = features.astype(np.float32)
    targets = classes if is_classifier(estimator) else features[:, 0] + features[:, 1] * features[:, 2] / 10
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            estimator.fit(features, targets)
            options = {"zipmap": False} if is_classifier(estimator) else None
            file: onnx.ModelProto = to_onnx(estimator, features[:1], options=options)
            return file
        except Exception:  # whatever those two cannot do is none of ours
            return None


def _samples() -> np.ndarray:
    """What programs are compared on [samples, features]: the training data, and noise around them."""
    features = load_iris(return_X_y=True)[0]
    noise = np.random.default_rng(0).normal(features.mean(axis=0), 1.5 * features.std(axis=0), (100, 4))
    return np.concatenate([features, noise]).astype(np.float32)


def _results(file: onnx.ModelProto) -> list[np.ndarray] | None:
    """What onnxruntime returns; None where it refuses the file, or some of the samples."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(file.SerializeToString(), options)
        return [np.asarray(one) for one in session.run(None, {session.get_inputs()[0].name: _samples()})]
    except Exception:  # without a reference there is nothing to compare with
        return None


def _difference(path: Path, results: list[np.ndarray], classifies: bool) -> str:
    """In what the program of a file differs from `results`, "" for in nothing. Where onnxruntime's own decision is lost in its rounding
    (an outlier detector's sum is zero), no class is asked for."""
    samples = _samples()
    found = _computed(path, samples.astype(np.float64), classifies)
    first = results[0]
    if classifies or first.dtype.kind in "iu":
        clear = np.ones(len(samples), dtype=bool)
        if not classifies and len(results) == 2:
            sums = np.abs(results[1].reshape(len(samples), -1)[:, 0])
            clear = sums > TOLERANCE * max(1.0, float(sums.max()))
        differ = int((found.reshape(-1) != first.reshape(-1))[clear].sum())
        return f"{differ} of {len(samples)} classes" if differ else ""
    worst = float(np.abs(found - first.reshape(found.shape)).max())
    return "" if worst <= TOLERANCE * max(1.0, float(np.abs(first).max())) else f"off by {worst:g}"


def _computed(path: Path, samples: np.ndarray, classifies: bool) -> np.ndarray:
    """What the float program returns: classes by their names, or numbers."""
    if any(node.kind in TREES for node in read_onnx(path).nodes):
        forest = read_forest(path)
        names = np.asarray(forest.classes or range(forest.class_count or 0))
        return np.asarray(forest.scores(samples) if forest.class_count is None else names[forest.labels(samples)])
    data = path.with_suffix(".npz")
    np.savez(data, X=samples)
    bundle = import_bundle(path, data, returns=Returns.CLASS if classifies else None)
    scaled = samples if bundle.scaling is None else bundle.scaling.apply(samples)
    outputs = run_float(bundle.program, bundle.parameters, scaled).outputs
    if bundle.class_count is None:
        return outputs
    return np.take(np.asarray(bundle.class_names or range(bundle.class_count)), outputs[:, 0].astype(int))
