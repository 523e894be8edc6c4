"""Classical models as skl2onnx writes them: what they say is their class, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from kilotune.codegen.trained.onnx_models import read_onnx
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case

FEATURES = np.random.default_rng(5).normal(0, 2, (40, 6)).astype(np.float32)

Node = tuple[str, list[str], list[str], dict[str, Any]]

SCALER: Node = ("Scaler", ["x"], ["s"], {"offset": draw(6).tolist(), "scale": (draw(6) + 1.5).tolist()})


def classifier(classes: Sequence[int], after: str, weights: np.ndarray, intercepts: np.ndarray) -> Node:
    attributes = {"classlabels_ints": list(classes), "coefficients": weights.reshape(-1).tolist(),
                  "intercepts": intercepts.tolist(), "post_transform": after}  # fmt: skip
    return ("LinearClassifier", ["s"], ["label", "p"], attributes)


def write(folder: Path, nodes: Sequence[Node], outputs: Sequence[str]) -> Path:
    made = [helper.make_node(kind, reads, writes, domain="ai.onnx.ml", **given) for kind, reads, writes, given in nodes]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 6])
    kinds = {"label": TensorProto.INT64}
    results = [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None) for name in outputs]
    opsets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 9)]
    graph = helper.make_graph(made, "classical", [given], results)
    path = folder / "classical.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def imported(path: Path, y: np.ndarray | None = None) -> Bundle:
    data = path.with_suffix(".npz")
    np.savez(data, X=FEATURES, **({} if y is None else {"y": y}))
    return import_bundle(path, data)


def results(path: Path) -> list[np.ndarray]:
    return list(onnxruntime.InferenceSession(str(path)).run(None, {"x": FEATURES}))


def outputs_of(bundle: Bundle) -> np.ndarray:
    return run_float(bundle.program, bundle.parameters, FEATURES.astype(float)).outputs


def test_an_old_opset_matters_where_its_operators_are_used(tmp_path: Path) -> None:
    """Converters of boosted trees state opset 8 for files that have none of its operators."""
    linear = [("LinearRegressor", ["x"], ["y"], {"coefficients": draw(6).tolist()})]
    read_onnx(Case("linear", (1, 6), linear, opset=8, domain="ai.onnx.ml").write(tmp_path))
    with pytest.raises(InputError, match="opset: expected opset 9 or newer"):
        read_onnx(Case("negative", (1, 6), [("Neg", ["x"], ["y"], {})], opset=8).write(tmp_path))


OPPOSITE = np.stack([-draw(6), draw(6)])


@pytest.mark.parametrize(
    ("classes", "after", "weights", "intercepts", "products"),
    [
        ((0, 1, 2), "SOFTMAX", draw(3, 6), draw(3), 3),
        ((3, 5, 9), "LOGISTIC", draw(3, 6), draw(3), 3),
        ((0, 1), "LOGISTIC", OPPOSITE, np.array([-0.25, 0.25]), 1),
        ((7, 4), "NONE", draw(2, 6), draw(2), 1),
    ],
)
def test_a_linear_classifier_behind_a_scaler_gives_onnxruntimes_classes(
    classes: tuple[int, ...], after: str, weights: np.ndarray, intercepts: np.ndarray, products: int, tmp_path: Path
) -> None:
    path = write(tmp_path, [SCALER, classifier(classes, after, weights, intercepts)], ["label", "p"])
    labels = results(path)[0]
    bundle = imported(path, labels)
    assert len(set(labels.tolist())) > 1
    found = [classes[int(k)] for k in outputs_of(bundle)[:, 0]]
    assert found == labels.tolist()
    assert bundle.train is not None
    assert [classes[k] for k in bundle.train.targets] == labels.tolist()
    matrix = next(o for o in ir.operations(bundle.program.body) if isinstance(o, ir.MatMul))
    assert matrix.out.size == products  # two classes are one product and its sign
    assert not any(isinstance(o, ir.TableFunction) for o in ir.operations(bundle.program.body))


@pytest.mark.parametrize("weights", [draw(1, 6), OPPOSITE, draw(2, 6)], ids=["one", "opposite", "two"])
def test_scores_of_two_classes_are_returned_as_they_are(weights: np.ndarray, tmp_path: Path) -> None:
    """A Sigmoid of them would tell the same class, and is not what the file returns."""
    opposite = len(weights) == 2 and (weights[0] == -weights[1]).all()
    intercepts = np.array([-0.25, 0.25 if opposite else 0.5])[-len(weights) :]
    path = write(tmp_path, [SCALER, classifier((0, 1), "NONE", weights, intercepts)], ["label", "p"])
    np.savez(path.with_suffix(".npz"), X=FEATURES)
    labels, scores = results(path)
    bundle = import_bundle(path, path.with_suffix(".npz"), None, Returns.VALUE)
    np.testing.assert_allclose(outputs_of(bundle), scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(outputs_of(imported(path, labels))[:, 0], labels)


def test_a_label_that_the_model_has_no_class_for_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, [SCALER, classifier((3, 5, 9), "SOFTMAX", draw(3, 6), draw(3))], ["label", "p"])
    with pytest.raises(
        InputError, match=r"sample 2 \(counted from 0\): label in array y: expected one of the classes 3, 5, 9, found 4"
    ):
        imported(path, np.array([3, 5, 4] + [9] * 37))


def test_what_classes_are_called_is_told_with_the_program(tmp_path: Path) -> None:
    """Texts from the classifier itself, and from the array that picks one of them by the label."""

    def names(path: Path) -> tuple[int | str, ...]:
        return imported(path).class_names

    named = classifier((), "SOFTMAX", draw(3, 6), draw(3))
    named[3].pop("classlabels_ints")
    named[3]["classlabels_strings"] = ["dog", 'a "cat"', "\u00e9"]
    assert names(write(tmp_path, [SCALER, named], ["p"])) == ("dog", 'a "cat"', "\u00e9")
    numbered = [classifier(given, "NONE", draw(2, 6), draw(2)) for given in ((3, 9), (0, 1))]
    assert [names(write(tmp_path, [SCALER, one], ["label"])) for one in numbered] == [(3, 9), ()]
    picked = onnx.load(str(write(tmp_path, [SCALER, numbered[1]], ["label"])))
    picks = helper.make_node("ArrayFeatureExtractor", ["names", "label"], ["name"], domain="ai.onnx.ml")
    picked.graph.node.append(picks)
    picked.graph.initializer.append(helper.make_tensor("names", TensorProto.STRING, [2], [b"no", b"yes"]))
    picked.graph.output[0].name = "name"
    onnx.save(picked, str(tmp_path / "picked.onnx"))
    assert names(tmp_path / "picked.onnx") == ("no", "yes")


def test_labels_that_are_texts_are_refused_by_what_they_have_to_be(tmp_path: Path) -> None:
    path = write(tmp_path, [SCALER, classifier((0, 1), "NONE", draw(2, 6), draw(2))], ["label"])
    with pytest.raises(InputError, match=r"array y: expected numbers \(of a class .* counted from 0\), found texts$"):
        imported(path, np.array(["no", "yes"] * 20))


def test_a_linear_regressor_is_its_own_numbers(tmp_path: Path) -> None:
    attributes = {"coefficients": draw(6).tolist(), "intercepts": [0.5]}
    path = write(tmp_path, [SCALER, ("LinearRegressor", ["s"], ["y"], attributes)], ["y"])
    np.testing.assert_allclose(outputs_of(imported(path)), results(path)[0], rtol=1e-5, atol=1e-5)


def test_an_imputer_of_nan_is_left_out_and_one_of_other_numbers_refused(tmp_path: Path) -> None:
    weights = classifier((0, 1, 2), "SOFTMAX", draw(3, 6), draw(3))
    for replaced, found in (
        (float("nan"), None),
        (0.5, "expected numbers in the place of NaN, found some in that of 0.5"),
    ):
        imputer: Node = ("Imputer", ["x"], ["s"], {"imputed_value_floats": [1.0] * 6, "replaced_value_float": replaced})
        path = write(tmp_path, [imputer, weights], ["label"])
        if found is None:
            np.testing.assert_array_equal(outputs_of(imported(path))[:, 0], results(path)[0])
            continue
        with pytest.raises(InputError, match=found):
            imported(path)


def test_rows_are_normalised_before_a_classifier(tmp_path: Path) -> None:
    nodes = [("Normalizer", ["x"], ["s"], {"norm": "L2"}), classifier((0, 1, 2), "SOFTMAX", draw(3, 6), draw(3) / 4)]
    path = write(tmp_path, nodes, ["label", "p"])
    np.testing.assert_array_equal(outputs_of(imported(path))[:, 0], results(path)[0])


def test_what_cannot_be_converted_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, [("Normalizer", ["x"], ["s"], {"norm": "MAX"}), ("Binarizer", ["s"], ["y"], {})], ["y"])
    with pytest.raises(InputError) as error:
        imported(path)
    assert "node 0 (Normalizer that writes 's'): expected norm L1 or L2, found MAX" in str(error.value)
