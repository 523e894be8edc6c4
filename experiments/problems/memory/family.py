"""Placement of buffers: the space memory."""

from __future__ import annotations

from types import MappingProxyType

import click

from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily

PRICED = MappingProxyType({"banks": "cp", "migration_price": "cp"})
"""With banks or moves another strategy is the best."""

FAMILY = SpaceFamily(
    "Placement of buffers (memory)",
    (
        SpaceEntry(
            "memory",
            "the address of every buffer in RAM (Shiftry, Section 7)",
            "exhaustive",
            instead=PRICED,
            drawing="kilotune.experiments.problems.memory.figures.sections",
        ),
    ),
    (
        click.Option(
            ["--capacity"],
            metavar="SIZE",
            help="Is there a placement within SIZE, e.g. 64KiB?  [default: the RAM of --device or --limit, if given]",
        ),
        click.Option(
            ["--bank", "banks"],
            multiple=True,
            metavar="NAME[=SIZE][:PRICE][:read-only]",
            help="A memory bank: its capacity, what a byte in it costs in bytes of peak; read-only: constants only",
        ),
        click.Option(
            ["--migration-price"], metavar="P", help="Buffers may move, and a moved byte costs P bytes of peak"
        ),
        click.Option(
            ["--moves", "most_moves"],
            type=click.IntRange(0),
            metavar="N",
            help="How often one buffer may move  [default: any]",
        ),
        click.Option(
            ["--alignment"],
            type=click.IntRange(1, 1 << 20),
            metavar="BYTES",
            help="Every address is a multiple of it  [default: 16 for TFLite files, else what the input says]",
        ),
        click.Option(
            ["--inclusive"],
            is_flag=True,
            default=None,
            help="Column upper of a CSV is the last point of a life, as IREE writes it, not the first one after",
        ),
        click.Option(
            ["--order"],
            type=click.Choice(["file", "search"]),
            help="Whether the operators of a TFLite or ONNX file run in its order, or in one that is searched too  [default: file]",
        ),
        click.Option(
            ["--heap"],
            type=click.IntRange(0),
            metavar="N",
            help="Which of XLA's heap simulator traces, from 0, where there are several",
        ),
    ),
    "kilotune.experiments.problems.memory.problem",
    inputs="a CSV, a TFLite or ONNX file, XLA's heap traces, idealloc's .plc, a model, or a bundled instance",
    metrics=(
        ("peak_bytes", "peak bytes"),
        ("gap_percent", "% above the largest live sum"),
        ("cost", "cost in bytes of peak"),
        ("bytes_migrated", "bytes migrated"),
        ("*_peak_bytes", "* peak bytes"),
    ),
    model_files=("TFLITE", "ONNX", "MODEL_FOLDER"),
    own_format="kilotune.spaces.memory.file_formats:placement_format",
    rank=20,
)
