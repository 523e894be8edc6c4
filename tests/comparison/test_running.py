"""What a worker carries from one run to the next."""

from __future__ import annotations

import functools
import gc
import importlib
import pkgutil

from kilotune.experiments.comparison.running import forget_intermediate_results
from kilotune.spaces.reverse_split.bounds import chain_length
from kilotune.spaces.reverse_split.native import load_kernel


def test_a_run_finds_nothing_that_an_earlier_one_has_computed() -> None:
    chain_length(5, 0)
    load_kernel()
    assert chain_length.cache_info().currsize > 0
    forget_intermediate_results()
    assert chain_length.cache_info().currsize == 0
    assert load_kernel.cache_info().currsize == 1  # loading a library is no part of a search


def test_every_cache_of_intermediate_results_is_found() -> None:
    """One inside a class or a function would be missed."""
    for folder in ("codegen", "evaluators", "search", "spaces"):
        package = importlib.import_module(f"kilotune.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations" not in module.name:  # scripts of Alembic, which no run imports
                importlib.import_module(module.name)
    caches = [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, type(functools.cache(str)))
        and str(thing.__module__).startswith("kilotune.")
        and thing.cache_parameters()["maxsize"] is not None
    ]
    assert len(caches) > 8
    hidden = [
        c for c in caches if all(c is not thing for thing in vars(importlib.import_module(c.__module__)).values())
    ]
    assert hidden == []
