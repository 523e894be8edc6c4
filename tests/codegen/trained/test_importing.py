"""A model with its samples: what it returns, and what keeps a file from being imported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from kilotune.codegen.trained.model import check_features
from kilotune.codegen.trained.onnx_models import read_onnx
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case

FEATURES = np.random.default_rng(7).normal(0, 1, (30, 6))


def case(*tail: tuple[str, list[str], list[str], dict[str, Any]], outputs: int = 3, last: str = "s") -> Case:
    """A layer, and what comes behind it; `last` reads its scores."""
    layer = ("Gemm", ["x", "w", "b"], [last if tail else "y"], {})
    return Case("net", (1, 6), [layer, *tail], {"w": draw(6, outputs), "b": draw(outputs)})


def imported(model: Case, folder: Path, y: np.ndarray | None = None, **options: Any) -> Bundle:
    path = model.write(folder)
    np.savez(folder / "d.npz", X=FEATURES, **({} if y is None else {"y": y}))
    return import_bundle(path, folder / "d.npz", **options)


def labels_of(bundle: Bundle) -> np.ndarray:
    assert bundle.train is not None
    return run_float(bundle.program, bundle.parameters, bundle.train.features).labels


SCORES = FEATURES @ draw(6, 3).astype(float) + draw(3)


@pytest.mark.parametrize("ending", ["Softmax", "LogSoftmax", "ArgMax"])
def test_a_model_that_says_its_class_is_a_classifier_and_its_own_class_the_target(ending: str, tmp_path: Path) -> None:
    bundle = imported(case((ending, ["s"], ["y"], {"axis": 1})), tmp_path)
    assert bundle.class_count == 3
    assert bundle.train is not None
    np.testing.assert_array_equal(bundle.train.targets, SCORES.argmax(axis=1))
    np.testing.assert_array_equal(labels_of(bundle), SCORES.argmax(axis=1))
    assert not any(isinstance(operation, ir.Exp) for operation in ir.operations(bundle.program.body))


def test_labels_that_scores_can_stand_for_make_a_classifier(tmp_path: Path) -> None:
    classes = np.arange(30) % 3
    bundle = imported(case(), tmp_path, classes)
    assert (bundle.class_count, bundle.program.result_kind) == (3, ir.ResultKind.CLASS)
    assert bundle.train is not None
    assert (bundle.train.targets == classes).all()


def test_an_output_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    model = case().model()
    model.graph.output.add().name = "other"
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString().replace(b"other", b"oth\xff\xfe"))
    np.savez(tmp_path / "d.npz", X=FEATURES)
    with pytest.raises(InputError, match="graph outputs: expected one, or a label and probabilities, found y, b'oth"):
        import_bundle(path, tmp_path / "d.npz")


@pytest.mark.parametrize(("shape", "axis"), [((3, 4), 0), ((2, 4), 2), ((2,), 0)])
def test_scales_of_other_blocks_are_refused(shape: tuple[int, ...], axis: int, tmp_path: Path) -> None:
    nodes = [
        ("DequantizeLinear", ["q", "s"], ["w"], {"axis": axis, "block_size": 3}),
        ("MatMul", ["x", "w"], ["y"], {}),
    ]
    constants = {"q": np.ones((6, 4), np.int8), "s": np.ones(shape, np.float32)}
    with pytest.raises(
        InputError, match=r"node 0 .*: expected (a scale for each 3|scales for blocks of 6x4).*, found shape"
    ):
        imported(Case("net", (1, 6), nodes, constants, opset=21), tmp_path)


def test_real_targets_make_a_numerical_model(tmp_path: Path) -> None:
    bundle = imported(case(outputs=1), tmp_path, np.arange(30) / 7)
    assert (bundle.class_count, bundle.program.result_kind) == (None, ir.ResultKind.REAL)


@pytest.mark.parametrize("labels", [np.arange(30) % 3 + 1, np.arange(30) % 2 * 2 - 1, np.arange(30) / 7])
def test_labels_that_no_score_stands_for_are_refused(labels: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"label in array y: expected a class from 0 to 2, since the model returns 3 numbers, found"
    ):
        imported(case(), tmp_path, labels)


def test_what_a_program_returns_may_be_said(tmp_path: Path) -> None:
    bundle = imported(case(), tmp_path, np.arange(30) % 3, returns=Returns.VALUE)
    assert bundle.program.result_kind is ir.ResultKind.REAL
    np.testing.assert_allclose(run_float(bundle.program, bundle.parameters, FEATURES).outputs, SCORES, atol=1e-6)


def test_a_label_that_is_no_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"sample 29 \(counted from 0\): label in array y: expected a class from 0 to 2, found 5"
    ):
        imported(case(), tmp_path, np.append(np.zeros(29), 5.0), returns=Returns.CLASS)


@pytest.mark.parametrize("marked", [False, True])
def test_a_test_label_that_is_no_class_is_told_by_its_array(marked: bool, tmp_path: Path) -> None:
    """By its number in the array, where a mark says what is test data."""
    path, labels = case().write(tmp_path), np.append(np.zeros(29), 5.0)
    given = {"X": FEATURES, "y": labels, "test": np.arange(30) > 20} if marked else {"X": FEATURES, "y": np.zeros(30)}
    np.savez(tmp_path / "d.npz", **given, **({} if marked else {"Xt": FEATURES, "yt": labels}))
    name = "y" if marked else "yt"
    expected = rf"sample 29 \(counted from 0\): label in array {name}: expected a class from 0 to 2, found 5"
    with pytest.raises(InputError, match=expected):
        import_bundle(path, tmp_path / "d.npz")


def test_a_label_of_a_table_that_is_no_class_is_told_by_its_column(tmp_path: Path) -> None:
    path, table = case().write(tmp_path), np.column_stack([FEATURES, np.append(np.zeros(29), 5.0)])
    np.savetxt(tmp_path / "d.csv", table, delimiter=",", header="a,b,c,d,e,f,kind", comments="")
    with pytest.raises(InputError, match=r"sample 29 \(counted from 0\): label in column kind: expected a class"):
        import_bundle(path, tmp_path / "d.csv", "kind")


def test_a_celu_that_has_no_curve_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Celu that writes 'y'\): expected an alpha above 0, found -1"):
        imported(case(("Celu", ["s"], ["y"], {"alpha": -1.0})), tmp_path)


def test_one_message_has_every_obstacle_with_its_node(tmp_path: Path) -> None:
    nodes = [("Det", ["s"], ["d"], {}), ("Relu", ["d"], ["r"], {}), ("Einsum", ["x"], ["e"], {"equation": "ij"}),
             ("Add", ["r", "e"], ["a"], {}), ("Softplus", ["a"], ["y"], {})]  # fmt: skip
    with pytest.raises(InputError) as error:
        imported(case(*nodes), tmp_path)
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'net.onnx'}: node 1 (Det that writes 'd'): expected a supported operator")
    assert "node 3 (Einsum that writes 'e'): not supported" in message
    assert "node 5 (Softplus that writes 'y'): not supported" in message
    assert "Relu that" not in message


@pytest.mark.parametrize(
    ("constants", "expected"),
    [
        ({"w": draw(5, 3)}, "expected weights for [1, 6], found shape [5, 3]"),
        ({"w": np.full((6, 3), np.nan, np.float32)}, "expected finite weights, found NaN or infinity"),
        (
            # a signalling NaN, of which NumPy warns when it is turned into a float of 64 bits
            {"w": np.full((6, 3), 0x7FA00000, np.uint32).view(np.float32)},
            "expected finite weights, found NaN or infinity",
        ),
        ({"b": draw(4)}, "expected shapes that broadcast, found [1, 3] and [4]"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_weights_that_do_not_fit_are_refused(constants: dict[str, np.ndarray], expected: str, tmp_path: Path) -> None:
    fitting = case()
    with pytest.raises(InputError) as error:
        imported(Case("net", (1, 6), fitting.nodes, {**fitting.constants, **constants}), tmp_path)
    assert f"node 0 (Gemm that writes 'y'): {expected}" in str(error.value)


def test_a_dynamic_shape_behind_the_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"input 'x': expected fixed sizes behind the batch .*, found dynamic shape nxt"
    ):
        imported(Case("net", ("n", "t"), [("Relu", ["x"], ["y"], {})]), tmp_path)


@pytest.mark.parametrize("extent", [1 << 40, (1 << 63) - 1])
def test_features_beyond_all_memory_are_refused(extent: int, tmp_path: Path) -> None:
    """A scaler's row of places was made of them before anything else was looked at (found by `make fuzz`)."""
    with pytest.raises(InputError, match="input 'x': expected at most 4194304 elements"):
        imported(Case("net", (1, extent), [("Relu", ["x"], ["y"], {})]), tmp_path)


