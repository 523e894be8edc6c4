"""Programs for SCAMP-5: the space reverse-split."""

from __future__ import annotations

import click

from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily, SpaceListing

OBJECTIVES = ("instructions", "transfers", "front")
"""Bus transfers are time and energy; the front is that of transfers and noise, with --error that of instructions and weights' errors."""

FAMILY = SpaceFamily(
    "Convolution programs for SCAMP-5 (reverse-split)",
    (
        SpaceEntry(
            "reverse-split",
            "which pair of partial sums to split next (AUKE, TACO 2018)",
            "exhaustive",
            OBJECTIVES,
            drawing="kilotune.experiments.problems.reverse_split.figures.sections",
        ),
    ),
    (
        click.Option(
            ["--target"],
            type=click.Choice(["auke", "scamp5"]),
            help="The chip's macros, or the instruction set that AUKE's paper counts  [default: scamp5]",
        ),
        click.Option(["--registers"], type=click.IntRange(1, 6), help="How many a program may use  [default: 6]"),
        click.Option(
            ["--depth"],
            type=click.IntRange(0, 24),
            help="Weights become multiples of 1/2^DEPTH  [default: exact where that is possible, else 4]",
        ),
        click.Option(
            ["--error"],
            type=click.FloatRange(0, 1, max_open=True),
            metavar="SHARE",
            help="Weights have as few signed digits as keep each kernel within that share of its size (0.05: the root of the sum of its"
            " squared errors is at most 5 % of that of its squared weights). With --objective front every error up to it: instructions"
            " against errors  [default: as near as --depth allows]",
        ),
        click.Option(
            ["--anywhere"],
            is_flag=True,
            default=None,
            help="The results may lie at any place, of all kernels the same, where nothing depends on it: the program says where"
            "  [default: where the kernels' centres are]",
        ),
        click.Option(
            ["--data", "data"],
            metavar="FILE",
            type=click.Path(),
            help="Grey images for a network, with labels: an .npz with images (or X) and labels (or y); then --limit accuracy=0.95 too",
        ),
    ),
    "kilotune.experiments.problems.reverse_split.problem",
    inputs="JSON, a filter of `tune list filters`, or analognet2-digits, ternary8-digits",
    metrics=(
        ("instructions", "instructions"),
        ("bus_transfers", "bus transfers"),
        ("registers", "registers"),
        ("weight_error_percent", "error of the weights, %"),
        ("rmse_grey_levels", "RMSE on photographs, grey levels"),
        ("ssim", "SSIM on photographs"),
        ("accuracy", "accuracy"),
        ("frame_instructions", "instructions of a frame"),
        ("frame_us", "us a frame with read-out"),
        ("frame_energy_uj", "uJ a frame with read-out"),
    ),
    listings=(SpaceListing("filters", "kilotune.experiments.problems.reverse_split.filters:listed"),),
    model_files=(),
    own_format="kilotune.codegen.scamp.kernel_files:kernel_format",
    rank=30,
)
