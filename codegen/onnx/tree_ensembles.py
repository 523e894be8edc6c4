"""Decision trees in an ONNX file: operators that are no sequence of operations, but programs of a kind of their own."""

from __future__ import annotations

from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.obstacles import CLASSICAL_DOMAIN, node_place

TREE_OPERATORS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")

READER = "decision trees are for the space forest"


def refuse_trees(model: Any, path: str, expected: str) -> None:
    """InputError, with the space that reads them, for a ModelProto with decision trees in it."""
    for number, node in enumerate(model.graph.node):
        if node.domain == CLASSICAL_DOMAIN and node.op_type in TREE_OPERATORS:
            expected = f"{expected} ({READER})"
            raise InputError(path, place=node_place(number, node), expected=expected, found=node.op_type)
