"""Zero points that a file leaves out are none of their integers' type (found by a reader: 128 steps off)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from kilotune.codegen.trained.quantised_importing import import_quantised_bundle
from tests.codegen.trained.onnx_files import Case
from tests.codegen.trained.test_onnx_quantised import compared, executed

Node = tuple[str, list[str], list[str], dict[str, object]]
INT8 = {"output_dtype": 3}
RANDOM = np.random.default_rng(2)
FEATURES = RANDOM.normal(0, 1.5, (12, 6))
CONSTANTS = {"s": np.float32(0.05), "t": np.float32(0.1), "none": np.int8(0), "v": np.float32(0.02),
             "w": RANDOM.integers(-100, 100, (6, 4)).astype(np.int8)}  # fmt: skip


def _network(first: Node, second: Node, third: Node, last: Node) -> Case:
    """Integers `i`, real numbers `r`, a product, integers `j`, `y`."""
    weights = [("DequantizeLinear", ["w", "v", "none"], ["m"], {}), ("MatMul", ["r", "m"], ["a"], {})]
    return Case("net", (1, 6), [first, second, *weights, third, last], CONSTANTS, opset=21)


@pytest.mark.parametrize("left_out", range(5))
def test_zero_points_that_are_left_out(left_out: int, tmp_path: Path) -> None:
    grids = [["s", "none"], ["s", "none"], ["t", "none"], ["t", "none"]]
    attributes: list[dict[str, object]] = [{}, {}, {}, {}]
    for place in range(4) if left_out == 4 else [left_out]:
        grids[place] = grids[place][:1]
        attributes[place] = INT8 if place in (0, 2) else {}
    case = _network(
        ("QuantizeLinear", ["x", *grids[0]], ["i"], attributes[0]),
        ("DequantizeLinear", ["i", *grids[1]], ["r"], attributes[1]),
        ("QuantizeLinear", ["a", *grids[2]], ["j"], attributes[2]),
        ("DequantizeLinear", ["j", *grids[3]], ["y"], attributes[3]),
    )
    path = case.write(tmp_path)
    found, expected = compared(path, FEATURES)
    np.testing.assert_array_equal(found, expected)
    np.savez(tmp_path / "d.npz", X=FEATURES)
    targets = import_bundle(path, tmp_path / "d.npz", returns=Returns.VALUE).train
    assert targets is not None
    assert np.abs(targets.targets - executed(path, FEATURES)[:, 0]).max() < 0.3


def test_integers_that_are_cast_to_real_numbers_are_no_real_numbers(tmp_path: Path) -> None:
    """A Cast takes no zero point off (found by a reader: 125 steps off)."""
    case = _network(
        ("QuantizeLinear", ["x", "s", "none"], ["i"], {}),
        ("Cast", ["i"], ["r"], {"to": 1}),
        ("QuantizeLinear", ["a", "t", "none"], ["j"], {}),
        ("DequantizeLinear", ["j", "t", "none"], ["y"], {}),
    )
    np.savez(tmp_path / "d.npz", X=FEATURES)
    with pytest.raises(InputError, match="expected a DequantizeLinear before Cast, found integers"):
        import_quantised_bundle(case.write(tmp_path), tmp_path / "d.npz")
