"""Programs for SCAMP-5: the space reverse-split."""

from __future__ import annotations

import click

from kilotune.experiments.families.family import Family, Offer

REVERSE_SPLIT = Family(
    "Convolution programs for SCAMP-5 (reverse-split)",
    (Offer("reverse-split", "which pair of partial sums to split next (AUKE, TACO 2018)", "exhaustive"),),
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
            ["--objective"],
            type=click.Choice(["instructions", "transfers", "front"]),
            help="What is to be least: instructions; bus transfers (time and energy); or the front of transfers and noise"
            "  [default: instructions]",
        ),
    ),
    "kilotune.experiments.reverse_split_problem",
)
