"""Libraries that a search imports, and its own C code that it compiles, before the clock of its budget starts.

Solvers and samplers take a second to import, several on a busy machine, and an import cannot be abandoned in the middle (see
`search.abandoning`). So spaces and strategies name theirs, those of plug-ins too. What is not named is imported when it is
needed, and then the budget pays for it. C code is compiled once a machine, which takes seconds too: else the first search of
all would find less than the next ones.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterable

from kilotune.experiments.problems import family as families
from kilotune.experiments.problems.family import SpaceFamily
from kilotune.experiments.problems.registry import find_entry
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search import strategy as strategies

SAY_AFTER_S = 2.0


def nobody(_line: str) -> None:
    """For whom nothing is said."""


def load_libraries(
    request: TuneRequest, say: Callable[[str], object] = nobody, family: SpaceFamily | None = None
) -> None:
    """All that a search of this request names. `say` takes a line for each that takes over SAY_AFTER_S, while it is loaded. `family`: of
    a space that is on no list. A space or strategy that cannot be had names none: who makes it says why."""
    with contextlib.suppress(ValueError):
        factory = (family or find_entry(request.space)[0]).factory
        load(families.libraries_of(factory, request), say)
    with contextlib.suppress(ValueError):
        load(strategies.libraries_of(request.strategy), say)


def load(modules: Iterable[str], say: Callable[[str], object], after_s: float = SAY_AFTER_S) -> None:
    """Import them in this order: `module`, `module:attribute` (for modules that are filled when they are used), or
    `module:function()`, which is called, and loads C code. What fails is left to whoever needs it, who knows what to say."""
    for name in modules:
        module, _, attribute = name.partition(":")
        if module in sys.modules and not attribute:
            continue
        compiles = attribute.endswith("()")
        what = f"compiling {module.rpartition('.')[2]}" if compiles else f"loading {module.partition('.')[0]}"
        slow = threading.Timer(after_s, say, [f"{what} ..."])
        slow.daemon = True
        slow.start()
        try:
            with contextlib.suppress(Exception):
                loaded = importlib.import_module(module)
                if attribute:
                    found = getattr(loaded, attribute.removesuffix("()"))
                    if compiles:
                        found()
        finally:
            slow.cancel()
