"""Trains the networks of digits for the camera chip: AnalogNet2's three kernels, and eight ternary kernels of our own.

    python -m kilotune.experiments.papers.analognet_training --data DIGITS.npz [--output FOLDER]

The file has images (or X), 28 x 28 grey levels, and labels (or y), as MNIST. Every fifth sample, from the first on, is held out: neither
the choice of kernels nor the dense layers see it. AnalogNet2's kernels and regions are the published ones; its dense layers are trained
here, of the published shape. Ours are chosen one after the other from random ternary kernels, each time the one with which a ridge
regression on the counts does best on training samples that it was not fitted to. The dense layers (50 hidden values) are trained by Adam
with noise on the counts, then rounded to integers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import Array
from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.problems.labelled_images import read_labelled_images
from kilotune.experiments.problems.reverse_split.filters import FILTERS

TrainingArray = npt.NDArray[np.float32]

SIDE, HELD_OUT, BINARISED_AT = 28, 5, 128
NEAR, FAR = ((5, 14), (14, 23)), ((0, 9), (19, 28))
REGIONS = tuple(
    (top, left, bottom, right)
    for rows, columns in (
        (FAR[:1], NEAR),
        (NEAR[:1], (FAR[0], *NEAR, FAR[1])),
        (NEAR[1:], (FAR[0], *NEAR, FAR[1])),
        (FAR[1:], NEAR),
    )
    for top, bottom in rows
    for left, right in columns
)
"""AnalogNet2's twelve overlapping squares of 9 x 9 pixels, (top, left, bottom, right)."""

CANDIDATES, CHOSEN, RIDGE, FITTED = 160, 8, 3.0, 5000
HIDDEN, EPOCHS, BATCH, RATE, DECAY, COUNT_NOISE = 50, 60, 64, 3e-3, 1e-4, 0.4
ANALOGNET_LEVEL, TERNARY_LEVEL = 80, 24
INTEGER_SCALE = 256
SEED = 1


@dataclass(frozen=True)
class Digits:
    """Set pixels [images, side, side] as 0 and 1, labels, and which are held out."""

    pixels: TrainingArray
    labels: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.bool_]


def results(pixels: TrainingArray, kernels: TrainingArray) -> TrainingArray:
    """Weighted sums [images, side, side, kernels] of 3 x 3 kernels [kernels, 3, 3], rows north to south; beyond the edges 0."""
    padded = np.pad(pixels, ((0, 0), (1, 1), (1, 1)))
    patches = np.stack([padded[:, i : i + SIDE, j : j + SIDE] for i in range(3) for j in range(3)], axis=-1)
    return np.asarray(patches @ kernels.reshape(-1, 9).T, dtype=np.float32)


def counted(is_set: npt.NDArray[np.bool_]) -> TrainingArray:
    """Set pixels [images, kernels, regions]."""
    counts = [is_set[:, t:b, left:right].sum(axis=(1, 2)) for t, left, b, right in REGIONS]
    return np.stack(counts, axis=2).astype(np.float32)


def chosen_kernels(digits: Digits, generator: np.random.Generator) -> tuple[TrainingArray, TrainingArray]:
    """Ternary kernels [CHOSEN, 3, 3] and their thresholds."""
    kernels: list[npt.NDArray[np.int64]] = []
    while len(kernels) < CANDIDATES:
        kernel = generator.integers(-1, 2, (3, 3))
        if 3 <= np.count_nonzero(kernel) <= 7 and kernel.max() > 0 and not any((kernel == k).all() for k in kernels):
            kernels.append(kernel)
    thresholds = np.array([0.5 + (generator.random() < 0.5) * (k.clip(0).sum() > 1) for k in kernels], dtype=np.float32)
    weights = np.array(kernels, dtype=np.float32)
    seen = np.flatnonzero(~digits.held_out)
    parts = [
        counted(results(digits.pixels[seen], weights[k : k + 8]) > thresholds[k : k + 8])
        for k in range(0, CANDIDATES, 8)
    ]
    counts = np.sqrt(np.concatenate(parts, axis=1))
    wanted = np.eye(10, dtype=np.float32)[digits.labels[seen]]
    order = generator.permutation(len(seen))
    chosen: list[int] = []
    for _ in range(CHOSEN):
        others = [k for k in range(CANDIDATES) if k not in chosen]
        chosen.append(min(others, key=lambda k: _ridge_error(counts[:, [*chosen, k]], wanted, order)))
    return weights[chosen], thresholds[chosen]


def _ridge_error(counts: TrainingArray, wanted: TrainingArray, order: npt.NDArray[np.int64]) -> float:
    """The squared error on the samples of the order that the regression was not fitted to."""
    features = np.column_stack([counts.reshape(len(counts), -1), np.ones(len(counts), dtype=np.float32)])
    fitted, other = order[:FITTED], order[FITTED:]
    gram = features[fitted].T @ features[fitted] + RIDGE * np.eye(features.shape[1], dtype=np.float32)
    weights = np.linalg.solve(gram, features[fitted].T @ wanted[fitted])
    return float(((features[other] @ weights - wanted[other]) ** 2).mean())


