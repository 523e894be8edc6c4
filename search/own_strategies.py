"""The strategies that come with kilotune: modules of `search/strategies/`, each of which declares itself.

A declaration is read without importing its module, since one brings in Optuna and another OR-tools, and a command that lists the
names waits for neither. So it stands alone: `STRATEGY = OwnStrategy(...)` at the margin, of literals and `Needs`.
"""

from __future__ import annotations

import ast
import enum
import functools
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

FOLDER = Path(__file__).parent / "strategies"
DECLARATION = re.compile(r"^STRATEGY\b[^=\n]*=", re.MULTILINE)


class Needs(enum.Enum):
    """Which face of a space a strategy searches, where a space has two."""

    WHOLE = "whole"  # its states, model or own search: what is proved there is proved
    ANY = "any"  # walks states, and decides independent decisions as well
    FLAT = "flat"  # independent decisions, where there are some


@dataclass(frozen=True)
class OwnStrategy:
    """What a strategy's module says of it: the class in it, which face of a space that searches, and what it does, for people.

    rank: its place in lists, by which those of equal rank follow one another in the order of their names. libraries: modules of
    other packages that it imports and that take long: who has a clock to start imports them before. ability: the protocol of
    `search.space` that a space must have for it, by name; empty where any space will do.
    """

    class_name: str
    needs: Needs
    what: str
    rank: int = 50
    libraries: tuple[str, ...] = ()
    ability: str = ""


@functools.cache
def own_strategies() -> Mapping[str, OwnStrategy]:
    """All of them by name, which is that of the module, in the order in which they are listed."""
    found = {}
    for module in pkgutil.iter_modules([str(FOLDER)]):
        strategy = _declared((FOLDER / f"{module.name}.py").read_text(encoding="utf-8"))
        if strategy is not None:
            found[module.name] = strategy
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: (item[1].rank, item[0]))))


def own_strategy_names() -> tuple[str, ...]:
    """The strategies that come with kilotune; no plug-in can take one of these names."""
    return tuple(own_strategies())


def _declared(text: str) -> OwnStrategy | None:
    """What the text of a module declares; None: it is no strategy's."""
    found = DECLARATION.search(text)
    if not found:
        return None
    assignment = ast.parse(text[found.start() :]).body[0]
    assert isinstance(assignment, (ast.Assign, ast.AnnAssign))
    assert assignment.value is not None
    expression = compile(ast.Expression(assignment.value), "STRATEGY", "eval")
    strategy: OwnStrategy = eval(expression, {"OwnStrategy": OwnStrategy, "Needs": Needs})
    return strategy
