"""Options that several commands share, and the help text that groups those of the families."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kilotune.codegen.emit.levels import LEVELS
from kilotune.codegen.emit.shape import SHAPES
from kilotune.experiments.commands import completion
from kilotune.experiments.commands.near_choice import NearChoice
from kilotune.experiments.problems.family import SpaceFamily
from kilotune.experiments.problems.plugins import plug_ins
from kilotune.experiments.problems.registry import FAMILIES, entries, families_of, input_help, objective_help
from kilotune.spaces.objectives import limit_examples

storage_option = click.option(
    "--storage",
    metavar="URL",
    is_eager=True,  # which studies there are depends on it
    shell_complete=completion.storages,
    help="Database of the studies: a file or a URL [default: the user's data folder].",
)
level_option = click.option("--level", type=NearChoice(LEVELS), help="-O level on the device [default: the study's].")
shape_option = click.option(
    "--shape", type=NearChoice(tuple(SHAPES)), help="How inner loops are written [default: the study's]."
)
point_option = click.option(
    "--point",
    type=click.IntRange(1),
    help="Number of a point of the front, as in the summary and the JSON from 1  [default: the best].",
)
budget_option = click.option(
    "--budget", default="60s", show_default=True, metavar="BUDGET", help="2h, 90s, 500trials, or 2h,500trials."
)
problem_options = (
    click.option(
        "--space",
        shell_complete=completion.spaces,
        help=f"What to decide: {', '.join(o.space for o in entries())} (see `tune list spaces`).",
    ),
    click.option(
        "--input",
        "input_",
        metavar="PATH|NAME",
        shell_complete=completion.inputs,
        help=f"What it is decided for: {input_help()}.",
    ),
    click.option(
        "--device",
        metavar="NAME|FILE",
        shell_complete=completion.devices,
        help="A board (`tune list devices`), or a JSON file that describes one: its memory limits, and time as a metric.",
    ),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="WHAT=AMOUNT",
        help=f"{limit_examples()}.",
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
    click.option(
        "--stop",
        metavar="RULE",
        help="When to end before the budget does. settled: the first objective is proved, and nothing better was found for a "
        "quarter of the budget; proved: at once when it is; stalled[=30s|=500trials]: nothing better for so long (or a quarter "
        "of the budget), proved or not; never  [default: settled].",
    ),
    click.option(
        "--no-cache",
        is_flag=True,
        help="Measure every candidate anew, with nothing that earlier searches measured or worked out. What is known of an input before"
        " a search (code sizes for linked=, widths for --drop of cm) is kept as ever; see `tune cache`.",
    ),
    click.option("--output", type=click.Path(path_type=Path), help="Where the artefacts go [default: out/STUDY]."),
    click.option("--no-output", is_flag=True, help="Write no artefacts."),
    click.option("--json", "json_file", metavar="FILE", help="Write the result as JSON; - for stdout."),
    click.option("--quiet", is_flag=True, help="No progress, no summary."),
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


FAMILIES_KEY = "kilotune.families"
"""In a context's `meta`: whose options the command takes."""

OWN_FAMILY_KEY = "kilotune.own_family"
"""In a context's `meta`: the family of the space that is named."""


class WithFamilies(click.Command):
    """A command with the options of every family, each under its own heading in the help text. A plug-in is loaded only
    when --space names it; then its options are there too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        space = _space_in(args)
        families = _families_to_complete(space) if ctx.resilient_parsing else families_of(space)
        ctx.meta[FAMILIES_KEY] = FAMILIES
        for family in families[len(FAMILIES) :]:
            _refuse_taken(family, str(space), self.get_params(ctx))
        ctx.meta[FAMILIES_KEY] = families
        own = (family for family in families if any(entry.space == space for entry in family.entries))
        ctx.meta[OWN_FAMILY_KEY] = next(own, None)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        families, own = list(reversed(_families(ctx))), ctx.meta.get(OWN_FAMILY_KEY)
        families.sort(key=lambda family: family is own)  # its options come before those of one name
        special = {option.name: option for family in families for option in family.options}
        return [*params[:-1], *reversed(special.values()), params[-1]]  # two families may have an option of one name

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        special = {id(option) for family in _families(ctx) for option in family.options}
        general = [param for param in self.get_params(ctx) if id(param) not in special]
        for title, params in (("Options", general), *((family.title, family.options) for family in _families(ctx))):
            records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        _format_plug_ins(formatter)


class TuneGroup(WithFamilies, click.Group):
    """The command itself, with its subcommands. All of them take --debug, which `cli.main` looks for."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.params.append(_debug_option())

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.params.append(_debug_option())
        super().add_command(cmd, name)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def refuse_options_before_command(ctx: click.Context) -> None:
    """Options before a subcommand are those of a search, which is not run: nothing would read them. --debug is every command's."""
    for option in ctx.command.params:
        if option.expose_value and ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
            command = ctx.invoked_subcommand
            raise click.UsageError(
                f"{option.opts[0]} before {command} is not read: expected it behind {command}, if `tune {command} --help` has it."
            )


def _families_to_complete(space: str | None) -> tuple[SpaceFamily, ...]:
    """For a shell, which has no use for what is wrong with a plug-in."""
    try:
        return families_of(space)
    except ValueError:
        return FAMILIES


def _debug_option() -> click.Option:
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Show tracebacks.")


def _families(ctx: click.Context) -> tuple[SpaceFamily, ...]:
    families: tuple[SpaceFamily, ...] = ctx.meta.get(FAMILIES_KEY, FAMILIES)
    return families


def _space_in(args: Sequence[str]) -> str | None:
    """What --space says, before anything else is read."""
    found = None
    for position, text in enumerate(args):
        if text == "--space" and position + 1 < len(args):
            found = args[position + 1]
        elif text.startswith("--space="):
            found = text.removeprefix("--space=")
    return found


def _refuse_taken(family: SpaceFamily, space: str, params: Sequence[click.Parameter]) -> None:
    """ValueError when an option of a plug-in's family is there already."""
    taken = {name for param in params for name in (param.name, *param.opts, *param.secondary_opts)}
    for option in family.options:
        for name in (*option.opts, *option.secondary_opts, option.name):
            if name in taken:
                raise ValueError(
                    f"The plug-in for the space {space!r} brings an option {name}, which tune has already."
                )


def _format_plug_ins(formatter: click.HelpFormatter) -> None:
    """The spaces of other packages, by name: none is loaded for a help text."""
    records = [(plug_in.name, plug_in.package) for plug_in in plug_ins()]
    if records:
        with formatter.section("Spaces of other packages (--space)"):
            formatter.write_dl(records)
