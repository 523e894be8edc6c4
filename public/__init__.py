"""Search for the decisions that a compiler for tiny or unusual hardware must make.

`tune` searches a space, by its name or as an object, and returns a `TunedStudy`; `load_study` gives one that was stored.
The other names are what somebody needs who writes a `Space` or a `Strategy`; `kilotune.testing` checks them and
`kilotune.drawing` draws their figures. These names keep working as the deprecation rule says (docs/stability.md, which names two
deeper modules besides). Other modules below `kilotune.search`, `codegen`, `evaluators`, `spaces` and `experiments` are the project's
own and may change with any version.

Nothing is imported before it is used.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kilotune.codegen.diagnostics import InputError
    from kilotune.experiments.notebook.stored_study import load_study
    from kilotune.experiments.notebook.tuned_study import TunedStudy
    from kilotune.experiments.notebook.tuning import tune
    from kilotune.search.fingerprint import fingerprint
    from kilotune.search.flat_state import FlatState
    from kilotune.search.front import Ranking
    from kilotune.search.result import Progress, Result, Status
    from kilotune.search.space import (
        Assignment,
        Constraint,
        Decision,
        Direction,
        Measurement,
        Objective,
        Option,
        Procedure,
        Space,
        State,
        Trial,
    )
    from kilotune.search.store import StoreError
    from kilotune.search.strategy import Outcome, SteppedStrategy, Strategy

    __version__: str

__all__ = (
    "Assignment",
    "Constraint",
    "Decision",
    "Direction",
    "FlatState",
    "InputError",
    "Measurement",
    "Objective",
    "Option",
    "Outcome",
    "Procedure",
    "Progress",
    "Ranking",
    "Result",
    "Space",
    "State",
    "Status",
    "SteppedStrategy",
    "StoreError",
    "Strategy",
    "Trial",
    "TunedStudy",
    "__version__",
    "fingerprint",
    "load_study",
    "tune",
)

HOMES = MappingProxyType(
    {
        "InputError": "codegen.diagnostics",
        "load_study": "experiments.notebook.stored_study",
        "TunedStudy": "experiments.notebook.tuned_study",
        "tune": "experiments.notebook.tuning",
        "fingerprint": "search.fingerprint",
        "FlatState": "search.flat_state",
        "Ranking": "search.front",
        **dict.fromkeys(("Progress", "Result", "Status"), "search.result"),
        "StoreError": "search.store",
        **dict.fromkeys(("Outcome", "SteppedStrategy", "Strategy"), "search.strategy"),
        **dict.fromkeys(
            ("Assignment", "Constraint", "Decision", "Direction", "Measurement", "Objective"), "search.space"
        ),
        **dict.fromkeys(("Option", "Procedure", "Space", "State", "Trial"), "search.space"),
    }
)
"""The module of the package that defines each public name."""

if not TYPE_CHECKING:  # a type checker reads the imports above, and says so when a name does not exist

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used, and keep it."""
        if name == "__version__":
            from importlib.metadata import version

            found = version("kilotune")
        elif name in HOMES:
            found = getattr(importlib.import_module(f"kilotune.{HOMES[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
