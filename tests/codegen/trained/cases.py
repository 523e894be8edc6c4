"""One small model for every operator that trained models may have, and for every way in which it may be written."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.codegen.trained.onnx_files import Case

IMAGE = (1, 3, 6, 5)


def draw(*shape: int) -> np.ndarray:
    """Weights that are the same in every run."""
    return np.random.default_rng(sum(shape) + len(shape)).normal(0, 0.5, shape).astype(np.float32)


def numbers(*values: int) -> np.ndarray:
    """Sizes, axes or places."""
    return np.array(values, dtype=np.int64)


def one(
    name: str, operator: str, shape: tuple[int, ...], constants: dict[str, np.ndarray] | None = None, **attributes: Any
) -> Case:
    """A single node that reads x and all the constants, in their order."""
    given = constants or {}
    return Case(name, shape, [(operator, ["x", *given], ["y"], attributes)], given)


def image(name: str, operator: str, constants: dict[str, np.ndarray] | None = None, **attributes: Any) -> Case:
    """`one` of an image."""
    return one(name, operator, IMAGE, constants, **attributes)


PRODUCTS = (
    one("gemm", "Gemm", (1, 7), {"w": draw(7, 4), "b": draw(4)}),
    one("gemm-factors", "Gemm", (1, 7), {"w": draw(4, 7), "b": draw(1, 4)}, transB=1, alpha=0.5, beta=3.0),
    one("gemm-free-batch", "Gemm", ("n", 7), {"w": draw(7, 4)}),
    one("gemm-rows", "Gemm", (3, 7), {"w": draw(7, 4), "b": draw(4)}),
    one("matmul", "MatMul", (1, 7), {"w": draw(7, 4)}),
    one("matmul-sequence", "MatMul", (1, 5, 7), {"w": draw(7, 4)}),
    one("matmul-vector", "MatMul", (1, 7), {"w": draw(7)}),
    one("matmul-sequence-vector", "MatMul", (1, 5, 7), {"w": draw(7)}),
    Case(
        "matmul-blocks",
        (1, 7),
        [("DequantizeLinear", ["q", "s", "z"], ["w"], {"axis": 0, "block_size": 3}), ("MatMul", ["x", "w"], ["y"], {})],
        {"q": (40 * draw(7, 4)).astype(np.int8), "s": np.abs(draw(3, 4)), "z": (9 * draw(3, 4)).astype(np.int8)},
        opset=21,
    ),
    Case("matmul-both", (1, 4, 4), [("MatMul", ["x", "x"], ["y"], {})]),
    Case("matmul-left", (1, 4, 3), [("MatMul", ["w", "x"], ["y"], {})], {"w": draw(2, 4)}),
    image("conv", "Conv", {"w": draw(4, 3, 3, 3), "b": draw(4)}, pads=[1, 1, 1, 1]),
    image("conv-strides", "Conv", {"w": draw(4, 3, 3, 2)}, pads=[1, 0, 0, 2], strides=[2, 1], dilations=[2, 1]),
    image("conv-same", "Conv", {"w": draw(2, 3, 2, 2)}, auto_pad="SAME_UPPER"),
    image("depthwise", "Conv", {"w": draw(6, 1, 3, 3), "b": draw(6)}, group=3),
    one("conv-groups", "Conv", (1, 4, 5, 4), {"w": draw(6, 2, 2, 2)}, group=2),
    Case(
        "conv-of-one-place",
        IMAGE,
        [("GlobalAveragePool", ["x"], ["g"], {}), ("Conv", ["g", "w"], ["y"], {})],
        {"w": draw(4, 3, 1, 1)},
    ),
    one("conv-of-one-row", "Conv", (1, 2, 1, 7), {"w": draw(3, 2, 1, 3)}, pads=[0, 1, 0, 1], dilations=[1, 2]),
    one("conv-of-one-column", "Conv", (1, 4, 5, 1), {"w": draw(6, 2, 3, 1)}, group=2),
    one("max-pool-of-one-row", "MaxPool", (1, 2, 1, 6), kernel_shape=[1, 3], pads=[0, 1, 0, 1], strides=[1, 2]),
    one("conv-1d", "Conv", (1, 3, 9), {"w": draw(4, 3, 3), "b": draw(4)}, pads=[1, 0], strides=[2]),
)

WINDOWS = (
    image("maxpool", "MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    image("maxpool-padded", "MaxPool", kernel_shape=[3, 2], pads=[1, 1, 1, 0], ceil_mode=1, strides=[2, 2]),
    one("maxpool-1d", "MaxPool", (1, 3, 8), kernel_shape=[3]),
    image("averagepool", "AveragePool", kernel_shape=[2, 3], strides=[2, 1]),
    image("averagepool-inside", "AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    image("averagepool-padded", "AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    image("global-average", "GlobalAveragePool"),
    image("global-max", "GlobalMaxPool"),
    image("mean-of-image", "ReduceMean", axes=[2, 3], keepdims=0),
    image("mean-of-channels", "ReduceMean", axes=[1]),
    image("largest-of-image", "ReduceMax", axes=[2, 3], keepdims=0),
    image("largest-of-channels", "ReduceMax", axes=[-3]),
    Case(
        "largest-of-all", (1, 3, 4), [("Transpose", ["x"], ["t"], {"perm": [0, 2, 1]}), ("ReduceMax", ["t"], ["y"], {})]
    ),
    Case("sum", IMAGE, [("ReduceSum", ["x", "axes"], ["y"], {"keepdims": 0})], {"axes": numbers(3)}),
)

ELEMENTS = (
    one("add", "Add", (1, 2, 3), {"b": draw(2, 1)}),
    one("subtract", "Sub", (1, 2, 3), {"b": draw(3)}),
    Case("subtract-from", (1, 6), [("Sub", ["one", "x"], ["y"], {})], {"one": np.float32(1)}),
    one("multiply", "Mul", (1, 2, 3), {"b": draw(2, 3)}),
    one("divide", "Div", (1, 6), {"b": draw(6)}),
    Case("square", (1, 6), [("Mul", ["x", "x"], ["y"], {})]),
    one("power", "Pow", (1, 2, 3), {"two": np.float32(2)}),
    Case("sum-of-three", (1, 2, 3), [("Relu", ["x"], ["r"], {}), ("Sum", ["x", "b", "r"], ["y"], {})], {"b": draw(3)}),
    Case("relu", (1, 6), [("Relu", ["x"], ["y"], {})]),
    Case("softmax", (1, 6), [("Softmax", ["x"], ["y"], {"axis": 1})]),
    Case(
        "softmax-inside", (1, 6), [("Softmax", ["x"], ["p"], {}), ("MatMul", ["p", "w"], ["y"], {})], {"w": draw(6, 3)}
    ),
    Case("softmax-of-columns", (1, 3, 4), [("Softmax", ["x"], ["y"], {"axis": 1})]),
    Case("softmax-of-all", (1, 3, 4), [("Softmax", ["x"], ["y"], {"axis": 1})], opset=11),
    Case(
        "softmax-turned",
        (1, 3, 4),
        [("Transpose", ["x"], ["t"], {"perm": [0, 2, 1]}), ("Softmax", ["t"], ["y"], {"axis": 1})],
    ),
    Case(
        "softmax-large",
        (1, 6),
        [("Mul", ["x", "f"], ["l"], {}), ("Softmax", ["l"], ["y"], {})],
        {"f": np.float32(2000)},
    ),
    Case("sigmoid", (1, 6), [("Sigmoid", ["x"], ["y"], {})]),
    Case("tanh", (1, 6), [("Tanh", ["x"], ["y"], {})]),
    Case("abs", (1, 6), [("Abs", ["x"], ["y"], {})]),
    Case("hardswish", (1, 6), [("HardSwish", ["x"], ["y"], {})]),
    Case("hardsigmoid", (1, 6), [("HardSigmoid", ["x"], ["y"], {"alpha": 0.4, "beta": 0.3})]),
    Case("hardsigmoid-plain", (1, 6), [("HardSigmoid", ["x"], ["y"], {})]),
    Case("elu", (1, 6), [("Elu", ["x"], ["y"], {"alpha": 1.5})]),
    Case("elu-turned", (1, 3, 4), [("Transpose", ["x"], ["t"], {"perm": [0, 2, 1]}), ("Elu", ["t"], ["y"], {})]),
    Case("selu", (1, 6), [("Selu", ["x"], ["y"], {})]),
    Case("selu-named", (1, 6), [("Selu", ["x"], ["y"], {"alpha": 2.0, "gamma": 0.5})]),
    Case("celu", (1, 6), [("Celu", ["x"], ["y"], {"alpha": 0.5})]),
    Case("leaky", (1, 6), [("LeakyRelu", ["x"], ["y"], {"alpha": 0.2})]),
    Case("leaky-turned", (1, 6), [("LeakyRelu", ["x"], ["y"], {"alpha": -0.5})]),
    image("prelu", "PRelu", {"slope": draw(3, 1, 1)}),
    one("not-below", "Max", (1, 6), {"low": np.float32(0.25)}),
    Case("not-above", (1, 6), [("Min", ["high", "x"], ["y"], {})], {"high": np.float32([0.5])}),
    one("larger", "Max", (1, 2, 3), {"b": draw(2, 1)}),
    Case(
        "smaller",
        (1, 2, 3),
        [
            ("Tanh", ["x"], ["t"], {}),
            ("Min", ["t", "b"], ["m"], {}),
            ("Min", ["b", "x"], ["n"], {}),
            ("Max", ["m", "n"], ["y"], {}),
        ],
        {"b": draw(3)},
    ),
    one("relu6", "Clip", (1, 6), {"low": np.float32(0), "high": np.float32(6)}),
    one("clip", "Clip", (1, 6), {"low": np.float32(-0.5), "high": np.float32(1.25)}),
    one("clip-above", "Clip", (1, 6), {"low": np.float32(0), "high": np.float32(1)}),
)

VIEWS = (
    Case("flatten", IMAGE, [("Flatten", ["x"], ["f"], {}), ("MatMul", ["f", "w"], ["y"], {})], {"w": draw(90, 3)}),
    Case("transpose", (1, 3, 4), [("Transpose", ["x"], ["t"], {"perm": [0, 2, 1]}), ("Relu", ["t"], ["y"], {})]),
    one("gather", "Gather", (1, 5, 3), {"i": np.array(-2)}, axis=1),
    one("gather-several", "Gather", (1, 5, 3), {"i": numbers(3, 1)}, axis=1),
    one("gather-places", "Gather", (1, 7, 3), {"i": numbers(5, 0, 1, 2, -1, 0)}, axis=1),
    one("gather-twice", "Gather", (1, 4), {"i": numbers(1, 1)}, axis=1),
    Case("slice", (1, 8, 3), [("Slice", ["x", "s", "e", "a", "t"], ["y"], {})],
         {"s": numbers(-1), "e": numbers(-9), "a": numbers(1), "t": numbers(-3)}),
    Case("slice-to-the-first", (1, 8, 3), [("Slice", ["x", "s", "e", "a", "t"], ["y"], {})],
         {"s": numbers(-3), "e": numbers(-(2**31)), "a": numbers(1), "t": numbers(-2)}),
    Case("slice-to-the-last", (1, 8, 3), [("Slice", ["x", "s", "e", "a", "t"], ["y"], {})],
         {"s": numbers(3), "e": numbers(2**63 - 1), "a": numbers(1), "t": numbers(2)}),
    Case("split", (1, 7), [("Split", ["x", "n"], ["a", "b"], {"axis": 1}), ("Mul", ["b", "k"], ["y"], {})],
         {"n": numbers(3, 4), "k": draw(4)}),
    Case("concat", (1, 3, 4), [("Relu", ["x"], ["r"], {}), ("Concat", ["r", "x", "c"], ["y"], {"axis": 2})],
         {"c": draw(1, 3, 2)}),
    Case("pad", IMAGE, [("Pad", ["x", "p", "v"], ["y"], {})],
         {"p": numbers(0, 0, 1, 0, 0, 0, 2, 1), "v": np.float32(0.5)}),
    Case("pad-axes", IMAGE, [("Pad", ["x", "p", "", "a"], ["y"], {})],
         {"p": numbers(1, 0, 2, 1), "a": numbers(-1, 1)}, opset=18),
    Case("squeeze", (1, 1, 6), [("Squeeze", ["x", "a"], ["s"], {}), ("Unsqueeze", ["s", "b"], ["y"], {})],
         {"a": numbers(1), "b": numbers(0, 3)}),
    Case("shape", (1, 2, 6), [("Shape", ["x"], ["n"], {}), ("Reshape", ["w", "n"], ["v"], {}), ("Add", ["x", "v"], ["y"], {})],
         {"w": draw(12)}),
)  # fmt: skip

NETWORKS = (
    Case(
        "residual",
        IMAGE,
        [
            ("Conv", ["x", "w"], ["c"], {"pads": [1, 1, 1, 1]}),
            ("Relu", ["c"], ["r"], {}),
            ("Conv", ["r", "v"], ["d"], {"pads": [1, 1, 1, 1]}),
            ("Add", ["d", "x"], ["s"], {}),
            ("MaxPool", ["s"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ("Flatten", ["p"], ["f"], {}),
            ("Gemm", ["f", "g", "b"], ["y"], {}),
        ],
        {"w": draw(4, 3, 3, 3), "v": draw(3, 4, 3, 3), "g": draw(18, 5), "b": draw(5)},
    ),
    Case(
        "flattened-twice",
        IMAGE,
        [
            ("Conv", ["x", "w"], ["c"], {}),
            ("Reshape", ["c", "n"], ["f"], {}),
            ("Relu", ["f"], ["r"], {}),
            ("Add", ["r", "b"], ["s"], {}),
            ("Reshape", ["s", "m"], ["y"], {}),
        ],
        {"w": draw(4, 3, 3, 3), "n": numbers(1, -1), "b": draw(48), "m": numbers(0, 4, 12)},
    ),
)

STATISTICS = {"s": draw(4), "o": draw(4), "m": draw(4), "v": np.abs(draw(4)) + np.float32(0.1)}


def folded(
    name: str, shape: tuple[int, ...], *nodes: tuple[str, list[str], dict[str, Any]], **constants: np.ndarray
) -> Case:
    """A chain of nodes: each reads what the one before it wrote, and constants; nothing of it but products may be left."""
    names = ["x", *(f"v{number}" for number in range(len(nodes) - 1)), "y"]
    chain = [
        (kind, [names[number], *reads] if "." not in reads else [names[number] if r == "." else r for r in reads],
         [names[number + 1]], attributes)
        for number, (kind, reads, attributes) in enumerate(nodes)
    ]  # fmt: skip
    return Case(name, shape, chain, constants)


FOLDS = (
    folded("conv-norm", IMAGE, ("Conv", ["w"], {"pads": [1, 1, 1, 1]}), ("BatchNormalization", list(STATISTICS), {}),
           w=draw(4, 3, 3, 3), **STATISTICS),
    folded("depthwise-norm", (1, 4, 5, 5), ("Conv", ["w", "b"], {"group": 4}), ("BatchNormalization", list(STATISTICS), {}),
           w=draw(4, 1, 3, 3), b=draw(4), **STATISTICS),
    folded("gemm-norm", (1, 6), ("Gemm", ["w", "b"], {"transB": 1, "alpha": 2.0}), ("BatchNormalization", list(STATISTICS), {}),
           w=draw(4, 6), b=draw(4), **STATISTICS),
    folded("norm-gemm", (1, 4), ("BatchNormalization", list(STATISTICS), {}), ("Gemm", ["w"], {}), w=draw(4, 5), **STATISTICS),
    folded("norm-conv", (1, 4, 5, 5), ("BatchNormalization", list(STATISTICS), {}), ("Conv", ["w"], {"group": 2}),
           w=draw(6, 2, 3, 3), **STATISTICS),
    folded("scaler", (1, 6), ("Sub", ["mean"], {}), ("Div", ["deviation"], {}), ("MatMul", ["w"], {}), ("Add", ["b"], {}),
           ("Mul", ["two"], {}), w=draw(6, 3), b=draw(3), mean=draw(6), deviation=draw(6) + np.float32(2), two=np.float32(2)),
    folded("pixels", (1, 75), ("Div", ["most"], {}), ("Reshape", ["n"], {}), ("Sub", ["one", "."], {}), ("Conv", ["w", "b"], {}),
           most=np.float32(255), n=numbers(1, 3, 5, 5), one=np.float32(1), w=draw(2, 3, 3, 3), b=draw(2)),
)  # fmt: skip

UNFOLDED = (
    folded("norm-padded-conv", (1, 4, 5, 5), ("BatchNormalization", list(STATISTICS), {}), ("Conv", ["w"], {"pads": [1, 1, 1, 1]}),
           w=draw(2, 4, 3, 3), **STATISTICS),
    folded("norm-alone", (1, 4, 3, 2), ("BatchNormalization", list(STATISTICS), {}), ("Relu", [], {}), **STATISTICS),
    folded("product-of-rows", (2, 6), ("MatMul", ["w"], {}), ("Add", ["rows"], {}), w=draw(6, 2), rows=draw(2, 1)),
    folded("gemm-bias-of-rows", (4, 6), ("Gemm", ["w", "rows"], {}), ("Mul", ["k"], {}), w=draw(6, 4), rows=draw(4, 1), k=draw(4)),
    folded("norm-behind-sequence", (1, 4, 6), ("MatMul", ["w"], {}), ("BatchNormalization", list(STATISTICS), {}),
           w=draw(6, 4), **STATISTICS),
    folded("norm-before-sequence", (1, 4, 4), ("BatchNormalization", list(STATISTICS), {}), ("MatMul", ["w"], {}),
           w=draw(4, 6), **STATISTICS),
    Case("part-of-a-constants-shape", (1, 6),
         [("Shape", ["w"], ["n"], {"start": 1, "end": -1}), ("Slice", ["x", "zero", "n", "one"], ["y"], {})],
         {"w": draw(2, 4, 5), "zero": numbers(0), "one": numbers(1)}),
    Case("pad-by-attributes", (1, 6), [("Pad", ["x"], ["y"], {"pads": [0, 1, 0, 2], "value": 0.5})], opset=10),
    folded("negated", (1, 6), ("Neg", [], {}), ("Cast", [], {"to": 1}), ("Relu", [], {})),
    Case("read-twice", (1, 6), [("MatMul", ["x", "w"], ["m"], {}), ("Mul", ["m", "k"], ["n"], {}), ("Add", ["m", "n"], ["y"], {})],
         {"w": draw(6, 4), "k": draw(4)}),
)  # fmt: skip

SEQUENCE = (5, 1, 3)


def cell(
    name: str,
    operator: str,
    gates: int,
    outputs: list[str],
    inputs: dict[str, np.ndarray] | None = None,
    **attributes: Any,
) -> Case:
    """A recurrent operator with 4 units; `inputs` follow its biases, and one without an array is left out."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    shape = (1, 5, 3) if attributes.get("layout") else SEQUENCE
    constants = {
        "W": draw(directions, 4 * gates, 3),
        "R": draw(directions, 4 * gates, 4),
        "B": draw(directions, 8 * gates),
    }
    reads = ["x", *constants, *(inputs or {})]
    node = (operator, reads, outputs, {"hidden_size": 4, **attributes})
    return Case(name, shape, [node], {**constants, **{k: v for k, v in (inputs or {}).items() if k}})


