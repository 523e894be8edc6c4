"""`tune report`: a study or a comparison as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from kilotune.experiments.command_line import storage_option


@click.command("report")
@click.argument("name", metavar="STUDY|COMPARISON")
@click.option("--output", type=click.Path(path_type=Path), help="The file to write  [default: out/NAME.html]")
@storage_option
def report_command(name: str, output: Path | None, storage: str | None) -> None:
    """Write one HTML file that opens offline: what was asked, what was found, and how the search went."""
    raise NotImplementedError
