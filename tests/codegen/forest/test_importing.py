"""Files with trees decide as onnxruntime does, and what is none is refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.forest.importing import floats_of, ordered, read_forest
from tests.codegen.forest.random_forests import by_onnxruntime, hard_samples, random_ensemble, written
from tests.codegen.trained.onnx_files import Case


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["votes", "signed by column", "binary", "binary signed", "values"]),
    grid=st.sampled_from([0.0, 0.25, 1.0]),
)
def test_every_comparison_and_every_sum_is_onnxruntimes(
    tmp_path_factory: Any, seed: int, kind: str, grid: float
) -> None:
    options: dict[str, Any] = {"grid": grid, "signed": "signed" in kind, "by_column": "column" in kind}
    options |= {"binary": "binary" in kind, "values": kind == "values"}
    model = random_ensemble(seed, **options)
    forest = read_forest(written(model, tmp_path_factory.mktemp("forest")))
    samples = hard_samples(seed, 6, grid)
    expected = by_onnxruntime(model, samples)
    if kind == "values":
        np.testing.assert_allclose(forest.scores(samples), expected, atol=1e-5)
    else:
        scores = np.sort(forest.scores(samples), axis=1)
        clear = np.abs(scores[:, -1] - scores[:, -2] if scores.shape[1] > 1 else scores[:, 0]) > 1e-5
        clear |= not options["signed"]  # eighths are added exactly, so ties count as well
        np.testing.assert_array_equal(forest.labels(samples)[clear], expected[clear])


def test_a_scaler_before_the_trees_moves_thresholds_to_the_last_bit(tmp_path: Path) -> None:
    model = random_ensemble(3, modes=("BRANCH_LEQ", "BRANCH_GT"))
    scaler = onnx.helper.make_node(
        "Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[0.3] * 6, scale=[0.1, 0.7, 1.3, 3.0, 1e-3, 1e3]
    )
    model.graph.node[0].input[0] = "s"
    model.graph.node.insert(0, scaler)
    forest = read_forest(written(model, tmp_path))
    random = np.random.default_rng(4)
    samples = random.normal(0, 2, (300, 6)).astype(np.float32)
    for tree in forest.trees:  # at each threshold and at both of its neighbours
        for feature, threshold in zip(tree.feature, tree.threshold, strict=True):
            row = random.normal(0, 2, (3, 6)).astype(np.float32)
            row[:, feature] = [
                threshold,
                np.nextafter(threshold, np.float32(9e9)),
                np.nextafter(threshold, np.float32(-9e9)),
            ]
            samples = np.r_[samples, row]
    np.testing.assert_array_equal(forest.labels(samples.astype(np.float64)), by_onnxruntime(model, samples))


def test_floats_have_an_order_without_gaps() -> None:
    values = np.array([-np.float32(3e38), -1, -1e-45, 0, 1e-45, 1, 3e38], dtype=np.float32)
    np.testing.assert_array_equal(floats_of(ordered(values)), values)
    assert (np.diff(ordered(values)) > 0).all()
    assert ordered(np.float32(1e-45)) - ordered(np.float32(-1e-45)) == 2


def changed(**attributes: Any) -> onnx.ModelProto:
    model = random_ensemble(1, trees=1)
    node = model.graph.node[0]
    for name, value in attributes.items():
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    return model


def numbers_of(model: onnx.ModelProto, name: str) -> list[Any]:
    attribute = next(a for a in model.graph.node[0].attribute if a.name == name)
    return list(onnx.helper.get_attribute_value(attribute))


ONE = random_ensemble(1, trees=1)
COUNT = len(numbers_of(ONE, "nodes_values"))


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"nodes_values": [0.0] * (COUNT - 1)}, "expected lists of nodes that are equally long"),
        ({"nodes_values": [float("nan")] * COUNT}, "expected finite nodes_values"),
        ({"nodes_featureids": [6] * COUNT}, "expected features 0 to 5, found 6"),
        ({"nodes_modes": ["BRANCH_MEMBER"] * COUNT}, "found BRANCH_MEMBER"),
        ({"nodes_truenodeids": [0] * COUNT}, "expected one root of tree 0"),
        ({"nodes_nodeids": [0] * COUNT}, "expected a node once in its tree"),
        ({"class_ids": [7] * len(numbers_of(ONE, "class_ids"))}, "expected class_ids from 0 to 2, found 7"),
        ({"post_transform": "PROBIT"}, "expected post_transform NONE, SOFTMAX, LOGISTIC, found PROBIT"),
        ({"base_values": [0.0, 1.0]}, "expected 3 finite base_values, found 2"),
    ],
)
def test_damaged_trees_are_refused(attributes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_forest(written(changed(**attributes), tmp_path))


def test_classes_that_may_not_be_scored_are_refused_where_that_matters(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a tree whose leaves all add to class"):
        read_forest(written(random_ensemble(2, signed=True), tmp_path))


def test_two_ensembles_and_other_operators_are_refused(tmp_path: Path) -> None:
    model = random_ensemble(2)
    model.graph.node.append(onnx.helper.make_node("Relu", ["p"], ["q"]))
    with pytest.raises(InputError, match="expected one TreeEnsembleClassifier"):
        read_forest(written(model, tmp_path))


def test_more_results_than_anything_holds_are_refused(tmp_path: Path) -> None:
    """Each leaf would have a row of so many numbers."""
    lists = {
        name: [0]
        for name in ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids")
    }
    lists |= {name: [0] for name in ("target_treeids", "target_nodeids", "target_ids")}
    node = ("TreeEnsembleRegressor", ["x"], ["y"], {
        **lists, "nodes_modes": ["LEAF"], "nodes_values": [0.0], "target_weights": [1.0], "n_targets": 1 << 40,
    })  # fmt: skip
    with pytest.raises(InputError, match="expected at most 4096 n_targets, found 1099511627776"):
        read_forest(Case("one", (1, 6), [node], domain="ai.onnx.ml").write(tmp_path))


def test_a_forest_of_one_class_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime answers 1 where its score is above 0: a class that the file has not."""
    with pytest.raises(InputError, match="expected at least two classes, found 1"):
        read_forest(written(random_ensemble(0, classes=1, by_column=True), tmp_path))
