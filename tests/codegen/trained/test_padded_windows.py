"""Borders of zeros before convolutions are padding, and stay where something else reads them, or a window could lie in them alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case, converted, float_results, reference

BORDERS = st.lists(st.integers(0, 4), min_size=4, max_size=4)
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=60)
@given(BORDERS, PAIRS, PAIRS, PAIRS, BORDERS, st.sampled_from([(1, 2, 5, 4), (1, 2, 1, 7), (1, 1, 6, 6)]))
def test_a_border_is_padding(
    border: list[int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: list[int],
    shape: tuple[int, ...],
) -> None:
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    pads = [min(pad, reach[k % 2]) for k, pad in enumerate(pads)]
    for axis in range(2):
        assume(shape[2 + axis] + border[axis] + border[2 + axis] > reach[axis])
    nodes = [
        ("Pad", ["x", "widths"], ["p"], {}),
        ("Conv", ["p", "w"], ["y"], {"strides": strides, "dilations": dilations, "pads": pads}),
    ]
    widths = np.array([0, 0, *border[:2], 0, 0, *border[2:]])
    case = Case("border", shape, nodes, {"widths": widths, "w": draw(3, shape[1], *kernel)})
    with tempfile.TemporaryDirectory() as folder:
        path = case.write(Path(folder))
        made = converted(path)
        np.testing.assert_allclose(
            float_results(made, case.features), reference(path, case.features), rtol=1e-5, atol=1e-5
        )
    alone = any(border[k] and border[k] + pads[k] > reach[k % 2] for k in range(4))
    assert any(isinstance(operation, ir.Fill) for operation in ir.operations(made.program.body)) == alone


@pytest.mark.parametrize(
    "more",
    [
        ("MaxPool", ["p"], ["z"], {"kernel_shape": [3, 3]}),  # zeros may win there
        ("Relu", ["p"], ["z"], {}),
    ],
)
def test_a_border_that_others_read_stays(
    more: tuple[str, list[str], list[str], dict[str, object]], tmp_path: Path
) -> None:
    nodes = [
        ("Pad", ["x", "widths"], ["p"], {}),
        ("Conv", ["p", "w"], ["c"], {}),
        more,
        ("ReduceMean", ["c"], ["m"], {"axes": [1, 2, 3]}),
        ("Mul", ["z", "m"], ["y"], {}),
    ]
    widths = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    case = Case("read", (1, 2, 5, 4), nodes, {"widths": widths, "w": draw(3, 2, 3, 3)})
    path = case.write(tmp_path)
    made = converted(path)
    np.testing.assert_allclose(float_results(made, case.features), reference(path, case.features), rtol=1e-5, atol=1e-5)
    assert any(isinstance(operation, ir.Fill) for operation in ir.operations(made.program.body))


def test_a_border_of_another_number_stays(tmp_path: Path) -> None:
    nodes = [("Pad", ["x", "widths", "level"], ["p"], {}), ("Conv", ["p", "w"], ["y"], {})]
    constants = {"widths": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "level": np.float32(0.5), "w": draw(3, 2, 3, 3)}
    case = Case("level", (1, 2, 5, 4), nodes, constants)
    path = case.write(tmp_path)
    np.testing.assert_allclose(
        float_results(converted(path), case.features), reference(path, case.features), rtol=1e-5, atol=1e-5
    )
