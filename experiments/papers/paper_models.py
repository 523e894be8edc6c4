"""The models of SeeDot's and Shiftry's evaluations (FastGRNN, ProtoNN, Bonsai, LeNets) trained on data sets of a folder, as bundles.

    python -m kilotune.experiments.papers.paper_models DATA FOLDER [--kinds fastgrnn protonn bonsai] [--sets NAME ...]

Every .npz of DATA is a data set, named like the file. It has X, windows [samples, steps, channels] or rows [samples, features], and y,
labels from 0 on, with what marks test samples as `models.train.sequence_models` reads it; without a mark three tenths are tested, drawn
with seed 0. Bytes (images of pixels) become [-1, 1], other features are standardised channel by channel, 4 deviations becoming 1.
MOST_TRAIN samples are trained on and MOST_TEST are tested, drawn with seed 0 as well. A row of 784 pixels is read by FastGRNN as 28 steps
of 28; rows of features that are no series get no FastGRNN. The kinds lenet-50k and lenet-105k, of rows of 784 pixels only, are made when
they are asked for.
Needs torch (`pip install 'kilotune[train]'`), but for FastGRNN.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.experiments.models.train.bundle import TrainedModel, parameter_count, write_bundle
from kilotune.experiments.models.train.sequence_models import DEVIATIONS, Windows, read_windows
from kilotune.experiments.models.train.sequence_models import trained as trained_fastgrnn

KINDS = ("fastgrnn", "protonn", "bonsai")
LENETS = ("lenet-50k", "lenet-105k")
MOST_TRAIN, MOST_TEST = 3000, 1000
IMAGE_PIXELS, IMAGE_STEPS = 784, 28
HIDDEN, FASTGRNN_EPOCHS = 16, 40
EPOCHS, NOISE = 60, 0.1
KEPT_WEIGHTS = 6400
"""A sparse projection keeps half of its weights, and no more than so many: the Uno has 32 KB."""

MEDIAN_EXPONENT = 1.5
"""gamma squared times the median squared distance of a projected sample to a prototype, before training; the power of two that is
nearest to it is taken, as the bundled ProtoNN has one."""


def read_parts(path: Path) -> tuple[Windows, Windows]:
    """Training and test samples, scaled to [-1, 1]; rows are windows of one step. KeyError for a file without X and y."""
    with np.load(path, allow_pickle=False) as file:
        rows = "X" in file and file["X"].ndim == 2
        values, labels = (file["X"], file["y"]) if rows else (np.empty(0), np.empty(0))
    train, test = _split_rows(values, labels) if rows else read_windows(path)
    return _some(train, MOST_TRAIN), _some(test, MOST_TEST)


def _split_rows(values: FloatArray, labels: FloatArray) -> tuple[Windows, Windows]:
    order = np.random.default_rng(0).permutation(len(values))
    parts = order[3 * len(order) // 10 :], order[: 3 * len(order) // 10]
    if values.dtype == np.uint8:
        scaled = values / 127.5 - 1.0
    else:
        mean, deviation = values[parts[0]].mean(axis=0), values[parts[0]].std(axis=0)
        scaled = np.clip((values - mean) / np.maximum(deviation, 1e-8) / DEVIATIONS, -1.0, 1.0)
    train, test = (
        Windows(scaled[part][:, None, :].astype(np.float64), labels[part].astype(np.int64)) for part in parts
    )
    return train, test


def _some(part: Windows, most: int) -> Windows:
    chosen = np.random.default_rng(0).permutation(len(part.labels))[:most]
    return Windows(part.values[chosen], part.labels[chosen])


def in_steps(part: Windows) -> Windows | None:
    """Samples as FastGRNN reads them; None for rows of features that are no series."""
    count, steps, channels = part.values.shape
    if steps > 1:
        return part
    if channels != IMAGE_PIXELS:
        return None
    return Windows(part.values.reshape(count, IMAGE_STEPS, -1), part.labels)


def as_rows(part: Windows) -> FloatArray:
    """Labels in column 0, then the features [samples, 1 + features]."""
    return np.column_stack([part.labels, part.values.reshape(len(part.labels), -1)]).astype(np.float32)


def made(kind: str, name: str, parts: tuple[Windows, Windows]) -> TrainedModel | None:
    """The trained model of a kind; None where the kind does not fit the data."""
    if kind == "fastgrnn":
        train, test = (in_steps(part) for part in parts)
        return None if train is None or test is None else trained_fastgrnn(name, (train, test), HIDDEN, FASTGRNN_EPOCHS)
    if kind in LENETS and parts[0].values.shape[1:] != (1, IMAGE_PIXELS):
        return None
    return _of_torch(kind, name, parts)


def _of_torch(kind: str, name: str, parts: tuple[Windows, Windows]) -> TrainedModel:
    from kilotune.experiments.models.train import bonsai, protonn
    from kilotune.experiments.models.train.fitting import TrainingSettings, accuracy_line, fit, to_arrays, to_tensors

    train, test = (as_rows(part) for part in parts)
    if kind in LENETS:
        from kilotune.experiments.papers.paper_lenets import trained_lenet

        return trained_lenet(kind, name, train, test)
    features, classes = train.shape[1] - 1, int(train[:, 0].max()) + 1
    kept = min(0.5, KEPT_WEIGHTS / (features * bonsai.PROJECTION))
    if kind == "bonsai":
        recipe = TrainingSettings(EPOCHS, noise=NOISE, bound=1.95, keep={"Z": kept})
        fitted = fit(bonsai.start(features, classes, recipe.seed), bonsai.scores, train, recipe)
        shipped, scored = to_arrays(fitted), bonsai.scores
        program = bonsai.program_text(features, classes, shipped)
    else:
        recipe = TrainingSettings(EPOCHS, noise=NOISE, keep={"W": kept})
        shape = protonn.ProtoNNShape(features, classes)
        begin = protonn.start(shape, *to_tensors(train), recipe.seed)
        projected = to_tensors(train)[0] @ begin["W"].T
        distances = (projected[:, None, :] - begin["B"]).square().sum(dim=2)
        gamma = 2.0 ** round(float(np.log2(MEDIAN_EXPONENT / distances.median().item())))
        shape = protonn.ProtoNNShape(features, classes, gamma_squared=gamma)
        scored = partial(protonn.scores, gamma)
        fitted = fit(begin, scored, train, recipe)
        shipped = protonn.shipped_arrays(fitted)
        program = protonn.program_text(shape, shipped)
    readme = f"{kind} on {name}: {parameter_count(shipped)}. {accuracy_line(fitted, scored, train, test)}\n"
    return TrainedModel(name, program, shipped, readme, train, test)


def written(data: Path, folder: Path, kinds: list[str], sets: list[str]) -> Iterator[Path]:
    """The folders of the bundles, each trained and written when it is asked for, `KIND-SET`."""
    for file in sorted(data.glob("*.npz")):
        if sets and file.stem not in sets:
            continue
        parts = read_parts(file)
        for kind in kinds:
            model = made(kind, file.stem, parts)
            if model is not None:
                write_bundle(model, folder / f"{kind}-{file.stem}")
                print(f"{kind}-{file.stem}: {model.readme.strip()}", flush=True)
                yield folder / f"{kind}-{file.stem}"


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kinds", nargs="+", choices=(*KINDS, *LENETS), default=list(KINDS))
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME")
    options = parser.parse_args()
    if set(options.kinds) != {"fastgrnn"} and find_spec("torch") is None:
        parser.error(
            "only FastGRNN is trained without torch (pip install 'kilotune[train]'): expected --kinds fastgrnn."
        )
    for _ in written(options.data, options.folder, options.kinds, options.sets):
        pass


if __name__ == "__main__":
    main()
