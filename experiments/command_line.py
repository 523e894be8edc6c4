"""Options that several commands share, and the help text that groups those of the families."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kilotune.experiments.families.registry import FAMILIES, objective_help, offers

storage_option = click.option(
    "--storage", metavar="URL", help="Database of the studies: a file or a URL [default: the user's data folder]."
)
budget_option = click.option(
    "--budget", default="60s", show_default=True, metavar="BUDGET", help="2h, 90s, 500trials, or 2h,500trials."
)
problem_options = (
    click.option("--space", help=f"What to decide: {', '.join(o.space for o in offers())} (see `tune list spaces`)."),
    click.option(
        "--input",
        "input_",
        metavar="PATH|NAME",
        help="A model folder or a bundled model (`tune list models`); memory: or a CSV; reverse-split: JSON, or a filter; "
        "cm: ONNX, or a network.",
    ),
    click.option(
        "--device",
        metavar="NAME|FILE",
        help="A board (`tune list devices`), or a JSON file that describes one: its memory limits, and time as a metric.",
    ),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="WHAT=AMOUNT",
        help="flash=32KiB, ram=2048; with --device also latency=20ms, cycles=100000.",
    ),
    click.option("--objective", metavar="NAME", help=f"What is to be small: {objective_help()}."),
)
run_options = (
    click.option(
        "--jobs", type=click.IntRange(1), help="Worker processes, or Ray actors  [default: 1; all with --ray]."
    ),
    click.option(
        "--ray",
        metavar="[ADDRESS]",
        is_flag=False,
        flag_value="local",
        help="Evaluate on a Ray cluster: one of its own on this machine, `auto`, or HOST:PORT.",
    ),
    click.option(
        "--time-limit", metavar="TIME", help="How long one evaluation may take, e.g. 30s; what takes longer has failed."
    ),
    click.option("--no-cache", is_flag=True, help="Use no measurements of earlier studies (see `tune cache`)."),
    click.option("--output", type=click.Path(path_type=Path), help="Where the artefacts go [default: out/STUDY]."),
    click.option("--no-output", is_flag=True, help="Write no artefacts."),
    click.option("--json", "json_file", metavar="FILE", help="Write the result as JSON; - for stdout."),
    click.option("--quiet", is_flag=True, help="No progress, no summary."),
    click.option("--debug", is_flag=True, help="Show tracebacks."),
)


def with_problem_options(command: Any) -> Any:
    """What is to be decided: the options that `tune` and `tune compare` share."""
    for option in reversed(problem_options):
        command = option(command)
    return command


def with_run_options(command: Any) -> Any:
    """The options that `tune` and `tune resume` share."""
    for option in reversed(run_options):
        command = option(command)
    return command


class WithFamilies(click.Command):
    """A command with the options of every family, each under its own heading in the help text."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return [*params[:-1], *(option for family in FAMILIES for option in family.options), params[-1]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        special = {id(option) for family in FAMILIES for option in family.options}
        general = [param for param in self.get_params(ctx) if id(param) not in special]
        for title, params in (("Options", general), *((family.title, family.options) for family in FAMILIES)):
            records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
            with formatter.section(title):
                formatter.write_dl(records)


class TuneGroup(WithFamilies, click.Group):
    """The command itself, with its subcommands."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
