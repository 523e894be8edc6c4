"""A binary classifier: ProtoNN with one score, whose sign is the label (SeeDot's sgn), on the breast cancer data."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer

from kilotune.experiments.models.train.bundle import TrainedModel, declarations, parameter_count
from kilotune.experiments.models.train.fitting import (
    Parameters,
    TrainingSettings,
    accuracy_line,
    fit,
    to_arrays,
    to_tensors,
)
from kilotune.experiments.models.train.split import DataSplit, cut, standardise

PROJECTION = 4
PROTOTYPES = 6
TRAIN_SAMPLES = 380
GAMMA_SQUARED = 0.0625
LIMIT = 4.0
RECIPE = TrainingSettings(epochs=150, noise=0.2, bound=1.95, keep={"W": 0.5})

ATTRIBUTION = (
    "Data: Breast Cancer Wisconsin (Diagnostic) (W. Wolberg, O. Mangasarian, N. Street, W. Street; UCI Machine "
    "Learning Repository, 1995), CC BY 4.0, as in scikit-learn's load_breast_cancer; features standardised, clipped to "
    "[-4, 4]; 380 training and 189 test samples; label 1 is benign."
)

PROGRAM = """\
// ProtoNN with two classes: 30 features, sparse projection to 4, 6 prototypes with one score; its sign is the label
let X = (30, 1) in [-4.0, 4.0] in
{declarations}let gammaSq = {gamma} in

let projected = W |*| X in
let score = $(j = [0:6])
(
	let d = projected - B[j] in
	Z[j] * exp(-gammaSq * (d^T * d))
) in
sgn(score)
"""


def load_split() -> DataSplit:
    """569 tumours with 30 features; column 0 is 1 when benign."""
    cancer = load_breast_cancer()
    return standardise(cut(np.column_stack([cancer.target, cancer.data]), TRAIN_SAMPLES), LIMIT)


def scores(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Zero for label 0, the score for label 1: the larger is the label that the sign gives."""
    projected = features @ parameters["W"].T
    squares = (projected[:, None, :] - parameters["B"]).square().sum(dim=2)
    score = torch.exp(-GAMMA_SQUARED * squares) @ parameters["Z"]
    return torch.stack([torch.zeros_like(score), score], dim=1)


def start(features: torch.Tensor, labels: torch.Tensor, seed: int) -> Parameters:
    """Principal directions as the projection; projected random samples, half of each label, as the prototypes."""
    random = torch.Generator().manual_seed(seed)
    directions = torch.linalg.svd(features, full_matrices=False).Vh[:PROJECTION]
    order = torch.randperm(len(labels), generator=random)
    half = PROTOTYPES // 2
    chosen = torch.cat([order[labels[order] == label][:half] for label in (0, 1)])
    signs = torch.cat([-torch.ones(half), torch.ones(half)])
    return {"W": directions, "B": features[chosen] @ directions.T, "Z": signs}


def train() -> TrainedModel:
    """Two-class ProtoNN on the breast cancer data."""
    split = load_split()
    fitted = fit(start(*to_tensors(split.train), RECIPE.seed), scores, split.train, RECIPE)
    arrays = to_arrays(fitted)
    shipped = {"W": arrays["W"], "B": arrays["B"][:, :, None], "Z": arrays["Z"][:, None, None]}
    readme = (
        f"ProtoNN with two classes: projection 4, 6 prototypes; {parameter_count(shipped)}.\n"
        f"{ATTRIBUTION}\n{accuracy_line(fitted, scores, split.train, split.test)}\n"
    )
    program = PROGRAM.format(declarations=declarations(shipped), gamma=GAMMA_SQUARED)
    return TrainedModel("protonn-cancer", program, shipped, readme, split.train, split.test)
