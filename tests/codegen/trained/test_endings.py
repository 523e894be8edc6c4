"""How a model ends, and what a program returns therefore: a class by the largest score or a sign, which no probability hides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case
from tests.codegen.trained.test_importing import FEATURES, SCORES, case, imported, labels_of


def test_a_probability_of_one_class_is_its_scores_sign(tmp_path: Path) -> None:
    bundle = imported(case(("Sigmoid", ["s"], ["y"], {}), outputs=1), tmp_path, np.arange(30) % 2)
    assert bundle.class_count == 2
    np.testing.assert_array_equal(labels_of(bundle), (FEATURES @ draw(6, 1) + draw(1) > 0)[:, 0])


def test_a_probability_that_is_moved_is_no_score(tmp_path: Path) -> None:
    """Its sign says nothing (found by a reader)."""
    moved = ("Sigmoid", ["s"], ["p"], {}), ("Transpose", ["p"], ["y"], {"perm": [1, 0]})
    with pytest.raises(InputError, match=r"output: expected the Sigmoid of a score, found node \d+ \(Transpose"):
        imported(case(*moved, outputs=1), tmp_path, np.arange(30) % 2, returns=Returns.CLASS)


def test_a_probability_of_a_probability_is_always_above_a_half(tmp_path: Path) -> None:
    """So the model always says yes (found by a reader: the first score's sign was told)."""
    twice = ("Sigmoid", ["s"], ["p"], {}), ("Sigmoid", ["p"], ["y"], {})
    assert labels_of(imported(case(*twice, outputs=1), tmp_path, np.arange(30) % 2)).all()


def test_probabilities_that_are_cut_off_do_not_decide_by_what_was_cut(tmp_path: Path) -> None:
    """The largest of whole numbers is the first of equals, most often another than the largest probability."""
    cut = case(("Sigmoid", ["s"], ["p"], {}), ("Cast", ["p"], ["c"], {"to": 7}), ("ArgMax", ["c"], ["y"], {"axis": 1}))
    with pytest.raises(InputError, match="expected real numbers to stay real numbers, found a Cast to type 7"):
        imported(cut, tmp_path)


def test_a_softmax_over_another_axis_is_not_left_out(tmp_path: Path) -> None:
    """Over the batch of one it makes ones of all scores, of which the first is the largest."""
    model = case(("Softmax", ["s"], ["p"], {"axis": 0}), ("ArgMax", ["p"], ["y"], {"axis": 1}))
    try:
        labels = labels_of(imported(model, tmp_path))
    except InputError:
        return  # refused is not wrong
    assert not labels.any()


@pytest.mark.parametrize("tail", [("ArgMax", ["s"], ["y"], {"axis": 1}), ("Softmax", ["s"], ["y"], {"axis": 1})])
def test_the_largest_of_one_score_is_refused(
    tail: tuple[str, list[str], list[str], dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="expected those of at least two classes, found one"):
        imported(case(tail, outputs=1), tmp_path)


@pytest.mark.parametrize("largest", [True, False])
def test_probabilities_of_one_score_each_are_refused(largest: bool, tmp_path: Path) -> None:
    """Each is 1 whatever its score is."""
    nodes: list[Any] = [("Gemm", ["x", "w"], ["s"], {}), ("Reshape", ["s", "rows"], ["r"], {})]
    nodes.append(("Softmax", ["r"], ["p" if largest else "y"], {"axis": -1}))
    nodes += [("ArgMax", ["p"], ["y"], {"axis": 0})] * largest
    constants = {"w": draw(6, 3), "rows": np.array([3, 1])}
    with pytest.raises(InputError, match="scores: expected those of at least two classes, found one"):
        imported(Case("net", (1, 6), nodes, constants), tmp_path)


def no_and_yes(written: str, count: int) -> Case:
    """The probabilities of so many no, then those of their yes."""
    nodes = [
        ("Gemm", ["x", "w"], ["s"], {}),
        ("Sigmoid", ["s"], ["p"], {}),
        ("Sub", ["one", "p"], ["q"], {}),
        ("Concat", ["q", "p"], [written], {"axis": 1}),
    ]
    return Case("net", (1, 6), nodes, {"w": draw(6, count), "one": np.float32(1.0)})


def test_several_yes_behind_their_no_are_not_taken_for_two_classes(tmp_path: Path) -> None:
    model = no_and_yes("c", 3)
    largest = [*model.nodes, ("ArgMax", ["c"], ["y"], {"axis": 1})]
    with pytest.raises(InputError, match="probabilities: expected those of no and yes, one each, found 3 of each"):
        imported(replace(model, nodes=largest), tmp_path)


def test_no_and_yes_as_values(tmp_path: Path) -> None:
    """As scikit-learn's models of two classes return their probabilities."""
    path = no_and_yes("y", 1).write(tmp_path)
    features = draw(9, 6)
    np.savez(tmp_path / "d.npz", X=features)
    bundle = import_bundle(path, tmp_path / "d.npz", returns=Returns.VALUE)
    found = run_float(bundle.program, bundle.parameters, features.astype(float)).outputs
    session = onnxruntime.InferenceSession(str(path))
    expected = [session.run(None, {"x": row.reshape(1, 6)})[0].reshape(-1) for row in features]
    np.testing.assert_allclose(found.reshape(9, 2), expected, atol=1e-6)


@pytest.mark.parametrize("names", [(1, 2), (-1, 1)])
def test_other_labels_of_one_probability_are_refused(names: tuple[int, int], tmp_path: Path) -> None:
    model = case(("Sigmoid", ["s"], ["y"], {}), outputs=1)
    with pytest.raises(InputError, match=rf"label in array y: expected 0 and 1, .*, found {names[0]} and {names[1]}"):
        imported(model, tmp_path, np.array(names)[np.arange(30) % 2])


def test_rounded_probabilities_are_left_out_too(tmp_path: Path) -> None:
    """As quantised files end; what is rounded before the scores is another matter."""
    made = case(("Softmax", ["s"], ["p"], {"axis": 1}), ("QuantizeLinear", ["p", "step", "zero"], ["q"], {}),
                ("DequantizeLinear", ["q", "step", "zero"], ["y"], {}))  # fmt: skip
    rounding = {"step": np.float32(1 / 256), "zero": np.uint8(0)}
    bundle = imported(Case("net", (1, 6), made.nodes, {**made.constants, **rounding}), tmp_path)
    assert bundle.class_count == 3
    np.testing.assert_array_equal(labels_of(bundle), SCORES.argmax(axis=1))


def test_two_scores_become_one_whose_sign_is_the_class(tmp_path: Path) -> None:
    weights = np.random.default_rng(9).normal(0, 1, (6, 2)).astype(np.float32)
    nodes = [("Gemm", ["x", "w", "b"], ["s"], {}), ("Softmax", ["s"], ["y"], {"axis": 1})]
    bundle = imported(Case("two", (1, 6), nodes, {"w": weights, "b": np.float32([0.2, -0.1])}), tmp_path)
    scores = FEATURES @ weights.astype(float) + np.float32([0.2, -0.1])
    np.testing.assert_array_equal(labels_of(bundle), scores.argmax(axis=1))
    assert 0 < labels_of(bundle).mean() < 1
    assert bundle.class_count == 2
    assert {v.shape for v in bundle.program.variables if v.role is ir.Role.PARAMETER and len(v.shape) == 2} <= {
        (6, 1),
        (1, 6),
    }