def test_weights_in_a_file_that_is_gone_are_refused(tmp_path: Path) -> None:
    path = case().write(tmp_path)
    onnx.save(onnx.load(path), str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    np.savez(tmp_path / "d.npz", X=FEATURES)
    with pytest.raises(
        InputError,
        match=r"initialiser 'w': expected 6x3 elements of type float, found an external file .*no file 'weights.bin' beside the model",
    ):
        import_bundle(path, tmp_path / "d.npz")


def test_an_opset_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"opset: expected opset \d+, the newest .* or older, found 99"):
        imported(Case("net", (1, 6), [("Relu", ["x"], ["y"], {})], opset=99), tmp_path)


@pytest.mark.parametrize("domain", ["ai.onnx.ml", "some.body"])
@pytest.mark.parametrize(
    ("version", "said"), [(2**63 - 1, r"opset \d+ of {}, the newest"), (-(2**63), "opset 1 of {}, or newer")]
)
def test_an_opset_beyond_all_numbers_is_refused_in_every_domain(
    domain: str, version: int, said: str, tmp_path: Path
) -> None:
    path = case().write(tmp_path)
    model = onnx.load(path)
    model.opset_import.append(onnx.helper.make_opsetid(domain, version))
    onnx.save(model, path)
    np.savez(tmp_path / "d.npz", X=FEATURES)
    with pytest.raises(InputError, match=rf"opset: expected {said.format(domain)}.*, found {version}"):
        import_bundle(path, tmp_path / "d.npz")


