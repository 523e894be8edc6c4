"""What a search works out on its way to candidates, kept from one run to the next.

Resuming is replaying: a fresh strategy proposes what the one before proposed, and the store answers. Where proposing takes longer than
measuring, as compiled annealing does, the replay would take as long as the run before. So a space may hand such work to a memory.

A search whose steps hang on too much to be kept notes where it stands instead, and goes on from there with new random numbers.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from kilotune.search.space import ExactStep, Trial


class WorkMemory(Protocol):
    """Remembers what takes long, or does not."""

    @property
    def keeps(self) -> bool:
        """Whether a later run finds what is made or noted now."""

    def recalled(self, subject: Sequence[object], work: Callable[[], Any]) -> Any:
        """What `work` makes, plain JSON with sequences as lists or tuples: made now, or by an earlier run of the same subject. subject: all
        that it depends on, as content of a fingerprint."""

    def noted(self, subject: Sequence[object]) -> Any:
        """What was noted last on a subject, plain JSON; None: nothing."""

    def note(self, subject: Sequence[object], standing: Any) -> None:
        """Note where work stands that is not at its end, plain JSON, in place of what was noted before."""


class NoMemory:
    """Everything is made when it is asked for."""

    keeps = False

    def recalled(self, subject: Sequence[object], work: Callable[[], Any]) -> Any:
        """What `work` makes."""
        return work()

    def noted(self, subject: Sequence[object]) -> Any:
        """Nothing."""

    def note(self, subject: Sequence[object], standing: Any) -> None:
        """Nothing is noted."""


@runtime_checkable
class RemembersWork(Protocol):
    """Ability: what its strategies work out on their way to candidates, the space asks a memory for."""

    work_memory: WorkMemory
    """Set before a search begins; `NoMemory` at first."""


def memory_of(space: object) -> WorkMemory:
    """That of a space which remembers work; of others, one that does not."""
    return space.work_memory if isinstance(space, RemembersWork) else NoMemory()


@runtime_checkable
class GoesOnSearching(Protocol):
    """Ability: the exact search of the space (`HasExactSearch`) goes on from what earlier runs of a study have measured and noted, where
    the whole search before would have to be repeated to come there."""

    def exact_search_after(
        self, trials: Sequence[Trial], seed: int, seconds_left: Callable[[], float]
    ) -> Iterator[ExactStep] | None:
        """Steps as those of `exact_search`, beyond these trials, by number, and with other random numbers than earlier runs had. None: the
        search is to be repeated, as by a space that cannot go on where nothing is remembered. Others go on from the trials alone then."""


def seed_of_run(seed: int, runs: int) -> int:
    """For the random numbers of a run, where that of the first run is given: another one for each that goes on."""
    import numpy as np  # here, since every help text imports this module

    return seed if not runs else int(np.random.SeedSequence([seed, runs]).generate_state(1)[0] >> 1)


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
