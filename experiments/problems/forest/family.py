"""Programs of decision trees: the space forest."""

from __future__ import annotations

import click

from kilotune.codegen.emit.levels import LEVELS
from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily

OBJECTIVES = ("flash", "latency")
"""What is to be small; the other one breaks ties."""

FAMILY = SpaceFamily(
    "Programs of decision trees (forest)",
    (
        SpaceEntry(
            "forest", "integers of features and leaves, and which levels of each tree are code", "refine", OBJECTIVES
        ),
    ),
    (
        click.Option(
            ["--data", "data"],
            metavar="FILE",
            type=click.Path(),
            help="Samples for the trees: an .npz with X and y (test data as Xt and yt), or a table (.npy, .csv) with the class or value in"
            " column 0; without labels the trees' own outputs are the target",
        ),
        click.Option(
            ["--label", "label"],
            metavar="COLUMN|NAME",
            help="With --data: which column (from 0, or by its name) or array is the class or value; none: all are features",
        ),
        click.Option(["--level"], type=click.Choice(LEVELS), help="-O level of the device's compiler  [default: Os]"),
    ),
    "kilotune.experiments.problems.forest.problem",
    inputs="an ONNX file of a tree ensemble (of scikit-learn by skl2onnx) with --data",
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
    model_files=("ONNX",),
    rank=15,
)
