"""What `tune export --target` takes: the kinds of project folders, as the processor architectures and the emitter declare them."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from kilotune.search.suggestion import did_you_mean


class TargetName(click.ParamType[str]):
    """The name of a target. They are looked up when one is given, for the architectures behind them take a while to import."""

    name = "target"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        """The name itself; a usage error that lists the names for another one."""
        names = _targets()
        if value not in names:
            hint = did_you_mean(str(value), names)
            self.fail(f"{value!r} is not one of {', '.join(map(repr, names))}{hint}.", parameter, context)
        return str(value)

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin so."""
        return [CompletionItem(name, help=what) for name, what in _targets().items() if name.startswith(incomplete)]


class ExportCommand(click.Command):
    """A command whose help lists the targets."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the targets."""
        super().format_options(context, formatter)
        with formatter.section("Targets"):
            formatter.write_dl(list(_targets().items()))


def _targets() -> dict[str, str]:
    """What each target is, by name."""
    from kilotune.evaluators.architectures.registry import project_targets

    return {target.name: target.what for target in project_targets().values()}
