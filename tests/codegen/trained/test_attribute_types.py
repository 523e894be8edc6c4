"""Attributes of another type than their operator's, and strides that padding does not go with: a sentence that says the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.trained.importing import import_bundle
from kilotune.codegen.trained.onnx_models import read_onnx
from tests.codegen.trained.onnx_files import Case


def refusal(case: Case, folder: Path, count: int = 3) -> str:
    """What is said of a model of so many features."""
    path = case.write(folder)
    np.savez(folder / "d.npz", X=np.random.default_rng(1).normal(0, 1, (5, count)))
    with pytest.raises(InputError) as refused:
        import_bundle(path, folder / "d.npz")
    return str(refused.value).removeprefix(f"{path}: ")


PLACE = {"i": np.array(0)}


@pytest.mark.parametrize(
    ("kind", "reads", "attributes", "opset", "name"),
    [
        ("Gather", ["x", "i"], {"axis": [1]}, 17, "axis of type int, found ints"),
        ("Unsqueeze", ["x"], {"axes": [0.5]}, 11, "axes of type ints, found floats"),
        ("Softmax", ["x"], {"axis": 0.5}, 17, "axis of type int, found float"),
        ("Cast", ["x"], {"to": "float"}, 17, "to of type int, found string"),
    ],
)
def test_attributes_have_the_type_of_their_operator(
    tmp_path: Path, kind: str, reads: list[str], attributes: dict[str, Any], opset: int, name: str
) -> None:
    case = Case("net", (1, 3), [(kind, reads, ["y"], attributes)], PLACE, opset=opset)
    assert refusal(case, tmp_path) == f"node 0 ({kind} that writes 'y'): expected an attribute {name}"


@pytest.mark.parametrize(("kind", "strides"), [("AveragePool", [1, 3]), ("MaxPool", [3, 1])])
def test_pools_whose_padding_may_be_less_than_none_are_refused(kind: str, strides: list[int], tmp_path: Path) -> None:
    attributes = {"kernel_shape": [2, 2], "strides": strides, "auto_pad": "SAME_UPPER"}
    expected = "strides of at most the kernel, [2, 2], with this auto_pad (write pads out)"
    place = f"node 0 ({kind} that writes 'y')"
    case = Case("net", (1, 1, 4, 4), [(kind, ["x"], ["y"], attributes)])
    assert refusal(case, tmp_path, count=16) == f"{place}: expected {expected}, found {strides}"
    whole = Case("net", (1, 1, 4, 4), [(kind, ["x"], ["y"], {**attributes, "strides": [2, 1]})])
    assert not read_onnx(whole.write(tmp_path)).nodes[0].refusal


def test_attributes_that_an_operator_has_not_are_refused(tmp_path: Path) -> None:
    """As onnxruntime refuses them; one of a name that conversion uses itself ended in an internal error (found by a reader)."""
    case = Case("net", (1, 3), [("QuantizeLinear", ["x", "s"], ["y"], {"like": [1, 2]})], {"s": np.float32(1)})
    expected = "expected an attribute that QuantizeLinear has (axis), found 'like'"
    assert refusal(case, tmp_path) == f"node 0 (QuantizeLinear that writes 'y'): {expected}"


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """Protobuf hands over their bytes."""
    path = Case("net", (1, 3), [("Relu", ["x"], ["y"], {})]).write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"Relu", b"Rel\xf5"))
    np.savez(tmp_path / "d.npz", X=np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"node 0 .*: expected names that are text, found b'Rel\\xf5'"):
        import_bundle(path, tmp_path / "d.npz")


@pytest.mark.parametrize("kind", ["Max", "Pow"])
def test_numbers_of_more_axes_than_what_they_meet_are_refused(kind: str, tmp_path: Path) -> None:
    """The result has as many, which operators behind it count (found by a reader)."""
    case = Case("net", (1, 3), [(kind, ["x", "k"], ["y"], {})], {"k": np.full((1, 1, 1), 2.0, np.float32)})
    said = f"node 0 ({kind} that writes 'y'): expected a number of at most 2 axes, found one of 3"
    assert refusal(case, tmp_path) == said


def test_averages_over_gaps_with_auto_pad_are_refused(tmp_path: Path) -> None:
    """onnxruntime makes another number of results than ONNX's reference (found by a reader)."""
    attributes = {"kernel_shape": [2], "dilations": [2], "auto_pad": "SAME_UPPER"}
    case = Case("net", (1, 1, 6), [("AveragePool", ["x"], ["y"], attributes)], opset=19)
    expected = "expected pads for a window with gaps, found auto_pad, of which executions of ONNX differ"
    assert refusal(case, tmp_path, count=6) == f"node 0 (AveragePool that writes 'y'): {expected}"


def test_features_beyond_floats_of_32_bits_are_refused(tmp_path: Path) -> None:
    path = Case("net", (1, 3), [("Relu", ["x"], ["y"], {})]).write(tmp_path)
    np.savez(tmp_path / "d.npz", X=np.array([[0.0, 1.0, 2.0], [0.0, 1e300, 2.0]]))
    with pytest.raises(
        InputError, match=r"element \[1, 1\]: array X: expected a number of a float of 32 bits, found 1e\+300"
    ):
        import_bundle(path, tmp_path / "d.npz")
