"""Networks on computational memory: the space cm."""

from __future__ import annotations

import click

from kilotune.experiments.problems.family import Family, Offer

CM = Family(
    "Networks on computational memory (cm)",
    (
        Offer(
            "cm",
            "core, routes, buffers and replicas of every layer of a network (cmnnc, 2020)",
            "anneal",
            drawing="kilotune.experiments.problems.cm.figures.sections",
        ),
    ),
    (
        click.Option(
            ["--hardware"],
            metavar="FILE|NAME",
            help="The accelerator: a JSON file, or a shipped one  [default: mesh-8x8]",
        ),
        click.Option(
            ["--image", "image_shape"],
            metavar="CxHxW",
            help="Shape of an image instead of the ONNX file's, e.g. 3x64x64",
        ),
        click.Option(
            ["--strict", "strict"],
            is_flag=True,
            default=None,
            help="Only placements that put connected layers on linked cores (the paper's problem)",
        ),
    ),
    "kilotune.experiments.problems.cm.problem",
)
