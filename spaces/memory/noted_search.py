"""Noting now and then where a search of placements stands, beside what other runs note, and reading it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from kilotune.search.work_memory import WorkMemory
from kilotune.spaces.memory.search_note import OrderSearchNote, PlacementSearchNote

NOTED_WORK = 20_000_000
"""Buffers looked at between two notes of where a search stands; some tenths of a second."""

NoteT = TypeVar("NoteT", PlacementSearchNote, OrderSearchNote)


class NotedSearch(Generic[NoteT]):
    """The notes of one search in a memory, under a subject that says all that they depend on. `read`: a note from its JSON."""

    def __init__(self, memory: WorkMemory, subject: Sequence[object], read: Callable[[Any], NoteT]) -> None:
        self._memory, self._subject = memory, subject
        self._read: Callable[[Any], NoteT] = read
        self._noted_at: int | None = None

    def begin(self, peak_bytes: float) -> NoteT:
        """For a run that goes on, where the best placement has that peak. It is noted at once that there is one: the run after one that is
        killed has other random numbers, too."""
        before = self._noted(peak_bytes)
        note = replace(before, runs=before.runs + 1)
        self._keep(note, peak_bytes)
        return note

    def note(self, now: NoteT, work: int, peak_bytes: float) -> None:
        """Where the search stands, and the work behind it in buffers looked at; most times nothing is noted."""
        self._noted_at = work if self._noted_at is None else self._noted_at
        if abs(work - self._noted_at) >= NOTED_WORK:
            self._keep(now, peak_bytes)
            self._noted_at = work

    def _noted(self, peak_bytes: float) -> NoteT:
        """The last note; of it only the number of runs, where there is a placement of a peak below the bound: that is damaged."""
        note = self._read(self._memory.noted(self._subject))
        return note if note.bound_bytes <= peak_bytes else type(note)(note.runs)

    def _keep(self, now: NoteT, peak_bytes: float) -> None:
        other = self._noted(peak_bytes)
        runs, bound = max(now.runs, other.runs), max(now.bound_bytes, other.bound_bytes)
        self._memory.note(self._subject, replace(now, runs=runs, bound_bytes=bound).as_json())
