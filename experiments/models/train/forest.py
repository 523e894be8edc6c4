"""A random forest (Breiman, 2001) of scikit-learn on digits, as the ONNX file that skl2onnx makes of it, with its samples beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import FeatureRows

TREES, DEPTH = 10, 8

ATTRIBUTION = digits.ATTRIBUTION.replace("pixels 0..16 scaled to [-1, 1]", "pixels 0..16 as they are")


@dataclass(frozen=True)
class TrainedForest:
    """Everything that a folder of a bundled forest holds. `model`: the bytes of an ONNX file; rows have the class in column 0."""

    model: bytes
    readme: str
    train: FeatureRows
    test: FeatureRows


def train() -> TrainedForest:
    """The forest on digits, whose split is that of the other models."""
    split = digits.load_split()
    train, test = (_pixels(rows) for rows in (split.train, split.test))
    forest = RandomForestClassifier(TREES, max_depth=DEPTH, random_state=0).fit(train[:, 1:], train[:, 0].astype(int))
    nodes = sum(int((tree.tree_.children_left >= 0).sum()) for tree in forest.estimators_)
    accuracies = []
    for rows in (train, test):
        right = int((forest.predict(rows[:, 1:]) == rows[:, 0]).sum())
        accuracies.append(f"{100 * right / len(rows):.2f} % ({right} of {len(rows)})")
    readme = (
        f"Random forest: {TREES} trees of at most {DEPTH} levels, 10 classes; {nodes} comparisons.\n"
        f"{ATTRIBUTION}\nFloat accuracy: train {accuracies[0]}, test {accuracies[1]}.\n"
    )
    model = to_onnx(forest, train[:1, 1:].astype(np.float32), name="forest", options={id(forest): {"zipmap": False}})
    return TrainedForest(model.SerializeToString(), readme, train, test)


def _pixels(rows: FeatureRows) -> FeatureRows:
    """Pixels 0..16 again."""
    return np.column_stack([rows[:, :1], (rows[:, 1:] + 1.0) * 8.0]).astype(np.float32)


def write_forest(forest: TrainedForest, folder: Path) -> None:
    """Write the files of a forest into `folder`, made if needed, whose name the ONNX file gets; the same forest writes the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{folder.name}.onnx").write_bytes(forest.model)
    (folder / "README.md").write_text(forest.readme, encoding="utf-8")
    train, test = (rows.astype(np.uint8) for rows in (forest.train, forest.test))
    np.savez_compressed(folder / "data.npz", X=train[:, 1:], y=train[:, 0], Xt=test[:, 1:], yt=test[:, 0])