@pytest.mark.parametrize("outputs", [0, 4])
def test_groups_of_a_convolution_that_is_folded_are_looked_at_before_memory_is_asked_for(
    outputs: int, tmp_path: Path
) -> None:
    nodes = [("Add", ["x", "one"], ["v"], {}), ("Conv", ["v", "w"], ["y"], {"group": 2**31 - 1})]
    constants = {"one": np.ones((), np.float32), "w": draw(outputs, 3, 3, 3)}
    with pytest.raises(
        InputError,
        match=r"node 1 \(Conv .*: expected (weights for 3 channels in 2147483647 groups|an image .* alike), found",
    ):
        imported(Case("groups", (1, 3, 1, 2), nodes, constants), tmp_path)


def test_an_old_opset_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"opset: expected opset 9 or newer \(onnx.version_converter .*\), found 8"):
        imported(Case("net", (1, 6), [("Relu", ["x"], ["y"], {})], opset=8), tmp_path)


def test_a_quantised_file_is_a_float_model_again_with_the_relu_that_its_integers_are(tmp_path: Path) -> None:
    """Exporters leave a Relu out where the unsigned integers behind it end at 0."""
    step = np.float32(0.05)
    codes = np.clip(np.rint(draw(6, 3) / step), -127, 127).astype(np.int8)
    nodes = [
        ("DequantizeLinear", ["codes", "step", "none"], ["w"], {}),
        ("Gemm", ["x", "w", "b"], ["s"], {}),
        ("QuantizeLinear", ["s", "step", "low"], ["q"], {}),
        ("DequantizeLinear", ["q", "step", "low"], ["d"], {}),
        ("Gemm", ["d", "v"], ["r"], {}),
        ("QuantizeLinear", ["r", "step", "middle"], ["t"], {}),
        ("DequantizeLinear", ["t", "step", "middle"], ["y"], {}),
    ]
    constants = {"codes": codes, "step": step, "none": np.int8(0), "low": np.uint8(0), "middle": np.uint8(128),
                 "b": draw(3), "v": draw(3, 2)}  # fmt: skip
    bundle = imported(Case("qdq", (1, 6), nodes, constants), tmp_path)
    expected = np.maximum(FEATURES @ (codes * float(step)) + draw(3), 0) @ draw(3, 2)
    np.testing.assert_allclose(run_float(bundle.program, bundle.parameters, FEATURES).outputs, expected, atol=1e-5)


def test_a_node_with_more_results_than_its_operator_has_is_refused(tmp_path: Path) -> None:
    nodes = [("Squeeze", ["k"], ["c", "d"], {}), ("Add", ["x", "d"], ["y"], {})]
    with pytest.raises(InputError, match=r"expected inputs that were written before, found .d."):
        imported(Case("net", (1, 6), nodes, {"k": np.ones((1, 6), np.float32)}), tmp_path)


