"""A family: spaces that take the same input and the same options."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import click

if TYPE_CHECKING:
    from kilotune.experiments.problems.problem import Problem
    from kilotune.experiments.studies.request import TuneRequest


@dataclass(frozen=True)
class Offer:
    """One space as `tune list spaces` shows it. `best_strategy` runs without --strategy: what our own comparisons favour.
    `instead`: the best strategy by an option that changes it. `objectives` are the names that --objective takes, the
    default first. `drawing`: the module that draws the space's own figures."""

    space: str
    decides: str
    best_strategy: str
    objectives: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    drawing: str | None = None

    def strategy(self, given: Mapping[str, Any]) -> str:
        """What runs without --strategy when these options are given."""
        return next((best for option, best in self.instead.items() if option in given), self.best_strategy)


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


@dataclass(frozen=True)
class Asked:
    """What the command line says. `given`: the family's options by parameter name, only those that were given; `limits` on
    metrics by name, a device's memory among them, and `stated` those of them that --limit names; `device` as
    `evaluators.devices.Device.as_json` writes it."""

    given: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    objective: str | None = None
    device: Mapping[str, Any] | None = None
    stated: frozenset[str] = frozenset()


@runtime_checkable
class NamesInputs(Protocol):
    """Ability of a front door: something is bundled."""

    def input_names(self) -> tuple[str, ...]:
        """What --input takes besides files, as `resolve_input` knows it."""


class FrontDoor(Protocol):
    """What the module of a family defines, as functions."""

    def resolve_input(self, text: str | None) -> Path | str:
        """A path, or what is bundled under that name; None: the default. InputError when it is neither. A text stands for
        itself (a space of a plug-in)."""

    def read_options(self, space: str, asked: Asked) -> dict[str, Any]:
        """`TuneRequest.options`. ValueError, a sentence, for something that cannot be used."""

    def build_problem(self, request: TuneRequest) -> Problem:
        """Load the input and make the space. InputError for an input that cannot be used, ValueError for options that
        do not go with it."""
