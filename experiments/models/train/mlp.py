"""A multilayer perceptron on digits: two hidden layers of rectified units, the model that most tools for microcontrollers show first."""

from __future__ import annotations

import itertools
import math

import torch

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import TrainedModel
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, trained_classifier

UNITS = (digits.FEATURES, 32, 16, digits.CLASSES)
RECIPE = TrainingSettings(epochs=120, noise=0.25, bound=1.95)

PROGRAM = """\
// Multilayer perceptron: 64 features, hidden layers of 32 and 16 rectified units, 10 classes
let X = (64, 1) in [-1.0, 1.0] in
{declarations}
let h1 = relu((W1 * X) + B1) in
let h2 = relu((W2 * h1) + B2) in
argmax((W3 * h2) + B3)
"""


def scores(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Class scores, [samples, classes]; weights are [outputs, inputs], biases [outputs, 1], as in the program."""
    values = features
    for layer in range(1, len(UNITS)):
        values = values @ parameters[f"W{layer}"].T + parameters[f"B{layer}"][:, 0]
        values = torch.relu(values) if layer < len(UNITS) - 1 else values
    return values


def start(seed: int) -> Parameters:
    """Random weights of the variance that keeps activations level through rectifiers."""
    random = torch.Generator().manual_seed(seed)
    found: Parameters = {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(UNITS), 1):
        found[f"W{layer}"] = torch.randn((outputs, inputs), generator=random) * math.sqrt(2.0 / inputs)
        found[f"B{layer}"] = torch.zeros((outputs, 1))
    return found


def train() -> TrainedModel:
    """The perceptron on digits."""
    named = ("mlp-digits", "Multilayer perceptron: hidden layers of 32 and 16 units, 10 classes", digits.ATTRIBUTION)
    return trained_classifier(named, PROGRAM, start(RECIPE.seed), scores, digits.load_split(), RECIPE)
