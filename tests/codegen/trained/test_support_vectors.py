"""Support vector machines as skl2onnx writes them: kernels, decisions between pairs, votes and their ties as onnxruntime has them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from kilotune.codegen.bundle import Bundle
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.profile import profile
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.margins import float_contest
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.pairwise_contests import Ballot, closest_decisions
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from kilotune.spaces.shiftry.trained_codes import why_not_trained
from tests.codegen.emit.compiled import compile_sources, needs_compiler

X, CLASSES = load_iris(return_X_y=True)
X = (X / 4).astype(np.float32)
AROUND = np.random.default_rng(3).normal(X.mean(axis=0), 2 * X.std(axis=0), (60, 4)).astype(np.float32)
SAMPLES = np.concatenate([X[::5], AROUND])


def written(model: Any, targets: np.ndarray, folder: Path) -> Path:
    model.fit(X[: len(targets)], targets)
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    path = folder / "machine.onnx"
    path.write_bytes(to_onnx(model, X[:1], options=options).SerializeToString())
    return path


def imported(path: Path, features: np.ndarray = SAMPLES, returns: Returns | None = None) -> Bundle:
    np.savez(path.with_suffix(".npz"), X=features)
    return import_bundle(path, path.with_suffix(".npz"), returns=returns)


def results(path: Path, features: np.ndarray = SAMPLES) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(path))
    return list(session.run(None, {session.get_inputs()[0].name: features}))


def outputs_of(bundle: Bundle, features: np.ndarray = SAMPLES) -> np.ndarray:
    assert bundle.scaling is None
    return run_float(bundle.program, bundle.parameters, features.astype(float)).outputs


KERNELS: list[dict[str, Any]] = [{"kernel": "linear"}, {"kernel": "rbf"}, {"kernel": "sigmoid", "gamma": 0.1}]
KERNELS += [{"kernel": "poly", "degree": degree, "coef0": 0.5, "gamma": 0.5} for degree in (1, 2, 3, 5, 6)]


@pytest.mark.parametrize("given", KERNELS, ids=lambda given: f"{given['kernel']}{given.get('degree', '')}")
def test_decisions_and_classes_are_onnxruntimes(given: dict[str, Any], tmp_path: Path) -> None:
    path = written(SVC(decision_function_shape="ovo", **given), CLASSES, tmp_path)
    labels, decisions = results(path)
    assert len(set(labels.tolist())) == 3
    np.testing.assert_array_equal(outputs_of(imported(path))[:, 0], labels)
    found = outputs_of(imported(path, returns=Returns.VALUE))
    assert decisions.shape == (len(SAMPLES), 3)
    np.testing.assert_allclose(found, decisions, rtol=1e-4, atol=1e-5 * np.abs(decisions).max())
    path = written(SVR(**given), X[:, 0] * X[:, 1] + X[:, 3], tmp_path)
    np.testing.assert_allclose(outputs_of(imported(path)), results(path)[0], rtol=1e-4, atol=1e-4)


def test_two_classes_have_a_decision_and_its_negative(tmp_path: Path) -> None:
    path = written(NuSVC(nu=0.2), CLASSES[:100] * 2 + 3, tmp_path)
    labels, decisions = results(path)
    assert set(labels.tolist()) == {3, 5}
    np.testing.assert_array_equal(3 + 2 * outputs_of(imported(path))[:, 0], labels)
    np.testing.assert_allclose(outputs_of(imported(path, returns=Returns.VALUE)), decisions, rtol=1e-4, atol=1e-5)


def test_outliers_are_told_from_the_others(tmp_path: Path) -> None:
    path = written(OneClassSVM(nu=0.3), CLASSES, tmp_path)
    labels, sums = results(path)
    bundle = imported(path)
    assert bundle.class_names == (-1, 1)
    assert {-1, 1} <= set(labels.reshape(-1).tolist())
    clear = np.abs(sums[:, 0]) > 1e-5  # the others are vectors on the border themselves
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(2 * outputs_of(bundle)[clear, 0] - 1, labels.reshape(-1)[clear])
    np.testing.assert_allclose(outputs_of(imported(path, returns=Returns.VALUE)), sums, rtol=1e-4, atol=1e-5)


def machine(kind: str, folder: Path, **changed: Any) -> Path:
    """Three classes with one support vector each, whose decisions are the features themselves: (0, 1), (0, 2) and (1, 2) read the first,
    the third and the second one."""
    given = {
        "kernel_type": "LINEAR",
        "kernel_params": [1.0, 0.0, 3.0],
        "support_vectors": np.eye(3).reshape(-1).tolist(),
        "vectors_per_class": [1, 1, 1],
        "coefficients": [1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
        "rho": [0.0, 0.0, 0.0],
        "classlabels_ints": [0, 1, 2],
        **changed,
    }
    given = {name: value for name, value in given.items() if value is not None}
    writes = ["label", "scores"] if kind == "SVMClassifier" else ["scores"]
    node = helper.make_node(kind, ["x"], writes, domain="ai.onnx.ml", **given)
    kinds = {"label": TensorProto.INT64, "scores": TensorProto.FLOAT}
    outputs = [helper.make_tensor_value_info(name, kinds[name], None) for name in writes]
    graph = helper.make_graph(
        [node], "machine", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])], outputs
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 9)]
    path = folder / "votes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


EVERY_SIGN = np.array(list(itertools.product((-1, 0, 1), repeat=3)), dtype=np.float32)


def lowered(bundle: Bundle, features: np.ndarray, bits: int) -> Any:
    """One candidate with every variable at so many bits and the scale that its range asks for."""
    seen, _ = profile(bundle.program, bundle.parameters, features)
    variables = bundle.program.variables
    most = [max(abs(seen.minimum.get(v.name, 0)), abs(seen.maximum.get(v.name, 0)), 2.0**-8) for v in variables]
    scales = np.array([[bits - 2 - int(np.ceil(np.log2(m))) for m in most]])
    return ShiftryLowering(bundle.program, bundle.parameters).lower(np.full_like(scales, bits), scales)


def test_votes_and_their_ties_are_counted_as_onnxruntime_does(tmp_path: Path) -> None:
    """Of cycles (each class beats another one) the first class; a decision of exactly zero is a vote for the second of its pair. In 8
    bits as over the Reals."""
    path = machine("SVMClassifier", tmp_path)
    labels = results(path, EVERY_SIGN)[0]
    bundle = imported(path, EVERY_SIGN)
    np.testing.assert_array_equal(outputs_of(bundle, EVERY_SIGN)[:, 0], labels)
    for bits in (8, 16):
        found = run_reference(lowered(bundle, EVERY_SIGN.astype(float), bits), bundle.parameters, EVERY_SIGN)
        np.testing.assert_array_equal(found[0, :, 0], labels)


def test_a_decision_of_zero_between_two_classes_is_the_second_one(tmp_path: Path) -> None:
    two = {
        "vectors_per_class": [1, 2],
        "coefficients": [1.0, 0.0, 0.0],
        "rho": [0.0],
        "classlabels_ints": [4, 7],
    }
    path = machine("SVMClassifier", tmp_path, **two)
    labels = results(path, EVERY_SIGN)[0]
    assert labels[EVERY_SIGN[:, 0] == 0].tolist() == [7] * 9
    np.testing.assert_array_equal(4 + 3 * outputs_of(imported(path, EVERY_SIGN), EVERY_SIGN)[:, 0], labels)


@needs_compiler
def test_c_both_simulators_and_their_margins_agree(tmp_path: Path) -> None:
    path = written(make_pipeline(StandardScaler(), SVC(gamma=0.4)), CLASSES, tmp_path)
    bundle, features = imported(path), SAMPLES.astype(float)
    batches = [lowered(bundle, features, bits) for bits in (8, 16)]
    names = [(f"m{number}", f"predict{number}") for number in range(2)]
    sources = [emit_c(b, bundle.parameters, name=n, function=f) for b, (n, f) in zip(batches, names, strict=True)]
    compiled = compile_sources(sources, tmp_path, ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"))
    steps = loop_steps(bundle.program)
    contest = float_contest(bundle.program, bundle.parameters, features, steps)[1]
    assert contest is not None
    kernel = load_kernel()
    assert kernel is not None
    native = NativeProgram(kernel, bundle.program, steps, bundle.parameters, features, contest)
    for number, batch in enumerate(batches):
        expected, sums = run_reference_contest(batch, bundle.parameters, features, steps, contest)
        np.testing.assert_array_equal(compiled.run(number, features), expected[0])
        outputs, found = native.run_contest(batch)
        np.testing.assert_array_equal(outputs, expected)
        assert found == sums
    place = [variable.name for variable in bundle.program.variables].index(contest.variable)
    margins = np.ldexp(sums[0].margins, -int(batches[1].scales[0, place]))
    np.testing.assert_allclose(
        margins, contest.margins.sum(), rtol=0.02
    )  # those of the decisions, of which 16 bits know so much


SIZES = np.float32([1000, 0.001, 1, 30])  # of four features
PARTS = [("a", StandardScaler(), [2, 0]), ("b", MinMaxScaler(), [1, 3])]
SCALERS = {
    "least and largest": MinMaxScaler(),
    "from -1 to 1": MinMaxScaler((-1, 1)),
    "least and largest, bounded": MinMaxScaler(clip=True),
    "largest": MaxAbsScaler(),
    "quartiles": RobustScaler(),
    "columns": ColumnTransformer(PARTS),
    "chosen": make_pipeline(MinMaxScaler(), SelectKBest(f_regression, k=3)),
    "both": make_union(MinMaxScaler(), StandardScaler()),
}


@needs_compiler
@pytest.mark.parametrize("scaler", list(SCALERS))
def test_raw_features_of_mixed_size_keep_their_bits_behind_every_scaler(scaler: str, tmp_path: Path) -> None:
    """With 16 bits results are right to about three digits, in C too; with one scale for all features they have none of the small ones."""
    mixed, targets = X * SIZES, X[:, 1] * X[:, 2] + X[:, 3]
    model = make_pipeline(SCALERS[scaler], SVR(C=10)).fit(mixed, targets)
    path = tmp_path / "machine.onnx"
    path.write_bytes(to_onnx(model, mixed[:1]).SerializeToString())
    bundle, expected = imported(path, mixed), results(path, mixed)[0]
    assert bundle.scaling is not None
    features = bundle.scaling.apply(mixed.astype(float))
    found = run_float(bundle.program, bundle.parameters, features).outputs
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    batch = lowered(bundle, features, 16)
    fixed = run_reference(batch, bundle.parameters, features)[0]
    source = emit_c(batch, bundle.parameters, scaling=bundle.scaling)
    np.testing.assert_array_equal(compile_sources([source], tmp_path).run(0, features), fixed)
    place = [v.name for v in bundle.program.variables].index(bundle.program.result.variable)
    real = np.ldexp(fixed.astype(float), -int(batch.scales[0, place]))
    assert np.abs(real - expected).max() < 0.02 * np.ptp(expected)


def test_what_contests_is_the_closest_decision_that_the_class_hangs_on() -> None:
    """By trying every decision with the other sign."""
    pairs = list(itertools.combinations(range(4), 2))
    votes = np.array([[(k == i) - (k == j) for i, j in pairs] for k in range(4)], dtype=float)
    decisions = np.random.default_rng(1).normal(size=(6, 700))
    places, distances = closest_decisions(Ballot("s", np.arange(6, dtype=np.int32), votes, 0, 0), decisions)
    for sample in range(700):
        signs = np.where(decisions[:, sample] > 0, 1.0, -1.0)
        label = int(np.argmax(votes @ signs))
        matter = [p for p in range(6) if np.argmax(votes @ np.where(np.arange(6) == p, -signs, signs)) != label]
        best = min(matter or range(6), key=lambda p: abs(decisions[p, sample]))
        assert (places[sample], distances[sample]) == (best, abs(decisions[best, sample]))


@pytest.mark.parametrize(
    ("kind", "changed", "found"),
    [
        ("SVMClassifier", {"post_transform": "SOFTMAX"}, "expected post_transform NONE, found SOFTMAX"),
        ("SVMClassifier", {"kernel_type": "POLY", "kernel_params": [1.0, 0.0, 2.5]},
         "expected a whole degree from 1 to 16, found 2.5"),
        ("SVMClassifier", {"kernel_type": "RBF", "kernel_params": None},
         "expected kernel_params gamma, coef0 and degree, found 0 numbers"),
        ("SVMClassifier", {"vectors_per_class": None},
         "expected two or more classes with support vectors each, found 3 labels and 0 numbers in vectors_per_class"),
        ("SVMClassifier", {"coefficients": [1.0] * 5},
         "expected 6 coefficients, 3 rho, and 3 support vectors, found 5, 3 and 9 numbers"),
        ("SVMClassifier", {"rho": [float("nan")] * 3}, "expected finite rho, found NaN or infinity"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_refused_in_a_sentence(
    kind: str, changed: dict[str, Any], found: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"node 0 \({kind} that writes 'label'\): {found}$"):
        imported(machine(kind, tmp_path, **changed), EVERY_SIGN)


def test_probabilities_by_pairwise_coupling_are_refused_and_the_class_is_not(tmp_path: Path) -> None:
    coupled = {"prob_a": [-1.0] * 3, "prob_b": [0.0] * 3}
    path = machine("SVMClassifier", tmp_path, **coupled)
    np.testing.assert_array_equal(
        outputs_of(imported(path, EVERY_SIGN), EVERY_SIGN)[:, 0], results(path, EVERY_SIGN)[0]
    )
    with pytest.raises(InputError, match=r"expected decisions .*, found probabilities by pairwise coupling$"):
        imported(path, EVERY_SIGN, Returns.VALUE)


def test_votes_are_not_trained(tmp_path: Path) -> None:
    """Of a class that pairs vote for no score decides, of a single pair's neither."""
    for classes in (CLASSES, CLASSES[:100]):
        bundle = imported(written(SVC(kernel="linear"), classes, tmp_path))
        task = Task(bundle.program, bundle.parameters, SAMPLES.astype(float), outputs_of(bundle)[:, 0])
        assert why_not_trained(task) == "its class is a vote of several decisions"
