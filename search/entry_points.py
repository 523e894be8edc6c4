"""What other packages bring, found by entry points. Nothing of theirs is imported until it is asked for, and what is broken
breaks nothing else."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EntryPoint:
    """An entry point that has not been loaded: its name, and the package with its version."""

    name: str
    package: str
    point: importlib.metadata.EntryPoint

    @property
    def source(self) -> str:
        """Package, version, module and attribute, for people."""
        return f"{self.package} ({self.point.value})"

    def load(self) -> Any:
        """Import what stands behind it. ValueError, a sentence, when that fails."""
        try:
            return self.point.load()
        except (Exception, SystemExit) as error:
            raise self.unloadable(error) from error

    def unloadable(self, error: BaseException) -> ValueError:
        """The sentence that names this entry point and what went wrong with it."""
        return ValueError(f"{self} cannot be loaded: {type(error).__name__}: {one_line(error)}")

    def __str__(self) -> str:
        return f"The plug-in {self.name!r} of {self.source}"


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """All of a group that are installed, by name and package."""
    found = [EntryPoint(point.name, _package(point), point) for point in importlib.metadata.entry_points(group=group)]
    return tuple(sorted(found, key=lambda entry: (entry.name, entry.package)))


def find_entry_point(group: str, name: str, thing: str) -> EntryPoint | None:
    """The one of that name; None when there is none. ValueError when several packages bring one; `thing` is what it is called
    then ("space")."""
    found = [entry for entry in entry_points(group) if entry.name == name]
    if len(found) > 1:
        sources = ", ".join(entry.source for entry in found)
        raise ValueError(f"Several packages bring a {thing} {name!r}: {sources}; expected one, so uninstall the other.")
    return found[0] if found else None


def one_line(what: object) -> str:
    """A text without line breaks."""
    return " ".join(str(what).split())


def _package(point: importlib.metadata.EntryPoint) -> str:
    distribution = point.dist
    return "an unknown package" if distribution is None else f"{distribution.name} {distribution.version}"
