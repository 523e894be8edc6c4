"""A numerical model: a multilayer perceptron that returns a real number, on the diabetes data."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_diabetes

from kilotune.experiments.models.train.bundle import FeatureRows, TrainedModel, declarations, parameter_count
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, fit, to_arrays, to_tensors
from kilotune.experiments.models.train.split import DataSplit, cut, standardise

HIDDEN = 6
FEATURES = 10
TRAIN_SAMPLES = 300
LIMIT = 4.0
RECIPE = TrainingSettings(epochs=100, noise=0.4, bound=1.95, weight_decay=1e-2)

ATTRIBUTION = (
    'Data: diabetes progression of 442 patients (B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least Angle '
    "Regression\", 2004), as in scikit-learn's load_diabetes (BSD-3-Clause); features and target standardised, "
    "clipped to [-4, 4]; 300 training and 142 test samples."
)

PROGRAM = """\
// Multilayer perceptron: 10 features, 6 hidden units; returns a real number, the standardised progression of diabetes
let X = (10, 1) in [-4.0, 4.0] in
{declarations}
let hidden = tanh((W1 * X) + B1) in
let progression = (W2 * hidden) + B2 in
progression
"""


def load_split() -> DataSplit:
    """442 patients with 10 features; column 0 is the target, standardised like the features."""
    diabetes = load_diabetes()
    return standardise(cut(np.column_stack([diabetes.target, diabetes.data]), TRAIN_SAMPLES), LIMIT, first=0)


def outputs(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """The real output of every sample, [samples]."""
    hidden = torch.tanh(features @ parameters["W1"].T + parameters["B1"][:, 0])
    return (hidden @ parameters["W2"].T + parameters["B2"])[:, 0]


def squared_error(values: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean over the batch."""
    return torch.nn.functional.mse_loss(values, targets)


def start(seed: int) -> Parameters:
    """Random weights, small enough that tanh is not saturated."""
    random = torch.Generator().manual_seed(seed)
    return {
        "W1": 0.3 * torch.randn((HIDDEN, FEATURES), generator=random),
        "B1": torch.zeros((HIDDEN, 1)),
        "W2": 0.3 * torch.randn((1, HIDDEN), generator=random),
        "B2": torch.zeros((1, 1)),
    }


def explained(parameters: Parameters, rows: FeatureRows) -> float:
    """R squared: the share of the variance of the targets that the model explains."""
    features, targets = to_tensors(rows)
    errors = outputs(parameters, features, 1.0) - targets
    return 1.0 - float(errors.square().sum() / (targets - targets.mean()).square().sum())


def train() -> TrainedModel:
    """The perceptron on the diabetes data."""
    split = load_split()
    fitted = fit(start(RECIPE.seed), outputs, split.train, RECIPE, squared_error)
    shipped = to_arrays(fitted)
    r_squared = [explained(fitted, rows) for rows in (split.train, split.test)]
    readme = (
        f"Multilayer perceptron, numerical: 10 features, 6 hidden units; {parameter_count(shipped)}.\n"
        f"{ATTRIBUTION}\nFloat R squared: train {r_squared[0]:.4f}, test {r_squared[1]:.4f}.\n"
    )
    program = PROGRAM.format(declarations=declarations(shipped))
    return TrainedModel("mlp-diabetes", program, shipped, readme, split.train, split.test)
