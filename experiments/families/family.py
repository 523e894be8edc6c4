"""A family: spaces that take the same input and the same options."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import click

if TYPE_CHECKING:
    from kilotune.experiments.problem import Problem
    from kilotune.experiments.request import TuneRequest


@dataclass(frozen=True)
class Offer:
    """One space as `tune list spaces` shows it. `best_strategy` runs without --strategy: what our own comparisons favour."""

    space: str
    decides: str
    best_strategy: str


@dataclass(frozen=True)
class Family:
    """`options` are of the command line, with None (or an empty tuple) where one is not given: what is left out is
    decided by the front door. `module` is the front door; it is imported when a command needs it."""

    title: str
    offers: tuple[Offer, ...]
    options: tuple[click.Option, ...]
    module: str

    @property
    def front_door(self) -> FrontDoor:
        """The module itself."""
        return cast(FrontDoor, importlib.import_module(self.module))


class FrontDoor(Protocol):
    """What the module of a family defines, as functions."""

    def resolve_input(self, text: str | None) -> Path:
        """A path, or what is bundled under that name; None: the default. InputError when it is neither."""

    def read_options(self, space: str, given: Mapping[str, Any], limits: Mapping[str, float]) -> dict[str, Any]:
        """The given options of the family, by parameter name, and the limits on metrics, as `TuneRequest.options`.
        ValueError, a sentence, for one that cannot be used."""

    def build_problem(self, request: TuneRequest) -> Problem:
        """Load the input and make the space. InputError for an input that cannot be used, ValueError for options that
        do not go with it."""
