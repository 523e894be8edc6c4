"""TensorFlow Lite files: every operator against TensorFlow Lite Micro, and two networks of MLPerf Tiny."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.tflite.model_file import TfliteModel, TfliteOperator, TfliteTensor
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.tflite_arithmetic import ARITHMETIC
from kilotune.codegen.trained.tflite_models import read_tflite
from kilotune.codegen.trained.tflite_rearranging import REARRANGING
from kilotune.codegen.trained.tflite_translation import Translation
from tests.codegen.tflite.models import DATA
from tests.codegen.trained.cases import draw
from tests.codegen.trained.tflite_files import OneOperator, executed


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


IMAGE = (1, 6, 5, 4)
CONV = {"StrideH": 2, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
POOL = {"StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 2}

OPERATORS = (
    OneOperator("CONV_2D", IMAGE, [(1, 3, 5, 3)], [draw(3, 3, 3, 4), draw(3)], ("Conv2DOptions", {"Padding": 0, **CONV})),
    OneOperator("CONV_2D", IMAGE, [(1, 2, 4, 3)], [draw(3, 3, 2, 4), draw(3)],
                ("Conv2DOptions", {"Padding": 1, "FusedActivationFunction": 3, **CONV}), name="valid-relu6"),
    OneOperator("DEPTHWISE_CONV_2D", IMAGE, [(1, 3, 5, 8)], [draw(1, 3, 3, 8), draw(8)],
                ("DepthwiseConv2DOptions", {"Padding": 0, "DepthMultiplier": 2, "FusedActivationFunction": 1, **CONV})),
    OneOperator("FULLY_CONNECTED", (1, 6), [(1, 4)], [draw(4, 6), draw(4)], ("FullyConnectedOptions", {"FusedActivationFunction": 1})),
    OneOperator("FULLY_CONNECTED", (1, 2, 3), [(1, 4)], [draw(4, 6)], ("FullyConnectedOptions", {}), name="flattened"),
    OneOperator("AVERAGE_POOL_2D", IMAGE, [(1, 3, 3, 4)], (), ("Pool2DOptions", {"Padding": 0, **POOL})),
    OneOperator("MAX_POOL_2D", IMAGE, [(1, 2, 2, 4)], (), ("Pool2DOptions", {"Padding": 1, **POOL})),
    OneOperator("MEAN", IMAGE, [(1, 4)], [ints(1, 2)], ("ReducerOptions", {"KeepDims": False})),
    OneOperator("REDUCE_MAX", IMAGE, [(1, 4)], [ints(1, 2)], ("ReducerOptions", {"KeepDims": False})),
    OneOperator("MINIMUM", (1, 6), [(1, 6)], [draw(1)], ("MaximumMinimumOptions", {})),
    OneOperator("MAXIMUM", (1, 6), [(1, 6)], [draw(6)], ("MaximumMinimumOptions", {})),
    OneOperator("ADD", IMAGE, [IMAGE], [draw(4)], ("AddOptions", {"FusedActivationFunction": 1})),
    OneOperator("SUB", (1, 6), [(1, 6)], [np.float32(1).reshape(1)], ("SubOptions", {}), first=1),
    OneOperator("MUL", (1, 6), [(1, 6)], [draw(6)], ("MulOptions", {})),
    OneOperator("LOGISTIC", (1, 6), [(1, 6)]),
    OneOperator("TANH", (1, 6), [(1, 6)]),
    OneOperator("RELU6", (1, 6), [(1, 6)]),
    OneOperator("LEAKY_RELU", (1, 6), [(1, 6)], (), ("LeakyReluOptions", {"Alpha": 0.25})),
    OneOperator("ELU", (1, 6), [(1, 6)]),
    OneOperator("HARD_SWISH", (1, 6), [(1, 6)]),
    OneOperator("RESHAPE", (1, 6), [(1, 2, 3)], [ints(1, 2, 3)]),
    OneOperator("TRANSPOSE", (1, 2, 3), [(1, 3, 2)], [ints(0, 2, 1)]),
    OneOperator("PAD", (1, 2, 3, 1), [(1, 4, 4, 1)], [ints(0, 0, 2, 0, 0, 1, 0, 0).reshape(4, 2)]),
    OneOperator("CONCATENATION", (1, 2, 3), [(1, 2, 5)], [draw(1, 2, 2)], ("ConcatenationOptions", {"Axis": 2})),
    OneOperator("SPLIT", (1, 6), [(1, 2), (1, 2), (1, 2)], [ints(1)], ("SplitOptions", {"NumSplits": 3}), first=1),
    OneOperator("SPLIT_V", (1, 6), [(1, 2), (1, 4)], [ints(2, -1), ints(1)], ("SplitVOptions", {"NumSplits": 2})),
    OneOperator("UNPACK", (3, 1, 4), [(1, 4)] * 3, (), ("UnpackOptions", {"Num": 3, "Axis": 0})),
    OneOperator("PACK", (1, 4), [(1, 2, 4)], [draw(1, 4)], ("PackOptions", {"ValuesCount": 2, "Axis": 1})),
    OneOperator("STRIDED_SLICE", (1, 8), [(1, 3)], [ints(0, 1), ints(0, 7), ints(1, 2)],
                ("StridedSliceOptions", {"BeginMask": 1, "EndMask": 1})),
    OneOperator("STRIDED_SLICE", (4, 3), [(3,)], [ints(-1, 0), ints(0, 0), ints(1, 1)],
                ("StridedSliceOptions", {"EndMask": 2, "ShrinkAxisMask": 1}), name="row"),
    OneOperator("STRIDED_SLICE", (4, 3), [(3,)], [ints(2, 0), ints(3, 3), ints(1, 1)],
                ("StridedSliceOptions", {"BeginMask": 1, "ShrinkAxisMask": 1}), name="first row by both masks"),
    OneOperator("SOFTMAX", (1, 6), [(1, 6)], (), ("SoftmaxOptions", {"Beta": 0.5})),
    OneOperator("SLICE", (1, 8), [(1, 3)], [ints(0, 2), ints(-1, 3)]),
)  # fmt: skip


@pytest.mark.parametrize("one", OPERATORS, ids=lambda one: f"{one.kind}-{one.name}".strip("-"))
def test_the_float_program_is_the_file(one: OneOperator, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    path = one.write(tmp_path / "one.tflite")
    made = convert(read_tflite(path), "one", Returns.VALUE)
    found = run_float(made.program, made.parameters, one.features).outputs
    expected = executed(path, one.features)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "size", "least"), [("kws_int8", 10.0, 0.8), ("ic_int8", 60.0, 0.8)])
def test_a_quantised_network_is_its_float_model_again(name: str, size: float, least: float) -> None:
    """It differs from its own integers by their rounding, which on noise changes the class of a few."""
    pytest.importorskip("tflite_micro")
    path = DATA / f"{name}.tflite"
    model = read_tflite(path)
    made = convert(model, name, Returns.CLASS)
    random = np.random.default_rng(3)
    features = random.normal(128.0 if name.startswith("ic") else 0.0, size, (20, int(np.prod(model.input_shape))))
    found = run_float(made.program, made.parameters, features).labels
    expected = executed(path, features).argmax(axis=1)
    assert (found == expected).mean() >= least
    assert made.class_count == {"kws_int8": 12, "ic_int8": 10}[name]


@pytest.mark.parametrize("begin", [1, -2])
def test_a_span_by_its_length(tmp_path: Path, begin: int) -> None:
    """TensorFlow Lite Micro refuses it; the schema says that the end is counted from the beginning then."""
    spans = [ints(begin, 0), ints(2, 4), ints(1, 1)]
    one = OneOperator("STRIDED_SLICE", (3, 4), [(2, 4)], spans, ("StridedSliceOptions", {"Offset": True}))
    made = convert(read_tflite(one.write(tmp_path / "one.tflite")), "one", Returns.VALUE)
    found = run_float(made.program, made.parameters, one.features).outputs
    np.testing.assert_allclose(found.reshape(-1, 2, 4), one.features.reshape(-1, 3, 4)[:, 1:])


def test_integers_of_a_bias_need_a_scale(tmp_path: Path) -> None:
    one = OneOperator(
        "FULLY_CONNECTED", (1, 6), [(1, 4)], [draw(4, 6), ints(1, 2, 3, 4)], ("FullyConnectedOptions", {})
    )
    with pytest.raises(InputError, match="expected a bias of real numbers, or with a scale, found INT32 without one"):
        convert(read_tflite(one.write(tmp_path / "one.tflite")), "one", Returns.VALUE)


def test_a_softmax_without_beta_is_refused(tmp_path: Path) -> None:
    """Then it is 0, and all probabilities the same."""
    path = OneOperator("SOFTMAX", (1, 6), [(1, 6)], (), ("SoftmaxOptions", {})).write(tmp_path / "one.tflite")
    with pytest.raises(InputError, match=r"expected a Softmax whose beta is above 0, found 0\.0"):
        convert(read_tflite(path), "one", Returns.VALUE)


def test_operators_that_cannot_be_converted_are_named(tmp_path: Path) -> None:
    path = OneOperator("FLOOR", (1, 6), [(1, 6)]).write(tmp_path / "one.tflite")
    with pytest.raises(
        InputError,
        match=r"operator 0 \(FLOOR that writes 't1'\): expected a supported operator .*, found FLOOR",
    ):
        convert(read_tflite(path), "one", Returns.VALUE)


def test_operands_that_must_be_constant_are_named(tmp_path: Path) -> None:
    path = OneOperator("FULLY_CONNECTED", (4, 6), [(1, 4)], [draw(1, 6)], first=1).write(tmp_path / "one.tflite")
    with pytest.raises(
        InputError, match=r"operator 0 \(FULLY_CONNECTED that writes 't2'\): expected constant weights, found 't0#0'"
    ):
        convert(read_tflite(path), "one", Returns.VALUE)


def test_weights_of_16_bit_floats_are_constants() -> None:
    """Converters write them in front of a DEQUANTIZE each."""
    values = np.array([0.5, -2.0, 1 / 3], dtype=np.float16)
    tensors = (
        TfliteTensor(0, "halves", (3,), "FLOAT16", values.view(np.uint8), False),
        TfliteTensor(1, "weights", (3,), "FLOAT32", None, False),
    )
    operator = TfliteOperator(0, "DEQUANTIZE", (0,), (1,))
    translation = Translation(TfliteModel("file", tensors, (operator,), (), (1,)), constants={"halves#0": values})
    ARITHMETIC["DEQUANTIZE"](translation, operator)
    assert not translation.nodes
    np.testing.assert_array_equal(translation.constants["weights#1"], values.astype(np.float64))


def test_a_split_into_nothing_is_refused() -> None:
    """Its sizes were the extent over the number of outputs (found by the fuzzer)."""
    tensors = (
        TfliteTensor(0, "axis", (), "INT32", np.zeros(4, np.uint8), False),
        TfliteTensor(1, "value", (2, 6), "FLOAT32", None, False),
    )
    operator = TfliteOperator(0, "SPLIT", (0, 1), ())
    translation = Translation(
        TfliteModel("file", tensors, (operator,), (1,), (1,)), constants={"axis#0": np.zeros((), np.int32)}
    )
    with pytest.raises(ValueError, match="expected outputs, found none"):
        REARRANGING["SPLIT"](translation, operator)
