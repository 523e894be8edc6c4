"""What `tune list` takes: names, and options, which are those of the listings that the families of spaces bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kilotune.experiments.commands import completion
from kilotune.experiments.problems.family import SpaceListing
from kilotune.experiments.problems.registry import listings

GENERAL = ("spaces", "strategies", "devices", "studies", "comparisons")
"""What can be listed whatever the space."""


def listed_names() -> tuple[str, ...]:
    """What `tune list` takes."""
    return (*GENERAL, *(listing.name for listing in listings()))


def with_listing_options(command: Any) -> Any:
    """--input and --study, where a listing takes them, and what listings have of their own."""
    for option in reversed([option for listing in listings() for option in listing.options]):
        command.__click_params__ = [*getattr(command, "__click_params__", []), option]
    names = ", ".join(listing.name for listing in listings() if listing.takes_input)
    study = click.option(
        "--study",
        metavar="NAME",
        shell_complete=completion.studies,
        help=f"{names}: those of the study's best candidate.",
    )
    given = click.option(
        "--input",
        "input_",
        metavar="PATH|NAME",
        shell_complete=completion.inputs,
        help=f"{names}: the model folder, or a bundled model.",
    )
    return given(study(command)) if names else command


def given_to_listing(what: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, by parameter name. click.UsageError for one that does not go with `what`."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    taken = next((_taken(listing) for listing in listings() if listing.name == what), {})
    for name in given.keys() - taken.keys():
        others = [listing for listing in listings() if name in _taken(listing)]
        words = list(dict.fromkeys(option for listing in others for option in _taken(listing).values()))
        places = " and ".join(f"`tune list {listing.name}`" for listing in others)
        raise click.UsageError(f"{', '.join(words[:-1])} and {words[-1]} go with {places} only.")
    return given


def _taken(listing: SpaceListing) -> dict[str, str]:
    """Its options as they are written, by parameter name."""
    shared = {"input_": "--input", "study": "--study"} if listing.takes_input else {}
    return {**shared, **{str(option.name): option.opts[0] for option in listing.options}}
