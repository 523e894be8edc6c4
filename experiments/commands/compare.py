"""`tune compare`: strategies under one budget, seed by seed."""

from __future__ import annotations

import click

from kilotune.experiments.command_line import storage_option


@click.command("compare")
@storage_option
def compare_command(storage: str | None) -> None:
    """Compare strategies on a space: same start, same budget, paired seeds."""
    raise NotImplementedError
