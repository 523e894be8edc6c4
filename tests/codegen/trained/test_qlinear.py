"""Operators of ONNX Runtime's domain on integers, taken as what they stand for on real numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from kilotune.codegen.trained.quantised_importing import import_quantised_bundle
from tests.codegen.trained.onnx_files import Case, reference

Node = tuple[str, list[str], list[str], dict[str, object]]
GRIDS = {"s": np.float32(0.05), "z": np.int8(-3), "t": np.float32(0.05), "u": np.int8(4), "p": np.float32(1 / 256)}
FEATURES = np.random.default_rng(3).normal(0, 1.5, (12, 15)).astype(np.float32).astype(np.float64)


def _difference(node: Node, shape: tuple[int, ...], result: tuple[str, str], folder: Path, **others: Array) -> float:
    """How far the float program's results are from ONNX Runtime's; the node stands between integers `i` and `q`."""
    weights = np.random.default_rng(1).integers(-100, 100, (6, 4)).astype(np.int8)
    constants = {**GRIDS, "least": np.int8(-128), "w": weights, "ws": np.float32(0.02), "wz": np.int8(0),
                 "b": np.arange(-3000, 3000, 1500).astype(np.int32), **others}  # fmt: skip
    nodes: list[Node] = [
        ("QuantizeLinear", ["x", "s", "z"], ["i"], {}),
        node,
        ("DequantizeLinear", ["q", *result], ["y"], {}),
    ]
    path = Case("one", shape, nodes, constants).write(folder)
    features = FEATURES[:, : int(np.prod(shape))]
    np.savez(folder / "d.npz", X=features)
    bundle = import_bundle(path, folder / "d.npz", returns=Returns.VALUE)
    given = features if bundle.scaling is None else bundle.scaling.apply(features)
    found = run_float(bundle.program, bundle.parameters, given).outputs
    return float(np.abs(found - reference(path, features).reshape(len(features), -1)).max())


@pytest.mark.parametrize("opset", [11, 13])
def test_a_softmax_is_of_the_axes_that_its_opset_says(opset: int, tmp_path: Path) -> None:
    """Its own attribute: of axis 1 and all behind it before 13. Taken as the other, results differ by 0.9 (found by a reader)."""
    node = ("com.microsoft.QLinearSoftmax", ["i", "s", "z", "p", "least"], ["q"], {"axis": 1, "opset": opset})
    assert _difference(node, (1, 5, 3), ("p", "least"), tmp_path) < 0.02


@pytest.mark.parametrize("alpha", [1.0, 0.5, 2.0])
def test_the_factor_of_a_gemm_is_one_of_its_bias_too(alpha: float, tmp_path: Path) -> None:
    """ONNX Runtime adds the bias to the sums of integers before it multiplies them (found by a reader: off by 3 of 13)."""
    reads = ["i", "s", "z", "w", "ws", "wz", "b", "t", "u"]
    node = ("com.microsoft.QGemm", reads, ["q"], {"alpha": alpha, "transB": 0})
    assert _difference(node, (1, 6), ("t", "u"), tmp_path) < 0.3


def test_a_bias_may_be_a_row(tmp_path: Path) -> None:
    """As a quantiser writes it where that of the Gemm was one (found by a reader: a square of results)."""
    node = ("com.microsoft.QGemm", ["i", "s", "z", "w", "ws", "wz", "b", "t", "u"], ["q"], {"transB": 0})
    scales = {"ws": np.array([0.01, 0.02, 0.02, 0.01], np.float32), "wz": np.zeros(4, np.int8)}
    bias = np.arange(-3000, 3000, 1500).astype(np.int32).reshape(1, 4)
    assert _difference(node, (1, 6), ("t", "u"), tmp_path, b=bias, **scales) < 0.3


def test_scales_of_weights_are_along_their_last_axis(tmp_path: Path) -> None:
    """Also where these have three, and both sides are as long (found by a reader)."""
    random = np.random.default_rng(4)
    node = ("QLinearMatMul", ["i", "s", "z", "w", "ws", "wz", "t", "u"], ["q"], {})
    weights = {"w": random.integers(-100, 100, (1, 3, 3)).astype(np.int8), "wz": np.zeros((1, 1, 3), np.int8),
               "ws": np.array([0.001, 0.01, 0.03], np.float32).reshape(1, 1, 3)}  # fmt: skip
    assert _difference(node, (1, 5, 3), ("t", "u"), tmp_path, **weights) < 0.15


@pytest.mark.parametrize(("groups", "refused"), [(2, False), (1, True), (4, True)])
def test_groups_of_kept_convolutions_are_those_that_the_file_says(groups: int, refused: bool, tmp_path: Path) -> None:
    """And not those that fit the shapes, which ONNX Runtime does not run (found by a reader)."""
    weights = np.random.default_rng(1).integers(-100, 100, (4, 2, 1, 1)).astype(np.int8)
    constants = {**GRIDS, "w": weights, "ws": np.float32(0.02), "wz": np.int8(0)}
    nodes: list[Node] = [
        ("QuantizeLinear", ["x", "s", "z"], ["i"], {}),
        ("QLinearConv", ["i", "s", "z", "w", "ws", "wz", "t", "u"], ["q"], {"group": groups}),
        ("DequantizeLinear", ["q", "t", "u"], ["y"], {}),
    ]
    path = Case("groups", (1, 4, 3, 1), nodes, constants).write(tmp_path)
    np.savez(tmp_path / "d.npz", X=FEATURES[:, :12])
    if not refused:
        import_quantised_bundle(path, tmp_path / "d.npz")
        return
    with pytest.raises(InputError, match=f"expected filters for 4 channels in {groups} groups, found those of 2"):
        import_quantised_bundle(path, tmp_path / "d.npz")
