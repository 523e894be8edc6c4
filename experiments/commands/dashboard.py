"""`tune dashboard`: running studies in the browser."""

from __future__ import annotations

import click

from kilotune.experiments.command_line import storage_option


@click.command("dashboard")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free one.")
@storage_option
def dashboard_command(host: str, port: int, storage: str | None) -> None:
    """Show studies in the browser while they run, on this machine only unless --host says otherwise."""
    raise NotImplementedError
