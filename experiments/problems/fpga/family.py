"""Fixed-point programs on FPGAs: the space fpga."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily, SpaceListing

OBJECTIVES = ("latency", "luts", "energy", "front")
"""Microseconds of an inference at the predicted clock, look-up tables, energy of an inference; the front is that of the first two."""


def _boards(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For a shell: those that are known by name; files where none begins so."""
    from kilotune.evaluators.fpga.boards import shipped_boards

    names = [board.name for board in shipped_boards() if board.name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


FAMILY = SpaceFamily(
    "Fixed-point programs on FPGAs (fpga)",
    (
        SpaceEntry(
            "fpga",
            "unroll factors, processing elements and multipliers of a program as hardware (SeeDot, PLDI 2019)",
            "cp",
            OBJECTIVES,
            drawing="kilotune.experiments.problems.fpga.figures.sections",
        ),
    ),
    (
        click.Option(
            ["--board"],
            metavar="FILE|NAME",
            shell_complete=_boards,
            help="The FPGA: one of `tune list boards`, or a JSON file that describes one  [default: ecp5-25f]",
        ),
        click.Option(
            ["--formats"],
            type=click.Choice(["seedot", "shiftry"]),
            help="Whose procedure decides widths and scales beforehand  [default: seedot]",
        ),
        click.Option(
            ["--joint/--no-joint"],
            default=None,
            help="Whether widths and scales (those of shiftry, with its 2 points of accuracy) are decided together with the hardware"
            "  [default: no]",
        ),
        click.Option(
            ["--narrow/--no-narrow"],
            default=None,
            help="With --joint: whether parameters may be stored in 1, 2, 3, 4 or 6 bits  [default: no]",
        ),
        click.Option(
            ["--place"],
            type=click.IntRange(0),
            metavar="N",
            help="How many candidates are tried by synthesis, place and route, which take minutes, until one fits the board"
            "  [default: 3 within the budget]",
        ),
    ),
    "kilotune.experiments.problems.fpga.problem",
    inputs="a model, as for seedot",
    metrics=(
        ("latency_us", "latency, us"),
        ("hardware_cycles", "cycles of the hardware"),
        ("clock_mhz", "clock, MHz"),
        ("luts", "LUTs"),
        ("flip_flops", "flip-flops"),
        ("block_rams", "block RAMs"),
        ("multipliers", "multipliers"),
        ("inference_nj", "energy an inference, nJ"),
    ),
    listings=(SpaceListing("boards", "kilotune.experiments.problems.fpga.listings:boards"),),
    model_files=("MODEL_FOLDER",),
    rank=15,
)
