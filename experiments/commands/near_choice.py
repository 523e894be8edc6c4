"""One of a few names: a mistyped one is told which it was near."""

from __future__ import annotations

from typing import Any

import click

from kilotune.search.suggestion import did_you_mean


class NearChoice(click.Choice[str]):
    """`click.Choice` whose message for another name ends with the nearest one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """One sentence: the value, the nearest name, and all that there are."""
        names = ", ".join(map(repr, self.choices))
        return f"{value!r} is not one of {names}{did_you_mean(str(value), self.choices)}."
