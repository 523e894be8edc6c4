"""Attributes of another type than their operator's, and complements of several probabilities: a sentence that says the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from tests.codegen.trained.onnx_files import Case


def refusal(case: Case, folder: Path, returns: Returns | None = None) -> str:
    path = case.write(folder)
    np.savez(folder / "d.npz", X=np.random.default_rng(1).normal(0, 1, (5, 3)))
    with pytest.raises(InputError) as refused:
        import_bundle(path, folder / "d.npz", returns=returns)
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
