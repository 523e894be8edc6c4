"""What searches work out besides measurements, kept in the cache beside these.

Each piece is written when it is finished, so that a process that is killed loses only what it was doing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from kilotune.evaluators.executors.cache import EvaluationCache, code_version
from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import Space

SEMANTICS = 1
"""Version of how work is kept, part of the name under which it is."""

_NOTHING = object()


class KeptWork:
    """The memory of a space, in a cache: of the code of today, and whoever asks for the same."""

    keeps = True

    def __init__(self, cache: EvaluationCache, space: Space) -> None:
        self._cache, self._version = cache, code_version(space)

    def recalled(self, subject: Sequence[object], work: Callable[[], Any]) -> Any:
        """See `WorkMemory`. What cannot be read is made again."""
        key = fingerprint("work of a search", SEMANTICS, self._version, subject)
        kept = self._read(key)
        if kept is not _NOTHING:
            return kept
        made = work()
        self._cache.keep_artefact(key, json.dumps(made).encode())
        return made

    def noted(self, subject: Sequence[object]) -> Any:
        """See `WorkMemory`. What cannot be read is nothing."""
        kept = self._read(self._name_of_note(subject))
        return None if kept is _NOTHING else kept

    def note(self, subject: Sequence[object], standing: Any) -> None:
        """See `WorkMemory`."""
        self._cache.keep_artefact(self._name_of_note(subject), json.dumps(standing).encode())

    def _name_of_note(self, subject: Sequence[object]) -> str:
        return fingerprint("standing of a search", SEMANTICS, self._version, subject)

    def _read(self, key: str) -> Any:
        kept = self._cache.artefact(key)
        if kept is not None:
            with contextlib.suppress(ValueError, RecursionError):
                return json.loads(kept)
        return _NOTHING
