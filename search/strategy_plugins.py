"""Strategies of other packages, which entry points of the group `kilotune.strategies` name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kilotune.search.entry_points import entry_points, find_entry_point, one_line
from kilotune.search.space import Space

GROUP = "kilotune.strategies"
STRATEGY_MEMBERS = ("outcome", "bound", "propose", "learn")
SEARCH_MEMBERS = ("bound", "steps")


@dataclass(frozen=True)
class StrategyPlugIn:
    """A class or function of somebody else that is called with a space and a seed; `who` names it in messages.

    It returns a strategy (`search.strategy.Strategy`), or a search with `bound` and `steps()` (`SteppedSearch`). An attribute
    `needs_flat = True` says that it is for independent decisions; it is then given the flat view of a tree that has one. An
    attribute `libraries` names the modules that it imports while it searches, so that no budget pays for them.
    """

    who: str
    make: Callable[[Space, int], Any]

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring."""
        return one_line((inspect.getdoc(self.make) or "no docstring").partition("\n\n")[0])

    @property
    def needs_flat(self) -> bool:
        """Whether it is for independent decisions only."""
        return bool(getattr(self.make, "needs_flat", False))

    @property
    def libraries(self) -> tuple[str, ...]:
        """Modules that it says it imports."""
        return declared_libraries(self.make)

    def call(self, space: Space, seed: int) -> Any:
        """A fresh strategy or search. ValueError, a sentence: it does not fit the space, fails, or makes something else."""
        try:
            made = self.make(space, seed)
        except ValueError as error:
            raise ValueError(f"{self.who}: {one_line(error)}") from error
        except Exception as error:
            raise ValueError(f"{self.who} makes no strategy: {type(error).__name__}: {one_line(error)}") from error
        if not is_search(made):
            missing = [member for member in STRATEGY_MEMBERS if not hasattr(made, member)]
            if missing:
                raise ValueError(
                    f"{self.who}: expected a strategy (kilotune.Strategy) or a search with bound and steps(), found "
                    f"{type(made).__name__} without {', '.join(missing)}."
                )
            if self.needs_flat:
                raise ValueError(
                    f"{self.who}: expected a search with steps(), for what it proves in a flat view is not proved of the "
                    f"space, found the strategy {type(made).__name__}."
                )
        return made


def declared_libraries(made: Any) -> tuple[str, ...]:
    """The attribute `libraries` of a class or function of somebody else: a sequence of names of modules. Nothing where it has
    none; what is no name is left out, for it is only about when something is imported."""
    declared = getattr(made, "libraries", ())
    if not isinstance(declared, (list, tuple)):
        return ()
    return tuple(name for name in declared if isinstance(name, str))


def is_search(made: Any) -> bool:
    """Whether it is straight-line code, not yet a strategy."""
    return all(hasattr(made, member) for member in SEARCH_MEMBERS) and not hasattr(made, "propose")


def plugged_names() -> tuple[str, ...]:
    """All that are installed, by name; they need not work."""
    return tuple(dict.fromkeys(entry.name for entry in entry_points(GROUP)))


def find_strategy_plug_in(name: str) -> StrategyPlugIn | None:
    """Import the one of that name; None when there is none. ValueError, a sentence, when it does not work."""
    entry = find_entry_point(GROUP, name, "strategy")
    if entry is None:
        return None
    made = entry.load()
    if not callable(made):
        raise ValueError(
            f"{entry}: expected a class or function that makes a strategy of a space and a seed, found "
            f"{type(made).__name__}."
        )
    return StrategyPlugIn(str(entry), made)
