"""What an ONNX file may say, and how it is told what it may not."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.graph import AffineNode, ConvNode, PermuteNode
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.reference import evaluate
from tests.codegen.cm.networks import import_file, model, output_of, outputs_of, shipped, single

RNG = np.random.default_rng(3)


def assert_agrees(proto: Any, shape: tuple[int, ...]) -> None:
    graph = import_model(proto, "test")
    image = RNG.normal(size=shape)
    found = output_of(graph, evaluate(graph, image.astype(np.float32)))
    expected = outputs_of(proto, [image])[0]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=60)
@given(
    st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.integers(5, 9), st.integers(5, 9)),
)
def test_convolution_windows(
    mode: str, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], size: tuple[int, int]
) -> None:
    weight = RNG.normal(size=(3, 2, *kernel)).astype(np.float32)
    if mode.startswith("SAME"):
        dilation = (1, 1)  # onnxruntime refuses the two together
    attributes = {"auto_pad": mode, "strides": stride, "dilations": dilation}
    assert_agrees(single("Conv", [1, 2, *size], [weight], **attributes), (2, *size))


@settings(max_examples=60)
@given(
    st.sampled_from(["MaxPool", "AveragePool"]),
    st.booleans(),
    st.integers(0, 1),
    st.tuples(st.integers(2, 3), st.integers(2, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.lists(st.integers(0, 1), min_size=4, max_size=4),
    st.tuples(st.integers(5, 9), st.integers(5, 9)),
)
def test_pooling_windows(
    operator: str,
    ceiling: bool,
    include: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: list[int],
    size: tuple[int, int],
) -> None:
    extra = {"count_include_pad": include} if operator == "AveragePool" else {}
    attributes = {"kernel_shape": kernel, "strides": stride, "pads": pads, "ceil_mode": int(ceiling)}
    assert_agrees(single(operator, [1, 2, *size], opset=19, **attributes, **extra), (2, *size))


@pytest.mark.parametrize("kind", ["raw", "float_data", "double", "float16", "int8", "int32", "int64", "external"])
def test_every_encoding_of_weights(kind: str, tmp_path: Path) -> None:
    values = np.arange(-4, 4).reshape(2, 1, 2, 2)
    types = {"double": np.float64, "float16": np.float16, "int8": np.int8, "int32": np.int32, "int64": np.int64}
    array = values.astype(types.get(kind, np.float32))
    proto = single("Conv", [1, 1, 4, 4], [array])
    tensor = proto.graph.initializer[0]
    if kind != "raw":
        data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor.CopyFrom(helper.make_tensor(tensor.name, data_type, array.shape, array.reshape(-1).tolist()))
    path = tmp_path / "model.onnx"
    if kind == "external":
        tensor.CopyFrom(numpy_helper.from_array(np.tile(array, (20, 1, 1, 1)), tensor.name))
        onnx.save(proto, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
        assert (tmp_path / "weights.bin").exists()
    else:
        onnx.save(proto, str(path))
    conv = import_file(path).nodes[0]
    assert isinstance(conv, ConvNode)
    np.testing.assert_array_equal(conv.weight[:2], values)


def test_batch_normalisation_and_constants_are_folded_into_the_convolution() -> None:
    names = ["scale", "offset", "mean", "variance"]
    constants = {name: RNG.uniform(0.5, 1.5, 3).astype(np.float32) for name in names}
    constants |= {
        "w": RNG.normal(size=(3, 2, 3, 3)).astype(np.float32),
        "m": RNG.normal(size=(3, 1, 1)).astype(np.float32),
        "a": RNG.normal(size=(1, 3, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *names], ["n"], epsilon=0.01),
        helper.make_node("Mul", ["n", "m"], ["p"]),
        helper.make_node("Add", ["a", "p"], ["y"]),
    ]
    proto = model(nodes, [1, 2, 6, 6], constants)
    graph = import_model(proto, "test")
    assert [type(node) for node in graph.nodes] == [ConvNode]
    assert_agrees(proto, (2, 6, 6))
    # what somebody else reads is not folded away
    nodes[3] = helper.make_node("Add", ["c", "p"], ["y"])
    proto = model(nodes, [1, 2, 6, 6], constants)
    assert [type(node).__name__ for node in import_model(proto, "test").nodes] == ["ConvNode", "AffineNode", "AddNode"]
    assert_agrees(proto, (2, 6, 6))


def test_channel_shuffle_is_a_permutation() -> None:
    constants = {"s": np.array([1, 3, 2, 4, 5]), "t": np.array([0, 6, 4, 5])}
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["g"]),
        helper.make_node("Transpose", ["g"], ["h"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["h", "t"], ["y"]),
    ]
    proto = model(nodes, [1, 6, 4, 5], constants)
    node = import_model(proto, "test").nodes[0]
    assert isinstance(node, PermuteNode)
    assert node.order == (0, 2, 4, 1, 3, 5)
    assert_agrees(proto, (6, 4, 5))


@pytest.mark.parametrize("flat", ["Flatten", "Reshape"])
def test_a_matrix_after_flattening_is_a_convolution_over_the_whole_image(flat: str) -> None:
    constants = {"w": RNG.normal(size=(7, 24)).astype(np.float32), "b": RNG.normal(size=7).astype(np.float32)}
    constants["s"] = np.array([0, -1])
    inputs = ["x"] if flat == "Flatten" else ["x", "s"]
    nodes = [
        helper.make_node(flat, inputs, ["f"]),
        helper.make_node("Relu", ["f"], ["r"]),
        helper.make_node("Gemm", ["r", "w", "b"], ["y"], transB=1, alpha=0.5, beta=2.0),
    ]
    proto = model(nodes, [1, 2, 3, 4], constants)
    conv = import_model(proto, "test").nodes[-1]
    assert isinstance(conv, ConvNode)
    assert conv.weight.shape == (7, 2, 3, 4)
    assert_agrees(proto, (2, 3, 4))


def test_arg_max_takes_the_first_of_equal_channels() -> None:
    proto = single("ArgMax", [1, 5, 2, 2], axis=1, keepdims=0)
    graph = import_model(proto, "test")
    image = np.zeros((5, 2, 2))
    image[3:, 0, 0] = 1
    assert output_of(graph, evaluate(graph, image)).tolist() == [[3, 0], [0, 0]]


def test_a_lone_batch_normalisation_stays() -> None:
    statistics = [np.full(2, v, np.float32) for v in (2, 1, 3, 4)]
    node = import_model(single("BatchNormalization", [1, 2, 3, 3], statistics, epsilon=0.0), "test").nodes[0]
    assert isinstance(node, AffineNode)
    assert node.scale.tolist() == [1.0, 1.0]
    assert node.offset.tolist() == [-2.0, -2.0]


REFUSED = {
    "operator": (
        lambda: single("Sin", [1, 2, 3, 3]),
        r"node 0 'only' \(Sin that writes 'y'\): expected a supported operator \(Abs, .*Upsample\), found Sin",
    ),
    "domain": (
        lambda: model([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], [1, 2, 3, 3], {}),
        "found com.microsoft.Gelu",
    ),
    "dynamic": (
        lambda: model([helper.make_node("Relu", ["x"], ["y"])], [1, 3, "height", "width"], {}),
        "input 'x': expected fixed channels, height and width, found dynamic shape 1x3xheightxwidth",
    ),
    "three dimensions": (
        lambda: single("Relu", [1, 2, 3, 3, 3]),
        "found 5 dimensions",
    ),
    "weights of the image": (
        lambda: model([helper.make_node("Conv", ["x", "x"], ["y"])], [1, 2, 3, 3], {}),
        "expected constant weights, found 'x', which depends on the image",
    ),
    "channels": (
        lambda: single("Conv", [1, 4, 5, 5], [np.zeros((2, 3, 1, 1), np.float32)]),
        r"expected weights for 4 channels in 1 group, found shape \[2, 3, 1, 1\]",
    ),
    "kernel": (
        lambda: single("MaxPool", [1, 2, 3, 3], kernel_shape=[4, 4]),
        "expected a kernel within the padded input 3x3, found 4x4",
    ),
    "LRN of an infinite bias": (
        lambda: single("LRN", [1, 4, 3, 3], size=3, bias=float("inf")),
        "expected a size from 1, a bias above 0, an alpha from 0 and a beta, all finite, found 3, inf, 0.0001, 0.75",
    ),
    "LRN of no alpha": (
        lambda: single("LRN", [1, 4, 3, 3], size=3, alpha=float("nan")),
        "found 3, 1, nan, 0.75",
    ),
    "softmax in the middle": (
        lambda: model(
            [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])], [1, 2, 3, 3], {}
        ),
        r"node 1 \(Relu that writes 'y'\): expected Softmax at the end, found Relu after it",
    ),
    "axis": (
        lambda: model([helper.make_node("Concat", ["x", "x"], ["y"], axis=2)], [1, 2, 3, 3], {}),
        r"expected concatenation of channels \(axis 1\), found axis 2",
    ),
    "sizes": (
        lambda: model(
            [
                helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2]),
                helper.make_node("Add", ["x", "p"], ["y"]),
            ],
            [1, 2, 3, 3],
            {},
        ),
        r"expected operands of one shape, or of one pixel or one channel, found \[1, 2, 3, 3\] and \[1, 2, 2, 2\]",
    ),
    "no outputs": (
        lambda: single("Conv", [1, 2, 3, 3], [np.zeros((0, 2, 1, 1), np.float32)]),
        r"expected weights, found none in shape \[0, 2, 1, 1\]",
    ),
    "bounds": (lambda: single("Clip", [1, 2, 3, 3], [np.float32("nan")]), "expected numbers as bounds, found NaN"),
    "variance": (
        lambda: single("BatchNormalization", [1, 2, 3, 3], [*(np.ones(2, np.float32),) * 3, -np.ones(2, np.float32)]),
        r"\(BatchNormalization that writes 'y'\): expected finite weights, found NaN or infinity",
    ),
    "divisor": (lambda: single("Div", [1, 2, 3, 3], [np.float32(0)]), "expected a divisor, found 0"),
    "attribute of a constant": (
        lambda: model([helper.make_node("Cast", ["k"], ["y"])], [1, 2, 3, 3], {"k": np.zeros(1, np.float32)}),
        r"node 0 \(Cast that writes 'y'\): expected the inputs and attributes of Cast, found others",
    ),
    "written twice": (
        lambda: model([helper.make_node("Relu", ["x"], ["y"]) for _ in range(2)], [1, 2, 3, 3], {}),
        "node 1 .*: expected an output of its own, found 'y', which is there already",
    ),
    "too large an image": (
        lambda: single("Relu", [1, 3, 100_000, 100_000]),
        "input 'x': expected at most 268435456 elements, found 3x100000x100000",
    ),
    "too large an output": (
        lambda: single("Conv", [1, 1, 3, 3], [np.ones((1, 1, 1, 1), np.float32)], pads=[60_000] * 4),
        "expected at most 268435456 elements, found 1x120003x120003",
    ),
    "too wide a padding": (
        lambda: single("Conv", [1, 1, 3, 3], [np.ones((1, 1, 1, 1), np.float32)], pads=[10**9] * 4),
        "expected kernel, strides, dilations and pads of at most 65536, found 1000000000",
    ),
    "too many weights": (
        lambda: model([helper.make_node("ConstantOfShape", ["k"], ["y"])], [1, 2, 3, 3], {"k": np.array([10**5] * 4)}),
        "expected at most 268435456 elements, found 100000x100000x100000x100000",
    ),
}


def test_missing_external_weights_are_not_called_damaged(tmp_path: Path) -> None:
    proto = single("Conv", [1, 2, 3, 3], [np.ones((1, 2, 1, 1), np.float32)])
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="nowhere.bin")
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(
        InputError, match="'c0': expected 1x2x1x1 elements of type float, found an external file without"
    ):
        import_file(path)


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_mapped_is_named_with_its_place(what: str) -> None:
    make, message = REFUSED[what]
    with pytest.raises(InputError, match=message) as error:
        import_model(make(), "net.onnx")
    assert str(error.value).startswith("net.onnx: ")
    assert "\n" not in str(error.value)


def test_two_inputs_or_outputs_are_refused() -> None:
    proto = model([helper.make_node("Add", ["x", "z"], ["y"])], [1, 2, 3, 3], {})
    proto.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 2, 3, 3]))
    with pytest.raises(InputError, match="graph inputs: expected one image, found 'x', 'z'"):
        import_model(proto, "net.onnx")


def test_a_truncated_file_is_one_message_wherever_it_is_cut(tmp_path: Path) -> None:
    whole = single("Conv", [1, 2, 5, 5], [RNG.normal(size=(3, 2, 3, 3)).astype(np.float32)]).SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in itertools.chain(range(0, len(whole), 7), [len(whole) - 1]):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError) as error:
            import_file(path)
        assert str(error.value).startswith(str(path))


def test_damaged_files_are_told_apart_or_read(tmp_path: Path) -> None:
    """Whatever bytes change: a network, or one sentence; nothing else is raised."""
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.onnx"
    files = [Path(name).read_bytes() for name in shipped("pytorch-converted") if Path(name).stat().st_size < 20_000]
    refused = 0
    for _ in range(400):
        damaged = bytearray(files[int(rng.integers(len(files)))])
        for _ in range(int(rng.integers(1, 4))):
            place = int(rng.integers(len(damaged)))
            if rng.random() < 0.7:
                damaged[place] = int(rng.integers(256))
            else:
                del damaged[place : place + int(rng.integers(1, 5))]
        path.write_bytes(bytes(damaged))
        with suppress(InputError):
            import_file(path)
            continue
        refused += 1
    assert refused > 200


def test_a_window_of_padding_only_is_refused() -> None:
    proto = single("MaxPool", [1, 1, 1, 1], kernel_shape=[2, 2], pads=[1, 1, 1, 1], dilations=[2, 2])
    with pytest.raises(InputError, match="found one of padding only"):
        import_model(proto, "net.onnx")


def test_weights_that_are_no_numbers_are_refused() -> None:
    proto = single("Conv", [1, 1, 3, 3], [np.full((1, 1, 1, 1), np.nan, np.float32)])
    with pytest.raises(InputError, match="expected finite weights, found NaN"):
        import_model(proto, "net.onnx")


def test_other_bytes_missing_files_and_missing_weights(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        import_file(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("def main(): pass\n")
    with pytest.raises(InputError, match="expected an ONNX file"):
        import_file(tmp_path / "text.onnx")
    proto = single("Conv", [1, 2, 5, 5], [np.zeros((3, 2, 3, 3), np.float32)])
    onnx.save(proto, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(InputError, match="initialiser 'c0'"):
        import_file(tmp_path / "m.onnx")
    proto = single("Conv", [1, 2, 5, 5], [np.zeros((3, 2, 3, 3), np.float32)])
    proto.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data[:-4]
    with pytest.raises(InputError, match="initialiser 'c0': expected 3x2x3x3 elements of type float"):
        import_model(proto, "net.onnx")
