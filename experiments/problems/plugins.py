"""Spaces of other packages, which entry points of the group `kilotune.spaces` name. Nothing of theirs is imported until one
is asked for, and one that is broken breaks no other."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.problems.family import CommandOptions, ProblemFactory, SpaceEntry, SpaceFamily
from kilotune.search.entry_points import EntryPoint, entry_points, find_entry_point, one_line
from kilotune.search.strategy_plugins import declared_libraries

if TYPE_CHECKING:
    from kilotune.experiments.problems.plain_problem import PlainProblem
    from kilotune.experiments.requests.request import TuneRequest
    from kilotune.search.space import Space

GROUP = "kilotune.spaces"
PLAIN_STRATEGY = "local"
"""Where nobody has compared strategies yet."""


def plug_ins() -> tuple[EntryPoint, ...]:
    """All that are installed, by name."""
    return entry_points(GROUP)


def find_plug_in(space: str) -> EntryPoint | None:
    """The one that brings this space; None when there is none. ValueError when several packages bring one."""
    return find_entry_point(GROUP, space, "space")


def load_plug_in(plug_in: EntryPoint) -> tuple[SpaceFamily, SpaceEntry]:
    """Import it. ValueError, a sentence, when it cannot be imported or is neither a SpaceFamily nor something that makes a
    space."""
    who, made = str(plug_in), plug_in.load()
    if isinstance(made, SpaceFamily):
        try:
            made.factory  # noqa: B018  imported now, so that what is wrong with it is said here
        except (Exception, SystemExit) as error:
            raise plug_in.unloadable(error) from error
    if isinstance(made, SpaceFamily):
        family = made
    elif callable(made):
        family = plain_family(plug_in.name, who, made)
    else:
        raise ValueError(
            f"{who}: expected a function that makes a space, or a SpaceFamily, found {type(made).__name__}."
        )
    for entry in family.entries:
        if entry.space == plug_in.name:
            return family, entry
    found = ", ".join(entry.space for entry in family.entries) or "nothing"
    raise ValueError(f"{who}: expected a SpaceFamily with an entry {plug_in.name!r}, found one with {found}.")


@dataclass(frozen=True)
class PlainSpaceFamily(SpaceFamily):
    """A space without options: `make` makes it from --input; without that it is called with its own default, or with None."""

    make: Callable[..., Space] = field(kw_only=True)

    @property
    def factory(self) -> ProblemFactory:
        return PlainFactory(self.title, self.make)


@dataclass(frozen=True)
class PlainFactory:
    """The `ProblemFactory` of a function that makes a space."""

    title: str
    make: Callable[..., Space]

    def resolve_input(self, text: str | None) -> str:
        """An absolute path for something that is there, else the text itself: the space knows what it means."""
        if not text:
            return ""
        if not _takes_input(self.make):
            raise ValueError(f"--input {text}: {self.title} takes no input.")
        return str(Path(text).resolve()) if Path(text).exists() else text

    def read_options(self, space: str, asked: CommandOptions) -> dict[str, Any]:
        """None. ValueError for limits or a device: a space brings its own constraints."""
        if asked.limits or asked.device:
            raise ValueError(f"--limit and --device do not go with the space {space}: it has its own constraints.")
        return {}

    def libraries(self, request: TuneRequest) -> tuple[str, ...]:
        """What the function, or class, names in an attribute `libraries`."""
        return declared_libraries(self.make)

    def build_problem(self, request: TuneRequest) -> PlainProblem:
        """ValueError, a sentence, when the function makes no space."""
        from kilotune.experiments.problems.plain_problem import PlainProblem, as_space

        given = f"{self.title} with --input {request.input}" if request.input else self.title
        try:
            space = self.make() if not request.input and _has_default(self.make) else self.make(request.input or None)
        except InputError:
            raise
        except (ValueError, OSError) as error:
            raise ValueError(f"{given}: {one_line(error)}") from error
        except Exception as error:
            raise ValueError(f"{given} makes no space: {type(error).__name__}: {one_line(error)}") from error
        return PlainProblem(request, as_space(space, self.title))


def plain_family(space: str, title: str, make: Callable[..., Space]) -> PlainSpaceFamily:
    """The family of the one space that a function or a class makes. A function `draw` beside it draws the space's own figures."""
    module = make.__module__
    drawing = module if hasattr(sys.modules.get(module), "draw") else None
    summary = (inspect.getdoc(make) or "").partition("\n\n")[0]
    entry = SpaceEntry(space, one_line(summary) or "no docstring", PLAIN_STRATEGY, drawing=drawing)
    return PlainSpaceFamily(title, (entry,), (), module, make=make)


def _has_default(make: Callable[..., Space]) -> bool:
    """Whether it can be called without anything."""
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError):
        return False
    return True


def _takes_input(make: Callable[..., Space]) -> bool:
    try:
        return bool(inspect.signature(make).parameters)
    except ValueError:  # compiled, and says nothing
        return True
