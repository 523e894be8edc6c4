"""A trained ProtoNN with fewer prototypes, as a bundle: less to store where flash decides.

    python -m kilotune.experiments.models.train.fewer_prototypes MODEL FOLDER [--flips N]

MODEL: a folder or a bundled model that is written as the bundled ProtoNNs are. A ProtoNN is a sum of Gaussian kernels, so its scores are
linear in those of its prototypes. The prototype is left out without which the others can make up best, their scores fitted anew by least
squares, one after the other (backward elimination, for centres of radial basis functions; forward: Chen, Cowan and Grant, IEEE Transactions
on Neural Networks 1991), on the training samples and made-up inputs like them, of which those near a boundary count more. The fewest are
taken with which at most N training samples (1) get another class. Test samples are not looked at.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.evaluators.fixed_point.similar_inputs import similar_inputs
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.models.train.bundle import FeatureRows, TrainedModel, declaration, write_bundle

MADE_UP = 2
"""Inputs that are made up for each training sample."""

WIDEST = 0.1
"""The margin, as a share of the mean one, that is added to each: an input on a boundary counts as much as this."""

RIDGE = 1e-9
"""A share of the kernels' mean square, added to it: prototypes in the same place leave their scores undetermined."""


@dataclass(frozen=True)
class GaussianSum:
    """Kernels exp(-gamma_squared |projection x - place|^2) with scores: `projection` [dimensions, features], `places` [prototypes,
    dimensions], `scores` [prototypes, classes], or one score, whose sign is the class."""

    projection: FloatArray
    places: FloatArray
    scores: FloatArray
    gamma_squared: float

    def kernels(self, features: FloatArray) -> FloatArray:
        """The kernels [samples, prototypes] at `features` [samples, features]."""
        projected = features @ self.projection.T
        squares = np.square(projected[:, None, :] - self.places).sum(axis=2)
        return np.asarray(np.exp(-self.gamma_squared * squares))


def classes(scores: FloatArray) -> IntArray:
    """The class of each row of `scores` [samples, classes or 1]."""
    return scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.int64)


def fewer(model: GaussianSum, samples: FloatArray) -> Iterator[GaussianSum]:
    """The model with one prototype less each time, down to one; fitted on `samples` [samples, features]."""
    kernels = model.kernels(samples)
    whole = kernels @ model.scores
    weights = _weights(whole)[:, None]
    squares, products = kernels.T @ (weights * kernels), kernels.T @ (weights * whole)
    ridge = RIDGE * float(np.trace(squares)) / len(squares)
    kept = list(range(len(model.places)))
    while len(kept) > 1:
        explained = dict[float, tuple[list[int], FloatArray]]()
        for place in kept:
            others = [other for other in kept if other != place]
            solved = np.linalg.solve(squares[np.ix_(others, others)] + ridge * np.eye(len(others)), products[others])
            explained.setdefault(
                float((solved * products[others]).sum()), (others, np.asarray(solved, dtype=np.float64))
            )
        kept, scores = explained[max(explained)]
        yield replace(model, places=model.places[kept], scores=scores)


def _weights(scores: FloatArray) -> FloatArray:
    """What the squared errors of each sample count, of the whole model's `scores` [samples, classes or 1]."""
    ordered = np.sort(scores, axis=1)
    margins = ordered[:, -1] - ordered[:, -2] if scores.shape[1] > 1 else np.abs(scores[:, 0])
    return np.asarray(1.0 / (WIDEST * margins.mean() + margins))


def fewest(model: GaussianSum, samples: FloatArray, most_flips: int) -> GaussianSum:
    """The model with the fewest prototypes with which at most so many of `samples` [samples, features] get another class."""
    before, found = classes(model.kernels(samples) @ model.scores), model
    for smaller in fewer(model, np.concatenate([samples, similar_inputs(samples, MADE_UP * len(samples))])):
        if (classes(smaller.kernels(samples) @ smaller.scores) != before).sum() <= most_flips:
            found = smaller
    return replace(found, scores=_centred(found.scores))


def _centred(scores: FloatArray) -> FloatArray:
    """Scores [prototypes, classes or 1] of which each prototype's lie as far below zero as above: what all classes have in common decides
    nothing, and takes a digit."""
    if scores.shape[1] == 1:
        return scores
    return np.asarray(scores - (scores.max(axis=1, keepdims=True) + scores.min(axis=1, keepdims=True)) / 2)


def pruned(folder: Path, most_flips: int) -> TrainedModel:
    """The bundle in a folder with the fewest prototypes. ValueError for a program that is not written as the bundled ProtoNNs are."""
    text = (folder / "model.sd").read_text(encoding="utf-8")
    gamma, loop = re.search(r"let gammaSq = ([\d.e-]+) in", text), re.search(r"\$\(j = \[0:(\d+)\]\)", text)
    if gamma is None or loop is None:
        raise ValueError(f"{folder}/model.sd: expected gammaSq and a sum over prototypes $(j = [0:N]), found none")
    projection, places, scores = (np.load(folder / f"{name}.npy").astype(np.float64) for name in "WBZ")
    rows: dict[str, FeatureRows] = {name: np.load(folder / f"{name}.npz")["data"] for name in ("train", "test")}
    model = GaussianSum(projection, places[:, :, 0], scores.reshape(len(scores), -1), float(gamma[1]))
    smaller = fewest(model, rows["train"][:, 1:].astype(np.float64), most_flips)
    count = len(smaller.places)
    arrays = {
        "W": projection.astype(np.float32),
        "B": smaller.places[:, :, None].astype(np.float32),
        "Z": smaller.scores.reshape(count, *scores.shape[1:]).astype(np.float32),
    }
    for name, values in arrays.items():
        text = re.sub(rf"let {name} = .*\n", declaration(name, values), text)
    text = text.replace(loop[0], f"$(j = [0:{count}])").replace(f"{len(places)} prototypes", f"{count} prototypes")
    readme = f"{folder.name} with {count} of {len(places)} prototypes.\n"
    return TrainedModel(f"{folder.name}-{count}", text, arrays, readme, rows["train"], rows["test"])


def main() -> None:
    """Write the bundle."""
    arguments = argparse.ArgumentParser(description="A trained ProtoNN with fewer prototypes.")
    arguments.add_argument("model")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--flips", type=int, default=1)
    given = arguments.parse_args()
    bundle = pruned(resolve_model(given.model), given.flips)
    write_bundle(bundle, given.folder)
    print(bundle.readme.strip())


if __name__ == "__main__":
    main()
