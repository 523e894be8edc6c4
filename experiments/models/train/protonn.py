"""ProtoNN (Gupta et al., ICML 2017; SeeDot Section 7, Shiftry Section 8): projection, prototypes, Gaussian kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import TrainedArray, TrainedModel, declarations, parameter_count
from kilotune.experiments.models.train.fitting import (
    Parameters,
    TrainingSettings,
    accuracy_line,
    fit,
    to_arrays,
    to_tensors,
)


@dataclass(frozen=True)
class ProtoNNShape:
    """`projection`: dimensions that features are projected to; `per_class`: prototypes of each class; `gamma_squared`: how fast a
    prototype's weight falls with the squared distance."""

    features: int
    classes: int
    projection: int = 10
    per_class: int = 3
    gamma_squared: float = 0.0625

    @property
    def prototypes(self) -> int:
        """How many prototypes there are, all classes together."""
        return self.classes * self.per_class


SHAPE = ProtoNNShape(digits.FEATURES, digits.CLASSES)
RECIPE = TrainingSettings(epochs=200, noise=0.25, keep={"W": 0.5})

PROGRAM = """\
// ProtoNN: {features} features, sparse projection to {projection}, {prototypes} prototypes with a score for each of {classes} classes
let X = ({features}, 1) in [-1.0, 1.0] in
{declarations}let gammaSq = {gamma} in

let projected = W |*| X in
let scores = $(j = [0:{prototypes}])
(
	let d = projected - B[j] in
	Z[j] * exp(-gammaSq * (d^T * d))
) in
argmax(scores)
"""


def scores(gamma_squared: float, parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Sum over prototypes j of Z_j exp(-gamma^2 |W x - B_j|^2), [samples, classes]."""
    projected = features @ parameters["W"].T
    squares = (projected[:, None, :] - parameters["B"]).square().sum(dim=2)
    return torch.exp(-gamma_squared * squares) @ parameters["Z"]


def start(shape: ProtoNNShape, features: torch.Tensor, labels: torch.Tensor, seed: int) -> Parameters:
    """Principal directions as the projection; projected random samples of every class as the prototypes."""
    random = torch.Generator().manual_seed(seed)
    centred = features - features.mean(dim=0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[: shape.projection]
    order = torch.randperm(len(labels), generator=random)
    chosen = [order[labels[order] == label][: shape.per_class] for label in range(shape.classes)]
    prototypes = features[torch.cat(chosen)] @ directions.T
    classes = torch.arange(shape.classes).repeat_interleave(shape.per_class)
    return {"W": directions, "B": prototypes, "Z": 2.0 * torch.nn.functional.one_hot(classes).float()}


def shipped_arrays(fitted: Parameters) -> dict[str, TrainedArray]:
    """The parameters in the shapes that the program declares."""
    arrays = to_arrays(fitted)
    return {"W": arrays["W"], "B": arrays["B"][:, :, None], "Z": arrays["Z"][:, :, None]}


def program_text(shape: ProtoNNShape, shipped: Mapping[str, TrainedArray]) -> str:
    """The program of a ProtoNN of that shape, features in [-1, 1]."""
    return PROGRAM.format(
        features=shape.features,
        classes=shape.classes,
        projection=shape.projection,
        prototypes=shape.prototypes,
        declarations=declarations(shipped),
        gamma=shape.gamma_squared,
    )


def train() -> TrainedModel:
    """ProtoNN on digits."""
    split = digits.load_split()
    scored = partial(scores, SHAPE.gamma_squared)
    fitted = fit(start(SHAPE, *to_tensors(split.train), RECIPE.seed), scored, split.train, RECIPE)
    shipped = shipped_arrays(fitted)
    readme = (
        f"ProtoNN: projection 10, 30 prototypes, 10 classes; {parameter_count(shipped)}.\n"
        f"{digits.ATTRIBUTION}\n{accuracy_line(fitted, scored, split.train, split.test)}\n"
    )
    program = program_text(SHAPE, shipped)
    return TrainedModel("protonn-digits", program, shipped, readme, split.train, split.test)
