"""A multilayer perceptron on digits: two hidden layers of rectified units, the model that most tools for microcontrollers show first."""

from __future__ import annotations

import itertools
import math

import torch

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import TrainedModel, declarations, parameter_count
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, accuracy_line, fit, to_arrays

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
    split = digits.load_split()
    fitted = fit(start(RECIPE.seed), scores, split.train, RECIPE)
    shipped = to_arrays(fitted)
    readme = (
        f"Multilayer perceptron: hidden layers of 32 and 16 units, 10 classes; {parameter_count(shipped)}.\n"
        f"{digits.ATTRIBUTION}\n{accuracy_line(fitted, scores, split.train, split.test)}\n"
    )
    program = PROGRAM.format(declarations=declarations(shipped))
    return TrainedModel("mlp-digits", program, shipped, readme, split.train, split.test)