def dense_layers(
    counts: TrainingArray, labels: npt.NDArray[np.int64], generator: np.random.Generator
) -> list[dict[str, object]]:
    """Two layers in integers, for plain counts."""
    mean, deviation = counts.mean(axis=0), counts.std(axis=0) + 1e-3
    inputs = (counts - mean) / deviation
    shapes = ((inputs.shape[1], HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,))
    values = [
        (generator.standard_normal(s) / np.sqrt(s[0]) if len(s) == 2 else np.zeros(s)).astype(np.float32)
        for s in shapes
    ]
    first, second = [np.zeros_like(v) for v in values], [np.zeros_like(v) for v in values]
    step = 0
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = generator.permutation(len(inputs))
        for start in range(0, len(order), BATCH):
            batch, step = order[start : start + BATCH], step + 1
            noise = COUNT_NOISE * generator.standard_normal((len(batch), inputs.shape[1])).astype(np.float32)
            gradients = _gradients(values, inputs[batch] + noise, labels[batch])
            for k, gradient in enumerate(gradients):
                first[k] = 0.9 * first[k] + 0.1 * gradient
                second[k] = 0.999 * second[k] + 0.001 * gradient**2
                change = first[k] / (1 - 0.9**step) / (np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8)
                values[k] -= np.float32(rate) * (change + DECAY * values[k] * (values[k].ndim == 2)).astype(np.float32)
    scaled = values[0] / deviation[:, None]
    folded = values[1] - mean @ scaled
    return [_integers(scaled, folded, INTEGER_SCALE, 1), _integers(values[2], values[3], INTEGER_SCALE, INTEGER_SCALE)]


def _gradients(
    values: list[TrainingArray], inputs: TrainingArray, labels: npt.NDArray[np.int64]
) -> list[TrainingArray]:
    """The derivatives of the cross entropy by the values."""
    hidden = np.maximum(inputs @ values[0] + values[1], 0)
    scores = hidden @ values[2] + values[3]
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(labels)), labels] -= 1
    shares /= len(labels)
    back = (shares @ values[2].T) * (hidden > 0)
    return [inputs.T @ back, back.sum(axis=0), hidden.T @ shares, shares.sum(axis=0)]


def _integers(weights: TrainingArray, biases: TrainingArray, scale: int, inputs_scale: int) -> dict[str, object]:
    """A layer whose inputs are `inputs_scale` times as large as they were trained to be."""
    rounded = np.rint(biases * scale * inputs_scale).astype(np.int64)
    return {"weights": np.rint(weights * scale).astype(np.int64).tolist(), "biases": rounded.tolist()}


def network_file(
    digits: Digits, kernels: TrainingArray, depth: int, level: int, thresholds: TrainingArray
) -> dict[str, object]:
    """A kernel file: integer `kernels` in units of `2**-depth`, `thresholds` in the same units, and dense layers trained for them."""
    counts = counted(results(digits.pixels, kernels) > thresholds).reshape(len(digits.pixels), -1)
    seen = ~digits.held_out
    layers = dense_layers(counts[seen], digits.labels[seen], np.random.default_rng(SEED))
    unit = level / 2**depth
    return {
        "kernels": [[[f"{int(w)}/{1 << depth}" if depth else int(w) for w in row] for row in k] for k in kernels],
        "network": {
            "side": SIDE,
            "binarised_at": BINARISED_AT,
            "level": level,
            "thresholds": [float(t * unit) for t in thresholds],
            "regions": [list(region) for region in REGIONS],
            "layers": layers,
            "held_out": HELD_OUT,
        },
    }


def trained_networks(images: Array, labels: npt.NDArray[np.int64]) -> dict[str, str]:
    """The kernel files of both networks by name, for grey `images` [images, SIDE, SIDE] of which every `HELD_OUT`-th one, from the first
    on, is not seen."""
    pixels = (images >= BINARISED_AT).astype(np.float32)
    digits = Digits(pixels, labels, np.arange(len(images)) % HELD_OUT == 0)
    published = np.array(FILTERS["analognet2"].rows, dtype=np.float32)
    ternary, thresholds = chosen_kernels(digits, np.random.default_rng(SEED))
    halves = np.full(len(published), 0.5, dtype=np.float32)
    made = {
        "analognet2-digits": network_file(digits, published, 2, ANALOGNET_LEVEL, halves),
        "ternary8-digits": network_file(digits, ternary, 0, TERNARY_LEVEL, thresholds),
    }
    return {name: json.dumps(content, separators=(",", ":")) + "\n" for name, content in made.items()}


@click.command()
@click.option("--data", required=True, type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder; by default that of the bundled networks.",
)
def main(data: Path, output: Path | None) -> None:
    """Train both networks and write them."""
    made = trained_networks(*read_labelled_images(data, SIDE))
    folder = output or Path(__file__).parents[1] / "problems" / "reverse_split" / "networks"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        write_whole(folder / f"{name}.json", text)
        click.echo(f"{name}: {folder / name}.json")


if __name__ == "__main__":
    main()
