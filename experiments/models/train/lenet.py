"""A LeNet-style CNN (LeCun et al., 1998; SeeDot Section 7.4): two convolutions with pooling and a dense layer."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import TrainedModel
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, trained_classifier

CHANNELS = (6, 12)
FLAT = 2 * 2 * CHANNELS[1]
RECIPE = TrainingSettings(epochs=120, noise=0.25, bound=1.95)

PROGRAM = """\
// LeNet-style CNN: 8x8 pixels, two 3x3 convolutions (6 and 12 channels) with 2x2 max pooling, a dense layer, 10 classes
// Activations are (N, H, W, C), filters (groups, kH, kW, Cin, Cout)
let X = (64, 1) in [-1.0, 1.0] in
{declarations}
let image = reshape(X, (1, 8, 8, 1), (1, 2)) in
let conv1 = relu(conv2d(image, F1, {{s 1 1}}, {{p 1 1 1 1}}, {{d 1 1}}, {{g 1}}) <+> B1) in
let pool1 = maxpool(conv1, {{k 2 2}}, {{p 0 0 0 0}}, {{s 2 2}}) in
let conv2 = relu(conv2d(pool1, F2, {{s 1 1}}, {{p 1 1 1 1}}, {{d 1 1}}, {{g 1}}) <+> B2) in
let pool2 = maxpool(conv2, {{k 2 2}}, {{p 0 0 0 0}}, {{s 2 2}}) in
let flat = reshape(pool2, (1, 48), (1, 2, 3, 4)) in
argmax((flat * FC) + FCbias)
"""


def scores(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Class scores; filters are (1, kH, kW, Cin, Cout) as in the program."""
    image = features.reshape(-1, 1, 8, 8)
    for layer in ("1", "2"):
        filters = parameters[f"F{layer}"][0].permute(3, 2, 0, 1)
        image = functional.max_pool2d(
            torch.relu(functional.conv2d(image, filters, parameters[f"B{layer}"], padding=1)), 2
        )
    flat = image.permute(0, 2, 3, 1).reshape(-1, FLAT)
    return flat @ parameters["FC"] + parameters["FCbias"]


def start(seed: int) -> Parameters:
    """Random weights of the variance that keeps activations level through rectifiers."""
    random = torch.Generator().manual_seed(seed)

    def normal(shape: tuple[int, ...], inputs: int) -> torch.Tensor:
        return torch.randn(shape, generator=random) * math.sqrt(2.0 / inputs)

    return {
        "F1": normal((1, 3, 3, 1, CHANNELS[0]), 9),
        "B1": torch.zeros(CHANNELS[0]),
        "F2": normal((1, 3, 3, CHANNELS[0], CHANNELS[1]), 9 * CHANNELS[0]),
        "B2": torch.zeros(CHANNELS[1]),
        "FC": normal((FLAT, digits.CLASSES), 2 * FLAT),
        "FCbias": torch.zeros((1, digits.CLASSES)),
    }


def train() -> TrainedModel:
    """The CNN on digits."""
    named = (
        "lenet-digits",
        "LeNet-style CNN: convolutions of 6 and 12 channels, a dense layer, 10 classes",
        digits.ATTRIBUTION,
    )
    return trained_classifier(named, PROGRAM, start(RECIPE.seed), scores, digits.load_split(), RECIPE)
