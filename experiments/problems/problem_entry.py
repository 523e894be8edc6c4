"""The entry of a problem's space: on the list of spaces, or brought by the problem itself."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.registry import find_entry


@runtime_checkable
class BringsEntry(Protocol):
    """Ability: the problem is of no space on the list, and says itself what would stand there."""

    @property
    def entry(self) -> tuple[SpaceFamily, SpaceEntry] | None:
        """None where it is on the list after all."""


def entry_of(problem: Problem) -> tuple[SpaceFamily, SpaceEntry]:
    """The family of its space, and the entry there."""
    brought = problem.entry if isinstance(problem, BringsEntry) else None
    return brought or find_entry(problem.request.space)


def procedure_name(problem: Problem) -> str:
    """What the heuristic of its space is called."""
    return entry_of(problem)[1].procedure


def is_listed(problem: Problem) -> bool:
    """Whether its space has a name that a command can ask for."""
    return not isinstance(problem, BringsEntry) or problem.entry is None
