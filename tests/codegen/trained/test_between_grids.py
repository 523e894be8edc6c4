"""Integers between a QuantizeLinear and its DequantizeLinear: what becomes of operators on them in a float model, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.bundle import Bundle
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.importing import import_bundle
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case

FEATURES = np.random.default_rng(7).normal(0, 1, (30, 6))


def imported(model: Case, folder: Path) -> Bundle:
    path = model.write(folder)
    np.savez(folder / "d.npz", X=FEATURES)
    return import_bundle(path, folder / "d.npz")


@pytest.mark.parametrize(
    ("scale", "zero", "moved"), [(0.04, 0, False), (0.02, 9, False), (0.04, 0, True), (0.02, 0, True)]
)
def test_integers_that_are_read_on_another_grid_are_no_rounding(
    scale: float, zero: int, moved: bool, tmp_path: Path
) -> None:
    nodes: list[Any] = [("Gemm", ["x", "w"], ["s"], {}), ("QuantizeLinear", ["s", "step", "none"], ["q"], {})]
    nodes += [("Reshape", ["q", "shape"], ["r"], {})] * moved
    nodes.append(("DequantizeLinear", ["r" if moved else "q", "scale", "zero"], ["y"], {}))
    constants = {"w": draw(6, 3), "step": np.float32(0.02), "none": np.int8(0), "shape": np.array([1, 3]),
                 "scale": np.float32(scale), "zero": np.int8(zero)}  # fmt: skip
    model = Case("net", (1, 6), nodes, constants)
    if (scale, zero) == (0.02, 0):
        imported(model, tmp_path)
        return
    message = (
        r"DequantizeLinear that writes 'y'\): expected the scale and the zero point of .*writes 'q'\), "
        "whose integers it reads, found others"
    )
    with pytest.raises(InputError, match=message):
        imported(model, tmp_path)


def test_a_border_of_integers_is_the_real_number_that_they_stand_for(tmp_path: Path) -> None:
    """Quantisers pad by the zero point, which is no number of the network (found by a reader: every class was another)."""
    nodes: list[Any] = [
        ("QuantizeLinear", ["x", "step", "zero"], ["q"], {}),
        ("Pad", ["q", "pads", "level"], ["p"], {}),
        ("DequantizeLinear", ["p", "step", "zero"], ["d"], {}),
        ("Gemm", ["d", "w"], ["y"], {}),
    ]
    constants = {
        "w": draw(8, 3),
        "step": np.float32(0.05),
        "zero": np.int8(-20),
        "pads": np.array([0, 1, 0, 1]),
        "level": np.int8(20),
    }
    bundle = imported(Case("net", (1, 6), nodes, constants), tmp_path)
    border = np.full((len(FEATURES), 1), 40 * 0.05)
    expected = np.concatenate([border, FEATURES, border], axis=1) @ draw(8, 3)
    np.testing.assert_allclose(run_float(bundle.program, bundle.parameters, FEATURES).outputs, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (("Relu", ["q"], ["r"], {}), "Relu that writes 'r'.: expected real numbers .*, found the integers of"),
        (
            ("Concat", ["q", "other"], ["r"], {"axis": 1}),
            "Concat that writes 'r'.: expected integers of one scale and zero point, found",
        ),
    ],
)
def test_arithmetic_on_integers_is_refused(node: Any, said: str, tmp_path: Path) -> None:
    nodes: list[Any] = [("QuantizeLinear", ["x", "step", "zero"], ["q"], {}), ("QuantizeLinear", ["x", "wide", "zero"], ["other"], {}),
                        node, ("DequantizeLinear", ["r", "step", "zero"], ["y"], {})]  # fmt: skip
    constants = {"step": np.float32(0.05), "wide": np.float32(0.1), "zero": np.int8(3)}
    with pytest.raises(InputError, match=said):
        imported(Case("net", (1, 6), nodes, constants), tmp_path)
