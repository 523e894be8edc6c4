"""The command line: trains the named models (all without a name) and writes their bundles."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

from kilotune.experiments.models.train import bonsai, cancer, diabetes, fastgrnn, lenet, protonn, worked_example
from kilotune.experiments.models.train.bundle import TrainedModel, write_bundle

TRAINERS: dict[str, Callable[[], TrainedModel]] = {
    "protonn-digits": protonn.train,
    "bonsai-digits": bonsai.train,
    "fastgrnn16-digits": functools.partial(fastgrnn.train, 16),
    "fastgrnn32-digits": functools.partial(fastgrnn.train, 32),
    "lenet-digits": lenet.train,
    "protonn-cancer": cancer.train,
    "mlp-diabetes": diabetes.train,
    "worked-example": worked_example.train,
}


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(prog="kilotune.experiments.models.train", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TRAINERS))
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent, help="folder of the bundles")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(TRAINERS))
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(TRAINERS)}")
    for name in options.names or TRAINERS:
        bundle = TRAINERS[name]()
        write_bundle(bundle, options.output / name)
        print(f"{name}: {bundle.readme.splitlines()[-1]}")


if __name__ == "__main__":
    main()
