"""What a search works out on its way to candidates, kept from one run to the next.

Resuming is replaying: a fresh strategy proposes what the one before proposed, and the store answers. Where proposing takes longer than
measuring, as compiled annealing does, the replay would take as long as the run before. So a space may hand such work to a memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
