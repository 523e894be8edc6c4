"""Imports and loads in this process what the commands need, so that forked children have it.

Which modules and which compiled kernels those are is not written down anywhere: a child runs a case and says so.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.sandbox import run_case

_CACHED = type(functools.cache(str))


def warm_up(cases: Iterable[FuzzCase], scratch: Path) -> None:
    """Import every module that one of the cases imports, and call what it has loaded once and for all."""
    said = scratch / "loaded"

    def say() -> None:
        said.write_text(json.dumps(_loaded()), encoding="utf-8")

    for case in cases:
        run_case(case, scratch, say)
        if said.exists():
            _take_over(json.loads(said.read_text(encoding="utf-8")))
            said.unlink()
    gc.collect()
    gc.freeze()  # a child that collects garbage would copy every page otherwise


def _loaded() -> dict[str, list[Any]]:
    """The names of the modules of this process, and of the functions without parameters that have kept their result."""
    functions = [
        (thing.__module__, thing.__qualname__) for thing in _kept_results() if thing.cache_info().currsize == 1
    ]
    return {"modules": sorted(sys.modules), "functions": sorted(functions)}


def _take_over(names: dict[str, list[Any]]) -> None:
    """Import those modules, and call those functions."""
    for name in names["modules"]:
        if name not in sys.modules and name != "__main__":
            with suppress(Exception):  # some modules can only be imported by their packages
                importlib.import_module(name)
    for module, name in names["functions"]:
        getattr(sys.modules[module], name)()


def _kept_results() -> Iterator[Any]:
    for thing in gc.get_objects():
        ours = isinstance(thing, _CACHED) and str(thing.__module__).startswith("kilotune.")
        if ours and not inspect.signature(thing).parameters and "." not in thing.__qualname__:
            yield thing