def last_step(name: str, operator: str, gates: int, opset: int = 17) -> Case:
    """The state after the last step as PyTorch picks it out of all steps."""
    whole = cell(name, operator, gates, ["s"])
    tail = [("Squeeze", ["s", "one"], ["q"], {}), ("Transpose", ["q"], ["t"], {"perm": [1, 0, 2]}),
            ("Gather", ["t", "last"], ["y"], {"axis": 1})]  # fmt: skip
    constants = {**whole.constants, "one": numbers(1), "last": np.array(-1)}
    return Case(name, whole.shape, [*whole.nodes, *tail], constants, opset)


RECURRENT = (
    cell("gru", "GRU", 3, ["", "y"]),
    cell("gru-linear", "GRU", 3, ["", "y"], linear_before_reset=1),
    cell("gru-steps", "GRU", 3, ["y"], linear_before_reset=1),
    cell("gru-reverse", "GRU", 3, ["y"], direction="reverse"),
    cell("gru-both", "GRU", 3, ["y"], direction="bidirectional"),
    cell("gru-both-ends", "GRU", 3, ["", "y"], direction="bidirectional", linear_before_reset=1),
    cell("gru-started", "GRU", 3, ["", "y"], {"": numbers(), "h": draw(1, 1, 4)}),
    cell("lstm", "LSTM", 4, ["", "y"]),
    cell("lstm-cell", "LSTM", 4, ["", "", "y"], {"": numbers(), "h": draw(1, 1, 4), "c": draw(1, 1, 4) / 2}),
    cell("lstm-both", "LSTM", 4, ["y"], direction="bidirectional"),
    cell("rnn", "RNN", 1, ["", "y"]),
    cell("rnn-relu", "RNN", 1, ["y"], activations=["Relu"]),
    last_step("gru-last", "GRU", 3),
    last_step("lstm-last", "LSTM", 4),
)

CASES = (*PRODUCTS, *WINDOWS, *ELEMENTS, *VIEWS, *NETWORKS, *FOLDS, *UNFOLDED, *RECURRENT)
