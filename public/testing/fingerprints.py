"""Fingerprints of copies: computed anew, and computed while the classes have other names."""

from __future__ import annotations

import gc
import io
import pickle
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

from kilotune.search.space import Space

OURS = "kilotune"


def computed_anew(pickled: bytes) -> str:
    """The fingerprint of a pickled space, of which nothing is taken that had been computed before it was sent."""
    return _without_computed(pickle.loads(pickled)).fingerprint


def computed_under_other_names(pickled: bytes) -> str:
    """The fingerprint of a pickled space while its class, and those of its package and ours whose objects it holds, have other
    names."""
    reader = _ClassReader(pickled)
    space = _without_computed(reader.load())
    packages = {OURS, type(space).__module__.partition(".")[0]}
    found = [kind for kind in reader.classes if kind.__module__.partition(".")[0] in packages]
    names = [(kind, kind.__name__, kind.__qualname__) for kind in found]
    try:
        for kind, name, qualified in names:
            kind.__name__, kind.__qualname__ = f"{name}Renamed", f"{qualified}Renamed"
        return str(space.fingerprint)
    finally:
        for kind, name, qualified in names:
            kind.__name__, kind.__qualname__ = name, qualified


class _ClassReader(pickle.Unpickler):
    """Keeps which classes a pickle names."""

    def __init__(self, pickled: bytes) -> None:
        super().__init__(io.BytesIO(pickled))
        self.classes: set[type] = set()

    def find_class(self, module: str, name: str, /) -> Any:
        found = super().find_class(module, name)
        if isinstance(found, type):
            self.classes.add(found)
        return found


def _without_computed(space: Space) -> Space:
    for held in _objects(space):
        values = getattr(held, "__dict__", {})
        for name in [name for name in values if isinstance(getattr(type(held), name, None), cached_property)]:
            del values[name]
    return space


def _objects(root: object) -> Iterator[object]:
    """Everything that it holds, itself first."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        held = waiting.pop()
        yield held
        for other in gc.get_referents(held):
            if id(other) not in seen and not isinstance(other, type | ModuleType | FunctionType):
                seen.add(id(other))
                waiting.append(other)
