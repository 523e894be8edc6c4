"""Placement of buffers: the space memory."""

from __future__ import annotations

import click

from kilotune.experiments.families.family import Family, Offer

MEMORY = Family(
    "Placement of buffers (memory)",
    (Offer("memory", "the address of every buffer in RAM (Shiftry, Section 7)", "exhaustive"),),
    (
        click.Option(
            ["--capacity"],
            metavar="SIZE",
            help="Is there a placement within SIZE, e.g. 64KiB?  [default: the RAM of --device or --limit, if given]",
        ),
    ),
    "kilotune.experiments.memory_problem",
)