@pytest.mark.parametrize(("low", "refused"), [(-3.0, True), (0.0, False)])
def test_features_that_a_quantised_file_clips_are_refused(low: float, refused: bool, tmp_path: Path) -> None:
    nodes = [("QuantizeLinear", ["x", "step", "zero"], ["q"], {}), ("DequantizeLinear", ["q", "step", "zero"], ["d"], {}),
             ("Gemm", ["d", "w", "b"], ["y"], {})]  # fmt: skip
    constants = {"step": np.float32(0.02), "zero": np.uint8(0), "w": draw(6, 3), "b": draw(3)}
    path = Case("quantised", (1, 6), nodes, constants).write(tmp_path)
    np.savez(tmp_path / "d.npz", X=np.abs(FEATURES) + low)
    if not refused:
        assert import_bundle(path, tmp_path / "d.npz").train is not None
        return
    with pytest.raises(
        InputError, match=r"expected from 0 to 5.1, to which the file's first QuantizeLinear clips them"
    ):
        import_bundle(path, tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("kind", "nodes", "found"),
    [
        (TensorProto.UINT8, [("Add", ["x", "x"], ["y"], {})], "UINT8 read by Add"),
        (TensorProto.INT64, [("Reshape", ["x", "s"], ["r"], {}), ("Div", ["r", "s"], ["y"], {})], "INT64 read by Div"),
        (TensorProto.INT8, [("DequantizeLinear", ["x", "s"], ["y"], {})], "INT8 read by DequantizeLinear"),
        (TensorProto.STRING, [("Identity", ["x"], ["y"], {})], "STRING"),
        (
            TensorProto.INT8,
            [("Flatten", ["x"], ["f"], {}), ("Cast", ["f"], ["c"], {"to": 1}), ("Neg", ["c"], ["y"], {})],
            "",
        ),
    ],
)
def test_whole_numbers_that_are_computed_with_are_refused(
    kind: int, nodes: list[tuple[str, list[str], list[str], dict[str, int]]], found: str, tmp_path: Path
) -> None:
    """They wrap around in the file and not in a program: 255 + 1 of a byte is 0. A Cast makes real numbers of them."""
    made = [helper.make_node(name, reads, writes, **given) for name, reads, writes, given in nodes]
    given = helper.make_tensor_value_info("x", kind, [1, 4])
    result = helper.make_tensor_value_info("y", kind if found else TensorProto.FLOAT, None)
    sizes = numpy_helper.from_array(np.array([1, 4]), "s")
    graph = helper.make_graph(made, "whole", [given], [result], [sizes])
    path = tmp_path / "whole.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    if not found:
        assert read_onnx(path).input_shape == (1, 4)
        return
    expected = "input 'x': expected real numbers, or whole ones that the model makes real by a Cast, found " + found
    with pytest.raises(InputError, match=rf"{re.escape(expected)}$"):
        read_onnx(path)


def test_integers_of_the_last_node_are_refused_as_numbers_and_tell_a_class(tmp_path: Path) -> None:
    scores = {"w": draw(6, 3), "b": draw(3), "step": np.float32(0.1), "zero": np.int8(0)}
    layer = ("Gemm", ["x", "w", "b"], ["s"], {})
    model = Case("net", (1, 6), [layer, ("QuantizeLinear", ["s", "step", "zero"], ["y"], {})], scores)
    with pytest.raises(
        InputError, match=r"output: expected real numbers .*, found the integers of node 1 \(Quant.*\)$"
    ):
        imported(model, tmp_path, returns=Returns.VALUE)
    bundle = imported(model, tmp_path, returns=Returns.CLASS)
    np.testing.assert_array_equal(labels_of(bundle), (FEATURES @ scores["w"] + scores["b"]).argmax(axis=1))


def test_dropout_in_training_is_refused(tmp_path: Path) -> None:
    dropped = ("Dropout", ["s", "ratio", "training"], ["y"], {})
    model = case(dropped)
    constants = {**model.constants, "ratio": np.float32(0.5), "training": np.array(True)}
    with pytest.raises(InputError, match=r"expected a model as after training, found a Dropout in training_mode$"):
        imported(Case("net", (1, 6), model.nodes, constants), tmp_path, returns=Returns.VALUE)


def test_a_constant_that_is_no_number_is_refused(tmp_path: Path) -> None:
    """It was taken for places of a sequence, and made whole numbers (found by the fuzzer on a GRU of PyTorch's)."""
    gather = ("Gather", ["x", "places"], ["y"], {"axis": 1})
    network = Case("net", (1, 6), [("Constant", [], ["places"], {"value": onnx.TypeProto()}), gather])
    with pytest.raises(
        InputError,
        match=r"Constant that writes 'places'\): expected an attribute value of type tensor, found type_proto",
    ):
        imported(network, tmp_path)


def test_a_constant_that_writes_two_values_is_refused(tmp_path: Path) -> None:
    network = Case(
        "net", (1, 6), [("Constant", [], ["one", "two"], {"value_float": 1.0}), ("Add", ["x", "two"], ["y"], {})]
    )
    with pytest.raises(InputError, match="'two'"):
        imported(network, tmp_path)


def test_results_without_elements_are_refused(tmp_path: Path) -> None:
    """What is spread along a constant of no elements has none either (found by a mutated file)."""
    nothing = ("Constant", [], ["nothing"], {"value": onnx.numpy_helper.from_array(np.zeros(0, dtype=np.float32))})
    network = Case("net", (1, 6, 1), [nothing, ("Mul", ["x", "nothing"], ["y"], {})])
    with pytest.raises(
        InputError, match=r"Mul that writes 'y'\): expected results of at least one element, found shape"
    ):
        imported(network, tmp_path)


def test_inputs_without_elements_are_refused() -> None:
    with pytest.raises(ValueError, match="expected at least one element, found 1x0"):
        check_features((1, 0))
