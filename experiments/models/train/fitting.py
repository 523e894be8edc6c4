"""Fits the parameters of a model to data: Adam, mini-batches, cosine learning rate, noise on the features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from kilotune.experiments.models.train.bundle import (
    FeatureRows,
    TrainedArray,
    TrainedModel,
    declarations,
    parameter_count,
)
from kilotune.experiments.models.train.split import DataSplit

Parameters = dict[str, torch.Tensor]
Scores = Callable[[Parameters, torch.Tensor, float], torch.Tensor]
"""(parameters, features [samples, features], progress in 0..1) -> a score for each class [samples, classes]."""
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(scores or outputs, labels or targets) -> what is to be small, a scalar."""

LABEL_SMOOTHING = 0.05


@dataclass(frozen=True)
class TrainingSettings:
    """How long and how hard to train.

    `keep` says which share of the weights of a parameter stays; the smallest are set to zero a third of the way in,
    for good (ProtoNN and Bonsai get their sparse projections by such hard thresholds). `bound` limits every weight
    to [-bound, bound], a little below a power of two, which costs a float model nothing much and gives a fixed-point
    one more mantissa bits.
    """

    epochs: int
    learning_rate: float = 0.01
    weight_decay: float = 1e-4
    batch: int = 64
    noise: float = 0.2
    bound: float = 3.95
    seed: int = 0
    keep: Mapping[str, float] | None = None


def cross_entropy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The cross-entropy loss of a classifier, with smoothed labels."""
    return torch.nn.functional.cross_entropy(scores, labels.long(), label_smoothing=LABEL_SMOOTHING)


def fit(
    start: Parameters, scores: Scores, train: FeatureRows, recipe: TrainingSettings, loss: Loss = cross_entropy
) -> Parameters:
    """Parameters that minimise the loss on `train`; deterministic for a seed on one machine."""
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(recipe.seed)
    features, labels = to_tensors(train)
    weights = {name: value.clone().requires_grad_(True) for name, value in start.items()}
    masks: Parameters = {}
    optimiser = torch.optim.AdamW(weights.values(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    for epoch in range(recipe.epochs):
        progress = epoch / recipe.epochs
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * 0.5 * (1.0 + math.cos(math.pi * progress))
        if epoch == recipe.epochs // 3:
            masks = largest(weights, recipe.keep or {})
        order = torch.randperm(len(labels), generator=random)
        for begin in range(0, len(labels), recipe.batch):
            chosen = order[begin : begin + recipe.batch]
            batch = features[chosen]
            batch = batch + recipe.noise * torch.randn(batch.shape, generator=random)
            value = loss(scores(weights, batch, progress), labels[chosen])
            gradients = torch.autograd.grad(value, list(weights.values()), allow_unused=True)
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                weight.grad = gradient
            optimiser.step()
            project(weights, masks, recipe.bound)
    return {name: value.detach() for name, value in weights.items()}


def largest(weights: Parameters, keep: Mapping[str, float]) -> Parameters:
    """Masks, 1.0 at the `keep` share of largest magnitude of each named parameter, 0.0 elsewhere."""
    masks: Parameters = {}
    for name, share in keep.items():
        magnitudes = weights[name].detach().abs()
        count = round(share * magnitudes.numel())
        threshold = magnitudes.flatten().sort(descending=True).values[count - 1]
        masks[name] = (magnitudes >= threshold).to(magnitudes.dtype)
    return masks


def project(weights: Parameters, masks: Parameters, bound: float) -> None:
    """Put the weights back into the feasible set: bounded, and zero where masked. Changes them in place."""
    with torch.no_grad():
        for name, value in weights.items():
            value.clamp_(-bound, bound)
            if name in masks:
                value.mul_(masks[name])


def to_tensors(rows: FeatureRows) -> tuple[torch.Tensor, torch.Tensor]:
    """Features [samples, features] and labels (or targets) [samples] of rows, both float32."""
    values = torch.tensor(rows.astype(np.float32))
    return values[:, 1:], values[:, 0]


def to_arrays(parameters: Parameters) -> dict[str, TrainedArray]:
    """The parameters as float32 arrays."""
    return {name: value.detach().numpy().astype(np.float32) for name, value in parameters.items()}


def accuracy_line(parameters: Parameters, scores: Scores, train: FeatureRows, test: FeatureRows) -> str:
    """The line of the README that says how good the float model is."""
    parts = [_accuracy(parameters, scores, rows) for rows in (train, test)]
    return f"Float accuracy: train {parts[0]}, test {parts[1]}."


def trained_classifier(
    named: tuple[str, str, str],
    program: str,
    initial: Parameters,
    scores: Scores,
    split: DataSplit,
    recipe: TrainingSettings,
) -> TrainedModel:
    """A model whose parameters are those of its program, fitted from `initial`. `named`: its name, what it is, and where its data come
    from, for its README; `program`: its text, with `{declarations}`."""
    name, about, attribution = named
    fitted = fit(initial, scores, split.train if split.fitted is None else split.fitted, recipe)
    shipped = to_arrays(fitted)
    readme = (
        f"{about}; {parameter_count(shipped)}.\n"
        f"{attribution}\n{accuracy_line(fitted, scores, split.train, split.test)}\n"
    )
    text = program.format(declarations=declarations(shipped))
    return TrainedModel(name, text, shipped, readme, split.train, split.test)


def _accuracy(parameters: Parameters, scores: Scores, rows: FeatureRows) -> str:
    features, labels = to_tensors(rows)
    doubles = {name: value.double() for name, value in parameters.items()}
    right = int((scores(doubles, features.double(), 1.0).argmax(dim=1) == labels).sum())
    return f"{100 * right / len(labels):.2f} % ({right} of {len(labels)})"
