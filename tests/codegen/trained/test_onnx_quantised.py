"""Quantised ONNX files whose integers are kept: equal to ONNX Runtime in every element."""

from __future__ import annotations

import dataclasses
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.arrays import Array, FloatArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.quantised import lower_quantised
from kilotune.codegen.ir.quantised import even_quotient
from kilotune.codegen.quantisation_grid import QuantisationGrid
from kilotune.codegen.trained.conversion import Converted, convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.even_arithmetic import even_sum
from kilotune.codegen.trained.quantised_importing import import_quantised_bundle, read_kept, with_answer
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.trained.onnx_files import Case
from tests.codegen.trained.qdq_networks import random_qdq_network

onnxruntime.set_default_logger_severity(3)


def executed(path: Path, reals: FloatArray) -> FloatArray:
    """What ONNX Runtime returns [samples, elements]."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given_input = session.get_inputs()[0]
    shape = [extent if isinstance(extent, int) else 1 for extent in given_input.shape]
    rows = [session.run(None, {given_input.name: row.astype(np.float32).reshape(shape)})[0] for row in reals]
    return np.array([np.asarray(row, dtype=np.float64).reshape(-1) for row in rows])


def compared(path: Path, reals: FloatArray) -> tuple[Array, Array]:
    """Integers of the program, and of ONNX Runtime, one row a sample."""
    model = read_kept(path)
    made, grid = convert(model, "made", Returns.VALUE), model.output_grid
    assert model.input_grid is not None
    assert grid is not None
    expected = np.rint(executed(path, reals) / grid.step) + grid.zero
    return outputs(made, model.input_grid.apply(reals)), expected


def outputs(made: Converted, integers: FloatArray) -> Array:
    return run_reference(lower_quantised(made.program), made.parameters, integers)[0]


@given(st.integers(0, 1 << 32))
def test_random_networks_equal_onnx_runtime(seed: int) -> None:
    random = np.random.default_rng(seed)
    network = random_qdq_network(random)
    reals = random.uniform(-140, 140, (6, int(np.prod(network.given)))) * float(next(iter(network.constants.values())))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        onnx.save(network.model(), str(path))
        model = read_kept(path)
        if ir.is_quantised(convert(model, "made", Returns.VALUE).program):
            found, expected = compared(path, reals)
            np.testing.assert_array_equal(found, expected)


def quantised(
    *nodes: tuple[str, list[str], list[str], dict[str, object]], shape: tuple[int, ...] = (1, 6), **constants: Array
) -> Case:
    """A model whose `x` is quantised with a scale of 0.05 around -3; `q` with 0.0973 around 7."""
    grids = {"s": np.float32(0.05), "z": np.int8(-3), "t": np.float32(0.0973), "u": np.int8(7)}
    given_nodes = [("QuantizeLinear", ["x", "s", "z"], ["i"], {}), ("DequantizeLinear", ["i", "s", "z"], ["r"], {})]
    return Case("net", shape, [*given_nodes, *nodes], grids | constants)


def closed(value: str) -> tuple[tuple[str, list[str], list[str], dict[str, object]], ...]:
    """A value on the grid of `q`, as the result."""
    return ("QuantizeLinear", [value, "t", "u"], ["q"], {}), ("DequantizeLinear", ["q", "t", "u"], ["y"], {})


WEIGHTS = {"w": np.arange(-6, 6, dtype=np.int8).reshape(2, 6) * 9, "v": np.float32(0.02), "n": np.int8(0)}
REAL_WEIGHTS = ("DequantizeLinear", ["w", "v", "n"], ["m"], {})


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (quantised(("Erf", ["r"], ["a"], {}), *closed("a")), "expected a supported operator for kept integers"),
        (quantised(("Relu", ["r"], ["y"], {})), "expected a QuantizeLinear behind Relu, found the end of the model"),
        (
            quantised(REAL_WEIGHTS, ("Gemm", ["r", "m", "b"], ["a"], {"transB": 1}), *closed("a"), **WEIGHTS, b=np.zeros(2, np.float32)),
            "expected constant biases behind a DequantizeLinear, found real ones",
        ),
        (
            quantised(("Gemm", ["r", "w"], ["a"], {"transB": 1}), *closed("a"), w=np.zeros((2, 6), np.float32)),
            "expected constant weights behind a DequantizeLinear, found real ones",
        ),
        (
            quantised(REAL_WEIGHTS, ("Gemm", ["r", "m"], ["a"], {"transB": 1, "alpha": 2.0}), *closed("a"), **WEIGHTS),
            "expected rows of features times a matrix, found other factors",
        ),
        (
            quantised(REAL_WEIGHTS, ("Gemm", ["r", "m"], ["a"], {"transB": 1}), *closed("a"), **WEIGHTS | {"n": np.int8(90)}),
            "expected weights of 8 bits less their zero point (quantise them symmetrically), found -144 to -45",
        ),
        (
            quantised(("DequantizeLinear", ["w", "v", "n"], ["m"], {"axis": 2}), ("Gemm", ["r", "m"], ["a"], {"transB": 1}), *closed("a"),
                      **WEIGHTS | {"v": np.full(6, 0.02, np.float32), "n": np.zeros(6, np.int8)}),
            "expected scales along an axis of [2, 6], found 6",
        ),
        (
            quantised(REAL_WEIGHTS, ("DequantizeLinear", ["b", "k"], ["c"], {}), ("Gemm", ["r", "m", "c"], ["a"], {"transB": 1}),
                      *closed("a"), **WEIGHTS, b=np.zeros(3, np.int32), k=np.float32(0.001)),
            "expected a bias and a scale for each of 2 channels, found 3 and 1",
        ),
        (
            quantised(REAL_WEIGHTS, ("DequantizeLinear", ["b", "k"], ["c"], {}), ("Gemm", ["r", "m", "c"], ["a"], {"transB": 1}),
                      *closed("a"), **WEIGHTS, b=np.zeros(2, np.int32), k=np.float32(0.002)),
            "expected biases whose scale is that of the features times that of the weights, found others",
        ),
        (
            quantised(("DequantizeLinear", ["w", "v", "n"], ["m"], {"axis": 1}), ("Gemm", ["r", "m"], ["a"], {"transB": 1}), *closed("a"),
                      **WEIGHTS | {"v": np.full(6, 0.02, np.float32), "n": np.zeros(6, np.int8)}),
            "expected a scale for each output, found scales along axis 1",
        ),
        (
            quantised(("Softmax", ["r"], ["y"], {})),
            "expected a class as the result (--returns class), or a file without Softmax, found probabilities",
        ),
        (
            quantised(*closed("r"), t=np.float32(0.1), u=np.int16(7)),
            "expected integers of 8 bits with one scale, found int16 with 1",
        ),
        (
            quantised(("Relu", ["x"], ["a"], {}), *closed("a")),
            "expected a DequantizeLinear before Relu, found real numbers",
        ),
    ],
)  # fmt: skip
def test_what_has_no_integers_is_refused_in_words(case: Case, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        convert(read_kept(case.write(tmp_path)), "made", Returns.VALUE)
    assert said in str(refused.value)


def test_all_obstacles_are_in_one_message(tmp_path: Path) -> None:
    case = quantised(("Erf", ["r"], ["a"], {}), *closed("a"), ("Sinh", ["r"], ["e"], {}), ("Exp", ["e"], ["k"], {}))
    nodes = [*case.nodes[:-3], *case.nodes[-2:], ("Add", ["a", "k"], ["o"], {}), *closed("o")]
    with pytest.raises(InputError, match=r"found Erf; besides: node \d+ \(Sinh"):
        convert(read_kept(Case("net", case.shape, nodes, case.constants).write(tmp_path)), "made", Returns.VALUE)


@pytest.mark.parametrize(
    "case",
    [
        # the largest, moved and bounded elements before they are rounded
        quantised(("Tanh", ["r"], ["a"], {}), ("MaxPool", ["a"], ["b"], {"kernel_shape": [2], "strides": [2]}),
                  ("Flatten", ["b"], ["c"], {}), ("Clip", ["c", "low", "high"], ["d"], {}), *closed("d"),
                  shape=(1, 2, 6), low=np.float32(-0.3), high=np.float32(0.8)),
        # a border whose number is none of the zero point, before an average and before a convolution
        quantised(("Pad", ["r", "pads", "number"], ["a"], {}), ("QuantizeLinear", ["a", "s", "z"], ["j"], {}),
                  ("DequantizeLinear", ["j", "s", "z"], ["b"], {}),
                  ("AveragePool", ["b"], ["c"], {"kernel_shape": [2], "strides": [1]}), *closed("c"),
                  shape=(1, 2, 6), pads=np.array([0, 0, 1, 0, 0, 1]), number=np.float32(0.15)),
        quantised(("Pad", ["r", "pads", "number"], ["a"], {}), ("QuantizeLinear", ["a", "s", "z"], ["j"], {}),
                  ("DequantizeLinear", ["j", "s", "z"], ["b"], {}), REAL_WEIGHTS, ("Conv", ["b", "m"], ["c"], {}), *closed("c"),
                  shape=(1, 2, 6), pads=np.array([0, 0, 1, 0, 0, 1]), number=np.float32(0.15),
                  **WEIGHTS | {"w": WEIGHTS["w"].reshape(3, 2, 2)}),
        quantised(("AveragePool", ["r"], ["c"], {"kernel_shape": [2], "strides": [1], "pads": [1, 1], "count_include_pad": 1}),
                  *closed("c"), shape=(1, 2, 6)),
        # one value on two grids, weights that are transposed, a mean without its axes
        quantised(REAL_WEIGHTS, ("Transpose", ["m"], ["w2"], {"perm": [1, 0]}), ("MatMul", ["r", "w2"], ["a"], {}),
                  ("Relu", ["a"], ["b"], {}), ("QuantizeLinear", ["a", "t", "z"], ["j"], {}),
                  ("DequantizeLinear", ["j", "t", "z"], ["c"], {}), ("QuantizeLinear", ["b", "t", "u"], ["k"], {}),
                  ("DequantizeLinear", ["k", "t", "u"], ["d"], {}), ("Add", ["c", "d"], ["e"], {}), *closed("e"), **WEIGHTS),
        quantised(("ReduceMean", ["r"], ["a"], {"axes": [2, 3], "keepdims": 0}), ("QuantizeLinear", ["a", "t", "u"], ["j"], {}),
                  ("DequantizeLinear", ["j", "t", "u"], ["b"], {}), REAL_WEIGHTS, ("Gemm", ["b", "m"], ["c"], {"transB": 1}), *closed("c"),
                  shape=(1, 6, 4, 2), **WEIGHTS),
    ],
)  # fmt: skip
def test_small_networks_equal_onnx_runtime(case: Case, tmp_path: Path) -> None:
    found, expected = compared(case.write(tmp_path), case.features)
    np.testing.assert_array_equal(found, expected)


def test_scales_are_along_the_second_axis_where_nothing_is_said(tmp_path: Path) -> None:
    """Of constants that are quantised in the file and of those that are stored so; -128 is a weight like others."""
    matrix = np.random.default_rng(1).integers(-128, 128, (6, 2)).astype(np.int8)
    matrix[0, 0] = -128
    scales = {"v": np.array([0.02, 0.013], np.float32), "n": np.zeros(2, np.int8)}
    stored = quantised(REAL_WEIGHTS, ("MatMul", ["r", "m"], ["a"], {}), *closed("a"), w=matrix, **scales)
    real = quantised(("QuantizeLinear", ["w", "v", "n"], ["l"], {}), ("DequantizeLinear", ["l", "v", "n"], ["m"], {}),
                     ("MatMul", ["r", "m"], ["a"], {}), *closed("a"), w=(matrix * scales["v"]).astype(np.float32), **scales)  # fmt: skip
    for case in (stored, real):
        found, expected = compared(case.write(tmp_path), case.features)
        np.testing.assert_array_equal(found, expected)


def test_weights_that_a_file_keeps_as_real_numbers_before_they_are_rounded(tmp_path: Path) -> None:
    reals = np.random.default_rng(1).normal(0, 1, (2, 6)).astype(np.float32)
    case = quantised(
        ("QuantizeLinear", ["w", "v", "n"], ["l"], {"axis": 0}), ("DequantizeLinear", ["l", "v", "n"], ["m"], {"axis": 0}),
        ("Gemm", ["r", "m"], ["a"], {"transB": 1}), *closed("a"),
        w=reals, v=np.array([0.02, 0.01], np.float32), n=np.zeros(2, np.int8),
    )  # fmt: skip
    found, expected = compared(case.write(tmp_path), case.features)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "tail",
    [
        ("Slice", ["b", "last", "end", "axis"], ["y"], {}),
        ("Gather", ["b", "four"], ["y"], {"axis": 1}),
        ("Transpose", ["b"], ["y"], {"perm": [0, 2, 1]}),
    ],
    ids=lambda tail: tail[0],
)
def test_a_product_of_steps_keeps_its_axes(
    tail: tuple[str, list[str], list[str], dict[str, object]], tmp_path: Path
) -> None:
    """What follows a MatMul of three axes takes the second one (found by a reader: 80 % of the elements were others)."""
    random = np.random.default_rng(5)
    constants = {"w": random.integers(-100, 100, (6, 5)).astype(np.int8), "ws": np.float32(0.02), "wz": np.int8(0),
                 "last": np.array([-1]), "end": np.array([9]), "axis": np.array([1]), "four": np.array(4)}  # fmt: skip
    nodes = [
        ("DequantizeLinear", ["w", "ws", "wz"], ["m"], {}),
        ("MatMul", ["r", "m"], ["a"], {}),
        ("QuantizeLinear", ["a", "t", "u"], ["q"], {}),
        ("DequantizeLinear", ["q", "t", "u"], ["b"], {}),
        tail,
    ]
    path = quantised(*nodes, shape=(1, 5, 6), **constants).write(tmp_path)
    found, expected = compared(path, random.normal(0, 2, (12, 30)))
    np.testing.assert_array_equal(found, expected)


def test_a_probability_on_another_grid_is_still_one(tmp_path: Path) -> None:
    """Yes is more than a half of it, not more than 0 (found by a reader: 94 of 200 classes wrong)."""
    random = np.random.default_rng(6)
    constants = {"w": random.integers(-100, 100, (6, 1)).astype(np.int8), "ws": np.float32(0.02), "wz": np.int8(0),
                 "p": np.float32(1 / 256), "pz": np.int8(-128), "q": np.float32(1 / 200), "qz": np.int8(-100)}  # fmt: skip
    nodes = [("DequantizeLinear", ["w", "ws", "wz"], ["m"], {}), ("MatMul", ["r", "m"], ["a"], {}),
             ("QuantizeLinear", ["a", "t", "u"], ["i0"], {}), ("DequantizeLinear", ["i0", "t", "u"], ["b"], {}),
             ("Sigmoid", ["b"], ["c"], {}), ("QuantizeLinear", ["c", "p", "pz"], ["i1"], {}),
             ("DequantizeLinear", ["i1", "p", "pz"], ["d"], {}), ("QuantizeLinear", ["d", "q", "qz"], ["i2"], {}),
             ("DequantizeLinear", ["i2", "q", "qz"], ["y"], {})]  # fmt: skip
    path = quantised(*nodes, **constants).write(tmp_path)
    reals = random.normal(0, 2, (40, 6))
    np.savez(tmp_path / "d.npz", X=reals, y=np.arange(40) % 2)
    bundle = import_quantised_bundle(path, tmp_path / "d.npz")
    assert bundle.class_count == 2
    assert bundle.train is not None
    found = run_reference(lower_quantised(bundle.program), bundle.parameters, bundle.train.features)[0][:, 0]
    np.testing.assert_array_equal(found, executed(path, reals)[:, 0] > 0.5)


def test_averages_over_gaps_are_refused(tmp_path: Path) -> None:
    """The size of the result counted them, the sums did not (found by a reader)."""
    nodes = [("AveragePool", ["r"], ["a"], {"kernel_shape": [2], "dilations": [2]}), *closed("a")]
    case = dataclasses.replace(quantised(*nodes, shape=(1, 2, 7)), opset=19)
    np.savez(tmp_path / "d.npz", X=np.zeros((3, 14)))
    with pytest.raises(InputError, match=r"expected a window without gaps, found dilations \[1, 2\]"):
        import_quantised_bundle(case.write(tmp_path), tmp_path / "d.npz")


def test_one_score_alone_tells_no_classes_apart(tmp_path: Path) -> None:
    """The largest of one is always the first (found by a reader: its sign was told)."""
    weights = {"w": np.ones((6, 1), np.int8), "ws": np.float32(0.02), "wz": np.int8(0)}
    nodes = [("DequantizeLinear", ["w", "ws", "wz"], ["m"], {}), ("MatMul", ["r", "m"], ["a"], {}),
             ("QuantizeLinear", ["a", "t", "u"], ["q"], {}), ("DequantizeLinear", ["q", "t", "u"], ["b"], {}),
             ("Softmax", ["b"], ["y"], {"axis": 1})]  # fmt: skip
    path = quantised(*nodes, **weights).write(tmp_path)
    np.savez(tmp_path / "d.npz", X=np.zeros((3, 6)))
    with pytest.raises(InputError, match="scores: expected those of at least two classes, found one"):
        import_quantised_bundle(path, tmp_path / "d.npz")


@pytest.mark.parametrize("scale", [0.013, 0.05])
def test_one_score_says_yes_where_the_file_does(scale: float, tmp_path: Path) -> None:
    """A probability above a half, or a score above 0, wherever the zero point is."""
    matrix = ("Gemm", ["r", "m"], ["a"], {"transB": 1})
    weights = WEIGHTS | {"w": WEIGHTS["w"][:1], "t": np.float32(scale), "u": np.int8(-60)}
    score = quantised(REAL_WEIGHTS, matrix, *closed("a"), **weights)
    probability = quantised(
        REAL_WEIGHTS, matrix, ("QuantizeLinear", ["a", "t", "u"], ["o"], {}), ("DequantizeLinear", ["o", "t", "u"], ["p"], {}),
        ("Sigmoid", ["p"], ["e"], {}), ("QuantizeLinear", ["e", "k", "g"], ["h"], {}), ("DequantizeLinear", ["h", "k", "g"], ["y"], {}),
        **weights, k=np.float32(0.00391), g=np.int8(-128),
    )  # fmt: skip
    for case, least in ((score, 0.0), (probability, 0.5)):
        path = case.write(tmp_path)
        model = read_kept(path)
        assert model.input_grid is not None
        made = convert(with_answer(model), "made", Returns.CLASS)
        found = outputs(made, model.input_grid.apply(case.features))
        wanted = executed(path, case.features) > least
        assert found.tolist() == wanted.astype(int).tolist()
        assert 0 < found.sum() < len(found)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(np.arange(12) % 2, 2), (np.arange(12) % 2 + 1, None), (np.arange(12) % 3, None), (None, None)],
)
def test_labels_of_no_and_yes_make_a_class_of_a_probability(
    labels: np.ndarray | None, classes: int | None, tmp_path: Path
) -> None:
    """And not of another score."""
    grid = {"k": np.float32(0.00391), "g": np.int8(-128)}
    tail = ("QuantizeLinear", ["e", "k", "g"], ["h"], {}), ("DequantizeLinear", ["h", "k", "g"], ["y"], {})
    product = REAL_WEIGHTS, ("Gemm", ["r", "m"], ["a"], {"transB": 1})
    weights = WEIGHTS | {"w": WEIGHTS["w"][:1]}
    probability = quantised(*product, *closed("a")[:1], ("DequantizeLinear", ["q", "t", "u"], ["p"], {}), ("Sigmoid", ["p"], ["e"], {}),
                            *tail, **weights, **grid)  # fmt: skip
    given_labels = {} if labels is None else {"y": labels}
    np.savez(tmp_path / "d.npz", X=probability.features, **given_labels)
    assert import_quantised_bundle(probability.write(tmp_path), tmp_path / "d.npz").class_count == classes
    score = quantised(*product, *closed("a"), **weights)
    assert import_quantised_bundle(score.write(tmp_path), tmp_path / "d.npz").class_count is None


@given(
    st.tuples(*[st.floats(2.0**-9, 1.0, width=32)] * 3), st.integers(-128, 127), st.integers(-128, 127), st.booleans()
)
def test_sums_of_all_pairs_are_exact_until_they_are_rounded(
    scales: tuple[float, ...], p: int, q: int, minus: bool
) -> None:
    grids = [QuantisationGrid(scale, zero) for scale, zero in zip(scales, (p, q, 0), strict=True)]
    weights, shift = even_sum(grids[0], grids[1], grids[2], minus=minus)
    ratios = [Fraction(float(np.float32(scale) / np.float32(scales[2]))) for scale in scales[:2]]
    unit = max(ratio.denominator for ratio in ratios) * 2
    exact_a, exact_b = (int(ratio * unit) for ratio in ratios)
    exact_b = -exact_b if minus else exact_b
    a, b = (np.ravel(one) for one in np.meshgrid(np.arange(-128, 128) - p, np.arange(-128, 128) - q))
    quotient, rest = np.divmod(a * exact_a + b * exact_b, unit)
    wanted = quotient + ((2 * rest > unit) | ((2 * rest == unit) & (quotient % 2 == 1)))
    found = even_quotient(a * weights[0] + b * weights[1], shift)
    np.testing.assert_array_equal(np.clip(found, -255, 255), np.clip(wanted, -255, 255))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_border_of_integers_is_one_of_the_file(kind: type[np.generic], tmp_path: Path) -> None:
    """As the QOperator form has it: Pad between integers, and numbers that no tool quantises."""
    zero = 125 if kind is np.uint8 else -3
    nodes = [
        ("Pad", ["i", "pads", "border"], ["j"], {}), ("DequantizeLinear", ["j", "s", "z"], ["b"], {}),
        ("Sub", ["one", "b"], ["c"], {}), *closed("c"),
    ]  # fmt: skip
    constants = {"z": kind(zero), "u": kind(zero), "pads": np.array([0, 0, 1, 0, 0, 2]), "border": kind(zero + 9)}
    case = quantised(*nodes, shape=(1, 2, 5), one=np.float32(1), **constants)
    found, expected = compared(case.write(tmp_path), case.features)
    np.testing.assert_array_equal(found, expected)
