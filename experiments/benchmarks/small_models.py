"""Small classifiers on public data of scikit-learn and on generated data, as bundles, trained in seconds: for studies of many models."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from kilotune.codegen.arrays import FloatArray
from kilotune.experiments.models.train.bundle import FeatureRows, TrainedModel, declarations, write_bundle
from kilotune.experiments.models.train.split import DataSplit, cut, standardise
from kilotune.experiments.problems.fixed_point.problem import resolve_input

LIMIT = 4.0
ACTIVATIONS = {"relu": "relu", "tanh": "tanh"}
"""The language's functions by scikit-learn's names."""


@dataclass(frozen=True)
class SmallModel:
    """What is trained on which samples. `hidden`: units of the hidden layers; none for a linear model."""

    name: str
    rows: FeatureRows
    train_samples: int
    hidden: tuple[int, ...] = ()
    activation: str = "relu"


def public_models() -> Iterator[SmallModel]:
    """Linear models and perceptrons on digits, breast cancer, wine and iris, whose attributions the bundled models' READMEs give."""
    digits, cancer, wine, iris = (
        np.column_stack([data.target, data.data])
        for data in (load_digits(), load_breast_cancer(), load_wine(), load_iris())
    )
    yield SmallModel("linear-digits", digits, 1200)
    yield SmallModel("mlp-digits", digits, 1200, (32, 16))
    yield SmallModel("linear-cancer", cancer, 380)
    yield SmallModel("mlp-cancer", cancer, 380, (8,), "tanh")
    yield SmallModel("mlp-wine", wine, 110, (8,), "tanh")
    yield SmallModel("linear-iris", iris, 90)


def generated_models() -> Iterator[SmallModel]:
    """On clusters in 20 and 30 dimensions (`make_classification`), with 2000 test samples and more."""
    for seed, classes in enumerate((2, 3, 5, 8, 2, 10, 4, 2, 6, 10, 3, 2)):
        wide = seed >= 6
        features, labels = make_classification(
            3000,
            30 if wide else 20,
            n_informative=12 if wide else 10,
            n_redundant=8 if wide else 4,
            n_classes=classes,
            n_clusters_per_class=1 if wide else 2,
            class_sep=1.0 if wide else 1.5,
            random_state=seed,
        )
        linear = not wide and seed % 3 == 0
        units = ((12,) if wide else (16,)) if seed % 2 else ((20, 10) if wide else (24, 12))
        kind = "linear" if linear else "mlp"
        yield SmallModel(
            f"{kind}-generated-{seed}",
            np.column_stack([labels, features]),
            600 if wide else 1000,
            () if linear else units,
            "relu" if seed % 2 else "tanh",
        )


def write_small_model(model: SmallModel, folder: Path) -> Path:
    """The trained bundle, in a folder of `folder`. Features that are the same in all training samples are left out."""
    whole = cut(model.rows, model.train_samples)
    varies = whole.train.std(axis=0) > 0
    split = standardise(DataSplit(whole.train[:, varies], whole.test[:, varies]), LIMIT)
    weights = _layers(model, split)
    named: dict[str, FloatArray] = {
        name: array for k, pair in enumerate(weights, 1) for name, array in zip((f"W{k}", f"B{k}"), pair, strict=True)
    }
    program = _program(model, split, weights, named)
    write_bundle(
        TrainedModel(model.name, program, named, f"{model.name}\n", split.train, split.test), folder / model.name
    )
    return folder / model.name


def places_of(names: Sequence[str], generated: bool, folder: Path) -> Iterator[tuple[str, str]]:
    """Models by name, and where each is: bundled ones and folders, or `generated`, of these, all where none is named. They are written into
    the folder as they are come to."""
    small = {model.name: model for model in generated_models()} if generated else {}
    for name in names or small:
        yield name, str(write_small_model(small[name], folder) if name in small else resolve_input(name))


def _layers(model: SmallModel, split: DataSplit) -> list[tuple[FloatArray, FloatArray]]:
    """Weights [outputs, inputs] and biases [outputs, 1] of every layer."""
    features, labels = split.train[:, 1:].astype(np.float64), split.train[:, 0].astype(int)
    if not model.hidden:
        linear = LogisticRegression(max_iter=2000).fit(features, labels)
        pairs = [(linear.coef_, linear.intercept_[:, None])]
    else:
        perceptron = MLPClassifier(model.hidden, activation=model.activation, alpha=1e-2, max_iter=300, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            perceptron.fit(features, labels)
        pairs = [(w.T, b[:, None]) for w, b in zip(perceptron.coefs_, perceptron.intercepts_, strict=True)]
    return [(weight.astype(np.float32), bias.astype(np.float32)) for weight, bias in pairs]


def _program(
    model: SmallModel,
    split: DataSplit,
    weights: Sequence[tuple[FloatArray, FloatArray]],
    named: dict[str, FloatArray],
) -> str:
    lines, given = [f"let X = ({split.train.shape[1] - 1}, 1) in [-{LIMIT}, {LIMIT}] in\n", declarations(named)], "X"
    for layer in range(1, len(weights)):
        lines.append(f"let h{layer} = {ACTIVATIONS[model.activation]}((W{layer} * {given}) + B{layer}) in\n")
        given = f"h{layer}"
    outputs = len(weights[-1][0])
    decision = "sgn" if outputs == 1 else "argmax"
    return "".join([*lines, f"{decision}((W{len(weights)} * {given}) + B{len(weights)})\n"])
