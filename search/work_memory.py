"""What a search works out on its way to candidates, kept from one run to the next.

Resuming is replaying: a fresh strategy proposes what the one before proposed, and the store answers. Where proposing takes longer than
measuring, as compiled annealing does, the replay would take as long as the run before. So a space may hand such work to a memory.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable


class WorkMemory(Protocol):
    """Remembers what takes long, or does not."""

    def recalled(self, subject: Sequence[object], work: Callable[[], Any]) -> Any:
        """What `work` makes, plain JSON with sequences as lists or tuples: made now, or by an earlier run of the same subject. subject: all
        that it depends on, as content of a fingerprint."""


class NoMemory:
    """Everything is made when it is asked for."""

    def recalled(self, subject: Sequence[object], work: Callable[[], Any]) -> Any:
        """What `work` makes."""
        return work()


@runtime_checkable
class RemembersWork(Protocol):
    """Ability: what its strategies work out on their way to candidates, the space asks a memory for."""

    work_memory: WorkMemory
    """Set before a search begins; `NoMemory` at first."""


def memory_of(space: object) -> WorkMemory:
    """That of a space which remembers work; of others, one that does not."""
    return space.work_memory if isinstance(space, RemembersWork) else NoMemory()


class RecalledSteps:
    """The steps of one search, each asked of a memory first: what a step makes hangs on the search, its number, and all that the search
    has been told before."""

    def __init__(self, memory: WorkMemory, search: Sequence[object]) -> None:
        """`search`: what tells it from others: its name and version, its space's fingerprint, its seed."""
        self._memory, self._search = memory, tuple(search)
        self._told = hashlib.blake2b(digest_size=16)

    def take_in(self, losses: Iterable[float]) -> None:
        """What the search is told of candidates, in this order."""
        self._told.update(array("d", losses).tobytes())

    def recalled(self, number: int, work: Callable[[], Any]) -> Any:
        """What step `number` makes, as `WorkMemory.recalled`."""
        return self._memory.recalled(["step", *self._search, number, self._told.hexdigest()], work)
