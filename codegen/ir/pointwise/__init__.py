"""Pointwise operators, a module each: what the module says of its operator is all that the project knows of it.

A new module is found by being here; `kilotune.codegen.ir.operation.Pointwise` says what it has to define.
"""

from __future__ import annotations

import importlib
import pkgutil

from kilotune.codegen.ir.operation import Pointwise


def _found() -> tuple[type[Pointwise], ...]:
    """The operator classes that the modules of this folder define, in the order of the modules' names."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return tuple(
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Pointwise) and thing.__module__ == module.__name__
    )


POINTWISE = _found()
"""Every pointwise operator."""
