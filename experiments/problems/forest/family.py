"""Programs of decision trees: the space forest."""

from __future__ import annotations

import click

from kilotune.codegen.emit.levels import LEVELS
from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily, SpaceListing
from kilotune.experiments.problems.sample_options import data_option, label_option

OBJECTIVES = ("flash", "latency")
"""What is to be small; the other one breaks ties."""

FAMILY = SpaceFamily(
    "Programs of decision trees (forest)",
    (
        SpaceEntry(
            "forest",
            "integers of features and leaves, and which comparisons of each tree are code",
            "refine",
            OBJECTIVES,
            procedure="first plan",
        ),
    ),
    (
        data_option(of="the trees", its="the trees'"),
        label_option(),
        click.Option(["--level"], type=click.Choice(LEVELS), help="-O level of the device's compiler  [default: Os]"),
    ),
    "kilotune.experiments.problems.forest.problem",
    inputs="an ONNX file of a tree ensemble (of scikit-learn by skl2onnx) with --data, or a bundled forest of `tune list forests`",
    metrics=(
        ("flash_bytes", "flash bytes"),
        ("ram_bytes", "RAM bytes"),
        ("cycles", "cycles, predicted"),
        ("latency_ms", "ms an inference, predicted"),
        ("accuracy_percent", "train accuracy %"),
        ("test_accuracy_percent", "test accuracy %"),
        ("disagreements", "disagreements"),
        ("test_disagreements", "test disagreements"),
        ("undecided", "samples that rounding might move"),
        ("mean_absolute_error", "mean absolute error"),
        ("largest_error", "largest error"),
    ),
    listings=(SpaceListing("forests", "kilotune.experiments.problems.forest.listings:forests"),),
    model_files=("ONNX",),
    rank=15,
)
