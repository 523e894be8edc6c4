"""The command line: trains the named models (all without a name) and writes their bundles."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

from kilotune.experiments.models.train import (
    bonsai,
    cancer,
    convolution_1d,
    diabetes,
    fastgrnn,
    forest,
    gru,
    lenet,
    mlp,
    protonn,
    worked_example,
)
from kilotune.experiments.models.train.bundle import TrainedModel, write_bundle
from kilotune.experiments.models.train.forest import write_forest

TRAINERS: dict[str, Callable[[], TrainedModel]] = {
    "protonn-digits": protonn.train,
    "bonsai-digits": bonsai.train,
    "fastgrnn16-digits": functools.partial(fastgrnn.train, 16),
    "fastgrnn32-digits": functools.partial(fastgrnn.train, 32),
    "lenet-digits": lenet.train,
    "lenet-mnist": lenet.train_on_mnist,
    "mlp-digits": mlp.train,
    "gru16-digits": gru.train,
    "gru16-activities": gru.train_on_activities,
    "gru16-spoken": gru.train_on_spoken_digits,
    "gru16-vowels": gru.train_on_vowels,
    "cnn-exercises": convolution_1d.train,
    "protonn-cancer": cancer.train,
    "mlp-diabetes": diabetes.train,
    "worked-example": worked_example.train,
}
FOREST = "forest-digits"
NAMES = (*TRAINERS, FOREST)


def train_into(name: str, folder: Path) -> str:
    """Train a model, write its folder, and return its README."""
    if name == FOREST:
        trees = forest.train()
        write_forest(trees, folder)
        return trees.readme
    bundle = TRAINERS[name]()
    write_bundle(bundle, folder)
    return bundle.readme


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(prog="kilotune.experiments.models.train", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent, help="folder of the bundles")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(NAMES)}")
    for name in options.names or NAMES:
        readme = train_into(name, options.output / name)
        print(f"{name}: {readme.splitlines()[-1]}")


if __name__ == "__main__":
    main()
