"""Small ONNX files of what only imported models have: recurrent and quantised layers, linear models, support vectors, trees."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

MACHINE_LEARNING = "ai.onnx.ml"
FEATURES = 4

NodeParts = tuple[str, list[str], list[str], str, dict[str, Any]]
"""Operator, inputs, outputs, domain and attributes."""


@cache
def trained_networks() -> dict[str, tuple[bytes, int]]:
    """Files with seeded weights, and how many features a sample has."""
    return {
        "recurrent": (_recurrent(), 15),
        "quantised": (_quantised(), FEATURES),
        "linear": (_linear(), FEATURES),
        "support_vectors": (_support_vectors(), FEATURES),
    }


@cache
def kept_networks() -> dict[str, tuple[bytes, int]]:
    """Quantised files whose integers are kept, with seeded weights, and how many features a sample has."""
    return {"closed": (_closed(), 2 * 6 * 6), "integer_operators": (_integer_operators(), FEATURES)}


@cache
def small_trees() -> bytes:
    """Two trees of three classes behind a scaler."""
    nodes = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1, 1, 1], "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 0, 2, 1, 0, 0, 0], "nodes_values": [0.25, 0.0, 0.0, -0.5, 1.5, 0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0, 1, 2, 0, 0, 0], "nodes_falsenodeids": [2, 0, 0, 4, 3, 0, 0, 0],
        "class_treeids": [0, 0, 1, 1, 1], "class_nodeids": [1, 2, 2, 3, 4], "class_ids": [0, 1, 2, 1, 0],
        "class_weights": [0.5, 0.5, 0.25, 0.5, 0.75], "classlabels_int64s": [0, 1, 2], "post_transform": "NONE",
    }  # fmt: skip
    return _file(
        [_scaler("x", "s"), ("TreeEnsembleClassifier", ["s"], ["label", "y"], MACHINE_LEARNING, nodes)],
        {},
        [1, FEATURES],
    )


def _drawn(*shape: int) -> Any:
    return np.random.default_rng(len(shape) + sum(shape)).normal(0, 0.5, shape).astype(np.float32)


def _file(nodes: list[NodeParts], weights: dict[str, Any], shape: list[int]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    made = [
        helper.make_node(kind, reads, writes, domain=domain, **given) for kind, reads, writes, domain, given in nodes
    ]
    results = [name for name in nodes[-1][2] if name]
    graph = helper.make_graph(
        made,
        "fuzzed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [
        helper.make_opsetid(name, version) for name, version in (("", 17), (MACHINE_LEARNING, 3), ("com.microsoft", 1))
    ]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def _scaler(reads: str, writes: str) -> NodeParts:
    given = {"offset": [0.5, 0.0, -1.0, 2.0], "scale": [1.0, 2.0, 0.5, 0.25]}
    return "Scaler", [reads], [writes], MACHINE_LEARNING, given


def _recurrent() -> bytes:
    nodes: list[NodeParts] = [
        ("Transpose", ["x"], ["t"], "", {"perm": [1, 0, 2]}),
        ("GRU", ["t", "W", "R", "B"], ["", "h"], "", {"hidden_size": 4, "linear_before_reset": 1}),
        ("Squeeze", ["h", "first"], ["q"], "", {}),
        ("Gemm", ["q", "v"], ["y"], "", {"transB": 1}),
    ]
    weights = {"W": _drawn(1, 12, 3), "R": _drawn(1, 12, 4), "B": _drawn(1, 24), "v": _drawn(3, 4)}
    return _file(nodes, {**weights, "first": np.array([0])}, [1, 5, 3])


def _quantised() -> bytes:
    nodes: list[NodeParts] = [
        ("QuantizeLinear", ["x", "sx", "zx"], ["qx"], "", {}),
        ("DequantizeLinear", ["qx", "sx", "zx"], ["dx"], "", {}),
        ("DequantizeLinear", ["qw", "sw", "zw"], ["dw"], "", {"axis": 1}),
        ("MatMul", ["dx", "dw"], ["m"], "", {}),
        ("Relu", ["m"], ["r"], "", {}),
        ("Gemm", ["r", "v", "b"], ["y"], "", {"transB": 1}),
    ]
    weights = {
        "sx": np.float32(0.05) * np.ones((), np.float32), "zx": np.zeros((), np.int8), "qw": (80 * _drawn(4, 5)).astype(np.int8),
        "sw": np.abs(_drawn(5)), "zw": np.zeros(5, np.int8), "v": _drawn(3, 5), "b": _drawn(3),
    }  # fmt: skip
    return _file(nodes, weights, [1, FEATURES])


def _closed() -> bytes:
    """A convolution, a sum with itself, an average and a product, each rounded."""

    def rounded(name: str, grid: str) -> list[NodeParts]:
        steps = [f"s{grid}", f"z{grid}"]
        return [
            ("QuantizeLinear", [name, *steps], [f"{name}q"], "", {}),
            ("DequantizeLinear", [f"{name}q", *steps], [f"{name}r"], "", {}),
        ]

    nodes: list[NodeParts] = [
        *rounded("x", "0"),
        ("DequantizeLinear", ["w", "sw", "zw"], ["wr"], "", {"axis": 0}),
        ("Conv", ["xr", "wr"], ["c"], "", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("Relu", ["c"], ["a"], "", {}),
        *rounded("a", "1"),
        ("Add", ["ar", "ar"], ["d"], "", {}),
        *rounded("d", "0"),
        ("GlobalAveragePool", ["dr"], ["g"], "", {}),
        *rounded("g", "1"),
        ("Flatten", ["gr"], ["f"], "", {}),
        ("DequantizeLinear", ["v", "sv", "zv"], ["vr"], "", {}),
        ("DequantizeLinear", ["b", "sb", "zb"], ["br"], "", {"axis": 0}),
        ("Gemm", ["f", "vr", "br"], ["y"], "", {"transB": 1}),
        *rounded("y", "0"),
    ]
    weights = {
        "s0": np.float32(0.05) * np.ones((), np.float32), "z0": np.array(7, np.int8), "s1": np.float32(0.031) * np.ones((), np.float32),
        "z1": np.array(-128, np.int8), "w": (80 * _drawn(3, 2, 3, 3)).astype(np.int8), "sw": np.abs(_drawn(3)) / 90,
        "zw": np.zeros(3, np.int8), "v": (80 * _drawn(4, 3)).astype(np.int8), "sv": np.float32(0.01) * np.ones((), np.float32),
        "zv": np.zeros((), np.int8), "b": (900 * _drawn(4)).astype(np.int32), "sb": np.float32(0.00031) * np.ones((), np.float32),
        "zb": np.zeros((), np.int32),
    }  # fmt: skip
    return _file(nodes, weights, [1, 2, 6, 6])


def _integer_operators() -> bytes:
    nodes: list[NodeParts] = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], "", {}),
        ("QLinearMatMul", ["q", "s", "z", "w", "v", "n", "s", "z"], ["m"], "", {}),
        ("QLinearAdd", ["m", "s", "z", "k", "v", "n", "s", "z"], ["a"], "com.microsoft", {}),
        ("DequantizeLinear", ["a", "s", "z"], ["y"], "", {}),
    ]
    weights = {
        "s": np.float32(0.05) * np.ones((), np.float32), "z": np.array(7, np.int8), "w": (80 * _drawn(4, 3)).astype(np.int8),
        "v": np.float32(0.02) * np.ones((), np.float32), "n": np.zeros((), np.int8), "k": (80 * _drawn(3)).astype(np.int8),
    }  # fmt: skip
    return _file(nodes, weights, [1, FEATURES])


def _linear() -> bytes:
    given = {
        "coefficients": [float(w) for w in _drawn(3, FEATURES).reshape(-1)], "intercepts": [0.5, -0.25, 0.0],
        "classlabels_ints": [0, 1, 2], "multi_class": 1, "post_transform": "SOFTMAX",
    }  # fmt: skip
    return _file(
        [
            _scaler("x", "s"),
            ("LinearClassifier", ["s"], ["label", "p"], MACHINE_LEARNING, given),
            ("Normalizer", ["p"], ["y"], MACHINE_LEARNING, {"norm": "L1"}),
        ],
        {},
        [1, FEATURES],
    )


def _support_vectors() -> bytes:
    given = {
        "support_vectors": [float(v) for v in _drawn(5, FEATURES).reshape(-1)], "vectors_per_class": [2, 1, 2],
        "coefficients": [0.5, 0.25, -0.75, 0.5, -0.5, 1.0, -0.25, 0.5, -0.75, 0.25], "rho": [0.1, -0.2, 0.3],
        "kernel_type": "RBF", "kernel_params": [0.3, 0.0, 3.0], "classlabels_ints": [0, 1, 2], "post_transform": "NONE",
    }  # fmt: skip
    return _file([("SVMClassifier", ["x"], ["label", "y"], MACHINE_LEARNING, given)], {}, [1, FEATURES])
