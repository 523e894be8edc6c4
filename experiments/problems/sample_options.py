"""Options of the samples that come with a model of another tool, for every family that reads such a model."""

from __future__ import annotations

import click


def data_option(of: str, its: str) -> click.Option:
    """`--data FILE`: samples for `of`; without labels `its` own outputs are the target."""
    return click.Option(
        ["--data", "data"],
        metavar="FILE",
        type=click.Path(),
        help=f"Samples for {of}: an .npz with X and y (test data as Xt and yt), or a table (.npy, .csv) with the class or value in"
        f" column 0; without labels {its} own outputs are the target",
    )


def label_option() -> click.Option:
    """`--label COLUMN|NAME`: which of the columns, or arrays, is the label."""
    return click.Option(
        ["--label", "label"],
        metavar="COLUMN|NAME",
        help="With --data: which column (from 0, or by its name) or array is the class or value; none: all are features",
    )
