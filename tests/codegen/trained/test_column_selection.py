"""Columns that a pipeline of scikit-learn chooses and scales in parts: as onnxruntime executes the file, and part of the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingRegressor
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_classif
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC

from kilotune.codegen import ir
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle, read_trained
from tests.codegen.trained.cases import draw, numbers
from tests.codegen.trained.onnx_files import Case, float_results, reference

skl2onnx = pytest.importorskip("skl2onnx")

RANDOM = np.random.default_rng(3)
FEATURES = (RANDOM.normal(size=(80, 6)) * [1, 2, 3, 0, 0.5, 1] + 1).astype(np.float32)  # one of them is constant
KINDS = (FEATURES[:, 0] > 1).astype(int) + (FEATURES[:, 1] > 1)
VALUES = np.exp(0.3 * (FEATURES[:, 0] + FEATURES[:, 1]))

PARTS = ColumnTransformer([("a", StandardScaler(), [0, 4]), ("b", MinMaxScaler(), [1, 5, 2])], remainder="passthrough")
FEWER = ColumnTransformer([("a", MaxAbsScaler(), [4, 0, 2]), ("b", "drop", [1]), ("c", StandardScaler(), [2])])


@pytest.mark.parametrize(
    ("steps", "operations"),
    [
        ((PARTS, LogisticRegression()), ["MatMul", "Add", "ArgMax"]),
        ((FEWER, Ridge()), ["MatMul", "Add"]),
        ((VarianceThreshold(), LogisticRegression()), ["MatMul", "Add", "ArgMax"]),
        ((StandardScaler(), SelectKBest(f_classif, k=3), LogisticRegression()), ["MatMul", "Add", "ArgMax"]),
        ((StandardScaler(), OneVsRestClassifier(LogisticRegression())), ["MatMul", "Add", "ArgMax"]),
        ((OneVsRestClassifier(LinearSVC()),), ["MatMul", "Add", "ArgMax"]),
        (
            (StandardScaler(), GaussianNB(var_smoothing=0.1)),
            ["Subtract", "Multiply"] * 2 + ["Multiply", "MatMul", "Multiply", "Subtract", "Add", "ArgMax"],
        ),
        ((VotingRegressor([("a", Ridge()), ("b", Ridge(9))]),), ["MatMul", "Add", "MatMul", "Add", "Add"]),
        ((PoissonRegressor(),), ["MatMul", "Add", "Exp"]),
        ((StandardScaler(), PoissonRegressor()), ["MatMul", "Add", "Add", "Exp"]),
        ((FEWER, GammaRegressor()), ["MatMul", "Add", "Add", "Exp"]),
    ],
    ids=lambda given: "-".join(type(step).__name__ for step in given) if isinstance(given, tuple) else "",
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_a_pipeline_is_one_product_and_what_onnxruntime_makes_of_it(
    steps: tuple[Any, ...], operations: list[str], tmp_path: Path
) -> None:
    targets = KINDS if operations[-1] == "ArgMax" else VALUES
    fitted = make_pipeline(*steps).fit(FEATURES, targets)
    options = (
        {"zipmap": False} if operations[-1] == "ArgMax" and not isinstance(steps[-1], OneVsRestClassifier) else None
    )
    path = tmp_path / "pipeline.onnx"
    onnx.save(skl2onnx.to_onnx(fitted, FEATURES[:1], options=options), str(path))
    np.savez(tmp_path / "data.npz", X=FEATURES, y=targets)
    session = onnxruntime.InferenceSession(str(path))
    expected = session.run(None, {session.get_inputs()[0].name: FEATURES})[0].reshape(-1)
    bundle = import_bundle(path, tmp_path / "data.npz")
    assert bundle.train is not None
    found = run_float(bundle.program, bundle.parameters, bundle.train.features).outputs[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert [type(operation).__name__ for operation in ir.operations(bundle.program.body)] == operations


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_one_logistic_classifier_for_each_class_is_told_by_its_scores(tmp_path: Path) -> None:
    """As scikit-learn predicts, and as the file's probabilities do where they are not rounded to 0 or 1."""
    fitted = make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", alpha=0.1, random_state=0))
    fitted.fit(FEATURES, KINDS + 4)
    path = tmp_path / "sgd.onnx"
    onnx.save(skl2onnx.to_onnx(fitted, FEATURES[:1], options={"zipmap": False}), str(path))
    np.savez(tmp_path / "data.npz", X=FEATURES, y=KINDS + 4)
    bundle = import_bundle(path, tmp_path / "data.npz")
    assert bundle.train is not None
    found = run_float(bundle.program, bundle.parameters, bundle.train.features).labels
    labels = onnxruntime.InferenceSession(str(path)).run(None, {"X": FEATURES})[0]
    np.testing.assert_array_equal(found + 4, labels)
    np.testing.assert_array_equal(labels, fitted.predict(FEATURES))
    assert bundle.class_names == (4, 5, 6)
    assert [type(o).__name__ for o in ir.operations(bundle.program.body)] == ["MatMul", "Add", "ArgMax"]


ROW = [
    ("Gather", ["x", "i"], ["g"], {"axis": 1}),
    ("Sub", ["one", "g"], ["s"], {}),
    ("Div", ["x", "d"], ["q"], {}),
    ("Concat", ["s", "q"], ["c"], {"axis": -1}),
]
ROW_CONSTANTS = {"i": numbers(4, -6, 4), "one": np.ones((), np.float32), "d": draw(6)}


@pytest.mark.parametrize(
    "case",
    [
        Case("read-by-others", (1, 6), [*ROW, ("Relu", ["c"], ["y"], {})], ROW_CONSTANTS),
        Case("returned", (1, 6), [*ROW, ("Identity", ["c"], ["y"], {})], ROW_CONSTANTS),
        Case(
            "read-by-both",
            (1, 6),
            [*ROW, ("Gemm", ["c", "w", "b"], ["p"], {"transB": 1, "alpha": 0.5, "beta": 2.0}), ("Tanh", ["c"], ["t"], {}),
             ("Concat", ["p", "t"], ["y"], {"axis": 1})],
            {**ROW_CONSTANTS, "w": draw(2, 9), "b": draw(2)},
        ),
    ],
    ids=lambda case: case.name,
)  # fmt: skip
def test_a_row_that_other_operators_read_is_made(case: Case, tmp_path: Path) -> None:
    path = case.write(tmp_path)
    found = float_results(convert(read_trained(path), case.name, Returns.VALUE), case.features)
    np.testing.assert_allclose(found, reference(path, case.features), rtol=1e-5, atol=1e-5)


def test_a_product_reads_a_short_row_that_is_made_anyway(tmp_path: Path) -> None:
    """Its weights stay as few as the file has, and are none of features that nothing chooses."""
    nodes = [
        ("Gather", ["x", "i"], ["g"], {"axis": 1}),
        ("Mul", ["g", "f"], ["s"], {}),
        ("MatMul", ["s", "w"], ["p"], {}),
        ("Tanh", ["s"], ["t"], {}),
        ("Concat", ["p", "t"], ["y"], {"axis": 1}),
    ]
    case = Case("short-row", (1, 6), nodes, {"i": numbers(4, -6, 1), "f": draw(3), "w": draw(3, 2)})
    path = case.write(tmp_path)
    converted = convert(read_trained(path), case.name, Returns.VALUE)
    found = float_results(converted, case.features)
    np.testing.assert_allclose(found, reference(path, case.features), rtol=1e-5, atol=1e-5)
    product = next(o for o in ir.operations(converted.program.body) if isinstance(o, ir.MatMul))
    assert sorted((product.a.size, product.b.size)) == [3, 6]
