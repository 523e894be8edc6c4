"""A family: spaces that take the same input and the same options. A folder of `problems/` has one, in its `family.py`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import click

if TYPE_CHECKING:
    from kilotune.experiments.problems.problem import Problem
    from kilotune.experiments.requests.request import TuneRequest
    from kilotune.search.space import Trial

ListedRows = list[dict[str, Any]]
"""The rows of a table: the keys are the columns."""


@dataclass(frozen=True)
class SpaceEntry:
    """One space as `tune list spaces` shows it. `best_strategy` runs without --strategy: what our own comparisons favour.
    `instead`: the best strategy by an option that changes it. `objectives` are the names that --objective takes, the
    default first. `drawing`: the module that draws the space's own figures (see `problems.drawing.Drawing`). `procedure`: what the space's
    heuristic is called where it stands beside the best found."""

    space: str
    decides: str
    best_strategy: str
    objectives: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    drawing: str | None = None
    procedure: str = "paper's procedure"

    def strategy(self, given: Mapping[str, Any]) -> str:
        """What runs without --strategy when these options are given."""
        return next((best for option, best in self.instead.items() if option in given), self.best_strategy)


@dataclass(frozen=True)
class SpaceListing:
    """What `tune list NAME` shows. `rows` and `text` are functions, as `module:function`: `rows` takes a `ListingRequest`,
    `text` writes its rows where a table is not the form for them. `takes_input`: --input and --study go with it."""

    name: str
    rows: str
    text: str | None = None
    takes_input: bool = False
    options: tuple[click.Option, ...] = ()


@dataclass(frozen=True)
class ListingRequest:
    """What was asked of a listing. `given`: the options that were given, by parameter name; `best_of`: the problem of a
    stored study, and its best trial, None where there is none."""

    given: Mapping[str, Any]
    best_of: Callable[[str], tuple[Problem, Trial | None]]


@dataclass(frozen=True)
class SpaceFamily:
    """`options` are of the command line, with None (or an empty tuple) where one is not given: what is left out is
    decided by the factory. `module` is the factory; it is imported when a command needs it.

    `inputs` says what --input takes, for its help text. `metrics` are the metrics in words, in the order in which they are
    shown; a `*` stands for any text (`*_peak_bytes`, `* peak bytes`). Without them every metric is shown by its name.
    `model_files`: the kinds of models that its spaces read (names of `codegen.file_kinds.FileKind`); one of another kind, or an input
    that only another family reads, is refused under its name, None: whatever is given is the factory's to judge. `rank`: where the family
    stands among the others, in help texts and lists; equal ones by title. `own_format`: a function, as `module:function`, of what --input
    says, which returns what an input is called that only this family's spaces read ("a CSV of buffers"), and None for others; it is asked
    where another space is given something that is no such model.
    """

    title: str
    entries: tuple[SpaceEntry, ...]
    options: tuple[click.Option, ...]
    module: str
    inputs: str = ""
    metrics: tuple[tuple[str, str], ...] = ()
    listings: tuple[SpaceListing, ...] = ()
    model_files: tuple[str, ...] | None = None
    rank: int = 100
    own_format: str | None = None

    @property
    def factory(self) -> ProblemFactory:
        """The module itself."""
        return cast(ProblemFactory, importlib.import_module(self.module))


@dataclass(frozen=True)
class CommandOptions:
    """What the command line says. `given`: the family's options by parameter name, only those that were given; `limits` on
    metrics by name, a device's memory among them, and `stated` those of them that --limit names; `device` as
    `evaluators.devices.Device.as_json` writes it."""

    given: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    objective: str | None = None
    device: Mapping[str, Any] | None = None
    stated: frozenset[str] = frozenset()


class ProblemFactory(Protocol):
    """What the module of a family defines, as functions."""

    def resolve_input(self, text: str | None) -> Path | str:
        """A path, or what is bundled under that name; None: the default. InputError when it is neither. A text stands for
        itself (a space of a plug-in)."""

    def read_options(self, space: str, asked: CommandOptions) -> dict[str, Any]:
        """`TuneRequest.options`. ValueError, a sentence, for something that cannot be used."""

    def build_problem(self, request: TuneRequest) -> Problem:
        """Load the input and make the space. InputError for an input that cannot be used, ValueError for options that
        do not go with it."""


@runtime_checkable
class NamesInputs(Protocol):
    """Ability of a factory: something is bundled."""

    def input_names(self) -> tuple[str, ...]:
        """What --input takes besides files, as `resolve_input` knows it."""


@runtime_checkable
class WritesOptions(Protocol):
    """Ability of a factory: options of a request are called otherwise on the command line, or there are limits among them."""

    def command_options(self, options: Mapping[str, Any]) -> CommandOptions:
        """What `read_options` has read; a value of None is an option that was not given."""


@runtime_checkable
class TellsProgress(Protocol):
    """Ability of a factory: making a problem may take seconds, in which it says how far it has come."""

    def build_telling(self, request: TuneRequest, tell: Callable[[str], None]) -> Problem:
        """As `build_problem`. tell: is given half a line again and again."""


@runtime_checkable
class DeclaresLibraries(Protocol):
    """Ability of a factory: what a search imports of other packages or compiles takes its time, which no budget should pay for."""

    def libraries(self, request: TuneRequest) -> tuple[str, ...]:
        """Names of modules: what reading the input, the paper's procedure and the report's measurements import; `module:function()` where
        a function loads C code."""


def libraries_of(factory: ProblemFactory, request: TuneRequest) -> tuple[str, ...]:
    """What a factory declares; nothing where it does not."""
    return factory.libraries(request) if isinstance(factory, DeclaresLibraries) else ()


def command_options(factory: ProblemFactory, options: Mapping[str, Any]) -> CommandOptions:
    """The command line behind the options of a request."""
    if isinstance(factory, WritesOptions):
        return factory.command_options(options)
    return CommandOptions(options, objective=options.get("objective"), device=options.get("device"))
