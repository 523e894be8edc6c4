"""ProtoNN (Gupta et al., ICML 2017; SeeDot Section 7, Shiftry Section 8): projection, prototypes, Gaussian kernel."""

from __future__ import annotations

import torch

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import TrainedModel, declarations, parameter_count
from kilotune.experiments.models.train.fitting import (
    Parameters,
    TrainingSettings,
    accuracy_line,
    fit,
    to_arrays,
    to_tensors,
)

PROJECTION = 10
PROTOTYPES_PER_CLASS = 3
GAMMA_SQUARED = 0.0625
RECIPE = TrainingSettings(epochs=200, noise=0.25, keep={"W": 0.5})

PROGRAM = """\
// ProtoNN: 64 features, sparse projection to 10, 30 prototypes with a score for each of 10 classes
let X = (64, 1) in [-1.0, 1.0] in
{declarations}let gammaSq = {gamma} in

let projected = W |*| X in
let scores = $(j = [0:30])
(
	let d = projected - B[j] in
	Z[j] * exp(-gammaSq * (d^T * d))
) in
argmax(scores)
"""


def scores(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Sum over prototypes j of Z_j exp(-gamma^2 |W x - B_j|^2), [samples, classes]."""
    projected = features @ parameters["W"].T
    squares = (projected[:, None, :] - parameters["B"]).square().sum(dim=2)
    return torch.exp(-GAMMA_SQUARED * squares) @ parameters["Z"]


def start(features: torch.Tensor, labels: torch.Tensor, seed: int) -> Parameters:
    """Principal directions as the projection; projected random samples of every class as the prototypes."""
    random = torch.Generator().manual_seed(seed)
    centred = features - features.mean(dim=0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:PROJECTION]
    order = torch.randperm(len(labels), generator=random)
    chosen = [order[labels[order] == label][:PROTOTYPES_PER_CLASS] for label in range(digits.CLASSES)]
    prototypes = features[torch.cat(chosen)] @ directions.T
    classes = torch.arange(digits.CLASSES).repeat_interleave(PROTOTYPES_PER_CLASS)
    return {"W": directions, "B": prototypes, "Z": 2.0 * torch.nn.functional.one_hot(classes).float()}


def train() -> TrainedModel:
    """ProtoNN on digits."""
    split = digits.load_split()
    fitted = fit(start(*to_tensors(split.train), RECIPE.seed), scores, split.train, RECIPE)
    arrays = to_arrays(fitted)
    shipped = {"W": arrays["W"], "B": arrays["B"][:, :, None], "Z": arrays["Z"][:, :, None]}
    readme = (
        f"ProtoNN: projection 10, 30 prototypes, 10 classes; {parameter_count(shipped)}.\n"
        f"{digits.ATTRIBUTION}\n{accuracy_line(fitted, scores, split.train, split.test)}\n"
    )
    program = PROGRAM.format(declarations=declarations(shipped), gamma=GAMMA_SQUARED)
    return TrainedModel("protonn-digits", program, shipped, readme, split.train, split.test)
