"""Random tree ensembles as ONNX files, with every kind of comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass
class _Lists:
    """What a file says of nodes and leaves."""

    random: np.random.Generator
    features: int
    scores: int
    grid: float
    modes: tuple[str, ...]
    nodes: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in
        ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")})  # fmt: skip
    leaves: list[tuple[int, int, int, float]] = field(default_factory=list)

    def grow(self, tree: int, depth: int, column: int | None, signed: bool) -> int:
        number = sum(owner == tree for owner in self.nodes["treeids"])
        leaf = depth == 0 or (number > 0 and self.random.random() < 0.2)
        threshold = (
            np.round(self.random.normal(0, 2) / self.grid) * self.grid if self.grid else self.random.normal(0, 2)
        )
        row = {"treeids": tree, "nodeids": number, "featureids": int(self.random.integers(self.features)),
               "values": float(np.float32(threshold)), "modes": "LEAF" if leaf else str(self.random.choice(self.modes)),
               "truenodeids": 0, "falsenodeids": 0}  # fmt: skip
        for name, value in row.items():
            self.nodes[name].append(value)
        at = len(self.nodes["treeids"]) - 1
        if leaf:
            columns = (
                [column]
                if column is not None
                else sorted(self.random.permutation(self.scores)[: self.random.integers(1, 4)])
            )
            for score in columns:
                weight = self.random.normal(0, 1) if signed else float(self.random.integers(0, 9)) / 8
                self.leaves.append((tree, number, int(score), float(np.float32(weight))))
        else:
            self.nodes["truenodeids"][at] = self.grow(tree, depth - 1, column, signed)
            self.nodes["falsenodeids"][at] = self.grow(tree, depth - 1, column, signed)
        return number


def random_ensemble(seed: int, *, classes: int = 3, trees: int = 5, depth: int = 5, features: int = 6, signed: bool = False,
                    by_column: bool = False, binary: bool = False, values: bool = False, grid: float = 0.25,
                    modes: tuple[str, ...] = MODES) -> onnx.ModelProto:  # fmt: skip
    """`by_column`: each tree adds to one class; `binary`: two classes by one score; `values`: a regressor with `classes` results; `grid`:
    of thresholds, 0 for none."""
    lists = _Lists(np.random.default_rng(seed), features, 1 if binary else classes, grid, modes)
    for tree in range(trees):
        lists.grow(tree, depth, tree % classes if by_column else 0 if binary else None, signed)
    owners, numbers, ids, weights = (list(column) for column in zip(*lists.leaves, strict=True))
    attributes: dict[str, Any] = {f"nodes_{name}": values_ for name, values_ in lists.nodes.items()}
    if values:
        attributes |= {
            "target_treeids": owners,
            "target_nodeids": numbers,
            "target_ids": ids,
            "target_weights": weights,
            "n_targets": classes,
        }
        nodes = [helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attributes)]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    else:
        attributes |= {"class_treeids": owners, "class_nodeids": numbers, "class_ids": ids, "class_weights": weights,
                       "classlabels_int64s": list(range(2 if binary else classes)), "post_transform": "NONE"}  # fmt: skip
        nodes = [helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml", **attributes)]
        outputs = [
            helper.make_tensor_value_info("label", TensorProto.INT64, None),
            helper.make_tensor_value_info("p", TensorProto.FLOAT, None),
        ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", features])
    graph = helper.make_graph(nodes, "trees", [given], outputs)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8
    )


def written(model: onnx.ModelProto, folder: Path, name: str = "trees") -> Path:
    path = folder / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def by_onnxruntime(model: onnx.ModelProto, features: np.ndarray) -> np.ndarray:
    """The first output: labels [samples], or values [samples, results]."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": features.astype(np.float32)})[0])


def hard_samples(seed: int, features: int, grid: float, count: int = 400) -> np.ndarray:
    """Samples on the grid, where comparisons are ties; without one, next to thresholds cannot be aimed at from here."""
    samples = np.random.default_rng(1000 + seed).normal(0, 2, (count, features)).astype(np.float32).astype(np.float64)
    return np.round(samples / grid) * grid if grid else samples
