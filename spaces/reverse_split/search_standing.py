"""Where a search for programs stands, and what is noted of it, for a later one to go on from.

To repeat a search takes as long as it took, and longer: how long it constructs programs before it walks from them is a share of its time,
which a repetition does not know. So a later search begins from the best programs that were measured, with other random numbers. It
constructs nothing slowly where walks had begun, and its proof goes on from where the last one was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import Assignment
from kilotune.search.work_memory import WorkMemory
from kilotune.spaces.reverse_split.deepening import ProofStanding

NOTED_WORK = 1_000_000
"""Work of a proof between two notes; a second or so."""

SEMANTICS = 1
"""Version of what is noted; part of its hash."""


@dataclass(frozen=True)
class SearchStanding:
    """walking: whether walks have begun, so that everything that is constructed before them is; idle: their steps since the last that was
    shorter; proof: where it stands, None before it began."""

    walking: bool = False
    idle: int = 0
    proof: ProofStanding | None = None


UNBEGUN = SearchStanding()


@dataclass(frozen=True)
class EarlierPrograms:
    """What a search goes on from: the best candidates that were measured, cheapest first, and where it stood."""

    candidates: tuple[Assignment, ...] = ()
    standing: SearchStanding = UNBEGUN


NOTHING_EARLIER = EarlierPrograms()


@dataclass(frozen=True)
class ProgramSearchNote:
    """runs: how many runs have gone on from an earlier one."""

    runs: int = 0
    standing: SearchStanding = UNBEGUN

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads. A proof on a damaged note would prove nothing, so there is a hash of all that it says."""
        content = {"runs": self.runs, "standing": asdict(self.standing)}
        return {**content, "hash": _hash(content)}

    @classmethod
    def from_json(cls, kept: Any) -> ProgramSearchNote:
        """What `as_json` wrote; for anything else the note of a search that has not begun."""
        try:
            content = {"runs": kept["runs"], "standing": kept["standing"]}
            if kept["hash"] != _hash(content):
                return cls()
            walking, idle, proof = (kept["standing"][name] for name in ("walking", "idle", "proof"))
            stood = None if proof is None else ProofStanding(**{**proof, "path": tuple(proof["path"])})
            return cls(kept["runs"], SearchStanding(walking, idle, stood))
        except (KeyError, TypeError, ValueError):
            return cls()


class ProgramNotes:
    """The notes of one search in a memory, under a subject that says all that they depend on."""

    def __init__(self, memory: WorkMemory, subject: Sequence[object]) -> None:
        self._memory, self._subject = memory, subject
        self._noted: SearchStanding | None = None

    def begin(self) -> ProgramSearchNote:
        """For a run that goes on. It is noted at once that there is one: the run after one that is killed has other random numbers, too."""
        before = self._read()
        note = replace(before, runs=before.runs + 1)
        self._memory.note(self._subject, note.as_json())
        return note

    def note(self, now: SearchStanding, runs: int) -> None:
        """Where the search of a run stands; most times nothing is noted."""
        if self._noted is not None and not _is_news(self._noted, now):
            return
        self._noted = now
        other = self._read()
        ahead = other.standing.proof
        if ahead is not None and (now.proof is None or ahead.bound > now.proof.bound):
            now = replace(now, proof=ahead)
        self._memory.note(self._subject, ProgramSearchNote(max(runs, other.runs), now).as_json())

    def _read(self) -> ProgramSearchNote:
        return ProgramSearchNote.from_json(self._memory.noted(self._subject))


def _is_news(noted: SearchStanding, now: SearchStanding) -> bool:
    """Whether walks have begun since, or the proof has got further."""
    if noted.walking != now.walking or noted.proof is None or now.proof is None:
        return noted != now
    rose, closed = now.proof.bound > noted.proof.bound, now.proof.open != noted.proof.open
    return rose or closed or now.proof.worked - noted.proof.worked >= NOTED_WORK


def _hash(content: dict[str, Any]) -> str:
    return fingerprint("note of a search for programs", SEMANTICS, repr(_plain(content)))


def _plain(value: Any) -> Any:
    """Tuples as lists, which is what JSON makes of them, and names in order."""
    if isinstance(value, dict):
        return sorted((name, _plain(one)) for name, one in value.items())
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
