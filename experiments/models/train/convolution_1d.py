"""A convolution network over time: two convolutions of 5 steps with pooling and a dense layer, on a watch's movements."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from kilotune.experiments.models.train import exercises
from kilotune.experiments.models.train.bundle import TrainedModel
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, trained_classifier

TAPS = 5
CHANNELS = (8, 12)
FLAT = exercises.STEPS // 4 * CHANNELS[1]
RECIPE = TrainingSettings(epochs=60, noise=0.1, bound=1.95, weight_decay=1e-2)

PROGRAM = """\
// 1-D CNN: 32 steps of 6 channels, two convolutions of 5 steps (8 and 12 channels) with pooling of 2, a dense layer, 7 classes
// Activations are (N, steps, 1, C), filters (groups, steps, 1, Cin, Cout)
let X = (192, 1) in [-1.0, 1.0] in
{declarations}
let window = reshape(X, (1, 32, 1, 6), (1, 2)) in
let conv1 = relu(conv2d(window, F1, {{s 1 1}}, {{p 2 2 0 0}}, {{d 1 1}}, {{g 1}}) <+> B1) in
let pool1 = maxpool(conv1, {{k 2 1}}, {{p 0 0 0 0}}, {{s 2 1}}) in
let conv2 = relu(conv2d(pool1, F2, {{s 1 1}}, {{p 2 2 0 0}}, {{d 1 1}}, {{g 1}}) <+> B2) in
let pool2 = maxpool(conv2, {{k 2 1}}, {{p 0 0 0 0}}, {{s 2 1}}) in
let flat = reshape(pool2, (1, 96), (1, 2, 3, 4)) in
argmax((flat * FC) + FCbias)
"""


def scores(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Class scores; filters are (1, steps, 1, Cin, Cout) as in the program."""
    values = features.reshape(-1, exercises.STEPS, exercises.CHANNELS).transpose(1, 2)
    for layer in ("1", "2"):
        filters = parameters[f"F{layer}"][0, :, 0].permute(2, 1, 0)
        found = functional.conv1d(values, filters, parameters[f"B{layer}"], padding=TAPS // 2)
        values = functional.max_pool1d(torch.relu(found), 2)
    return values.transpose(1, 2).reshape(-1, FLAT) @ parameters["FC"] + parameters["FCbias"]


def start(seed: int) -> Parameters:
    """Random weights of the variance that keeps activations level through rectifiers."""
    random = torch.Generator().manual_seed(seed)

    def normal(shape: tuple[int, ...], inputs: int) -> torch.Tensor:
        return torch.randn(shape, generator=random) * math.sqrt(2.0 / inputs)

    return {
        "F1": normal((1, TAPS, 1, exercises.CHANNELS, CHANNELS[0]), TAPS * exercises.CHANNELS),
        "B1": torch.zeros(CHANNELS[0]),
        "F2": normal((1, TAPS, 1, CHANNELS[0], CHANNELS[1]), TAPS * CHANNELS[0]),
        "B2": torch.zeros(CHANNELS[1]),
        "FC": normal((FLAT, exercises.CLASSES), 2 * FLAT),
        "FCbias": torch.zeros((1, exercises.CLASSES)),
    }


def train() -> TrainedModel:
    """The CNN on exercises."""
    about = "1-D CNN: convolutions of 8 and 12 channels over 32 steps of 6, a dense layer, 7 classes"
    named = ("cnn-exercises", about, exercises.ATTRIBUTION)
    return trained_classifier(named, PROGRAM, start(RECIPE.seed), scores, exercises.load_split(), RECIPE)
