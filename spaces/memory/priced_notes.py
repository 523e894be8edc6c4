"""Where a search over banks and moves stands (`spaces.memory.priced_exact`, `spaces.memory.moves_search`), for a later run to go on from.

Nothing in it is random: a later run does what this one would have done next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from kilotune.search.work_memory import WorkMemory
from kilotune.spaces.memory.checker import Residence
from kilotune.spaces.memory.rectangles import Cut, Cuts

NOTED_WORK = 20_000_000
"""Work between two notes, in buffers looked at; some tenths of a second."""

CUT_WORK = 500
"""And so much more for each cut of each node that is to be written."""

WORTH_NOTING = 2_000_000
"""What a search of a bank has taken that is noted when it ends: others are as quickly done again."""

MadeT = TypeVar("MadeT")

MovesNode = tuple[Fraction, int, int, Cuts, Cuts]
"""A node of the tree of `moves_search`: its bound, less its depth, its number; the cuts that are paid for, and that are forbidden."""


@dataclass(frozen=True)
class MovesNote:
    """Where the search of one bank stands between two nodes. `residences`: of the best placement, None for none; `nodes`: the heap of those
    that are open; `lost`: the least bound of a node that was given up; `complete`: no other was."""

    residences: tuple[Residence, ...] | None
    nodes: tuple[MovesNode, ...]
    next_number: int
    lost: Fraction
    complete: bool

    @property
    def work(self) -> int:
        """What writing it takes, in buffers looked at."""
        return CUT_WORK * sum(len(paid) + len(forbidden) for _, _, _, paid, forbidden in self.nodes)

    def as_json(self, cuts: Sequence[Cut]) -> dict[str, Any]:
        """What `from_json` reads; all cuts that there are."""
        place = {cut: k for k, cut in enumerate(cuts)}
        nodes = [
            [str(bound), depth, number, [place[cut] for cut in paid], [place[cut] for cut in forbidden]]
            for bound, depth, number, paid, forbidden in self.nodes
        ]
        return {
            "residences": None if self.residences is None else _stays(self.residences),
            "nodes": nodes,
            "next": self.next_number,
            "lost": str(self.lost),
            "complete": self.complete,
        }

    @classmethod
    def from_json(cls, kept: Any, cuts: Sequence[Cut]) -> MovesNote:
        """ValueError, TypeError or LookupError where it is none."""
        nodes = tuple(
            (Fraction(bound), int(depth), int(number), _cuts(paid, cuts), _cuts(forbidden, cuts))
            for bound, depth, number, paid, forbidden in kept["nodes"]
        )
        lost, best = Fraction(kept["lost"]), kept["residences"]
        residences = None if best is None else _residences(best)
        return cls(residences, nodes, int(kept["next"]), lost, bool(kept["complete"]))


@dataclass(frozen=True)
class ChoiceNote:
    """Which choice of banks is being searched, a bank (index) for each buffer in the order of the search; whether all before it were
    answered, and the best placement that they led to: what is not better than that was left out. () for none."""

    homes: tuple[int, ...]
    complete: bool
    residences: tuple[Residence, ...]

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {"homes": list(self.homes), "complete": self.complete, "residences": _stays(self.residences)}

    @classmethod
    def from_json(cls, kept: Any) -> ChoiceNote:
        """ValueError, TypeError or LookupError where it is none."""
        return cls(tuple(int(k) for k in kept["homes"]), bool(kept["complete"]), _residences(kept["residences"]))


class PricedNotes:
    """What a search of one space notes, and what it finds that earlier ones have noted. `is_read` False: it finds nothing."""

    def __init__(self, memory: WorkMemory, fingerprint: str, is_read: bool) -> None:
        self._memory, self._fingerprint, self._is_read = memory, fingerprint, is_read

    def of_bank(self, bank: str, members: Sequence[int], cuts: Sequence[Cut]) -> MovesNote | None:
        """That of the search of these buffers in that bank, where `cuts` are possible."""
        return self._read(self._of_bank(bank, members), lambda kept: MovesNote.from_json(kept, cuts))

    def note_bank(self, bank: str, members: Sequence[int], cuts: Sequence[Cut], note: MovesNote) -> None:
        """In place of what was noted before."""
        self._memory.note(self._of_bank(bank, members), note.as_json(cuts))

    def of_choice(self) -> ChoiceNote | None:
        """The last one."""
        return self._read(self._of_choice, ChoiceNote.from_json)

    def note_choice(self, note: ChoiceNote) -> None:
        """In place of what was noted before."""
        self._memory.note(self._of_choice, note.as_json())

    def _of_bank(self, bank: str, members: Sequence[int]) -> tuple[object, ...]:
        return "search of a bank", self._fingerprint, bank, tuple(members)

    @property
    def _of_choice(self) -> tuple[object, ...]:
        return "choice of banks", self._fingerprint

    def _read(self, subject: Sequence[object], made: Callable[[Any], MadeT]) -> MadeT | None:
        kept = self._memory.noted(subject) if self._is_read else None
        try:
            return None if kept is None else made(kept)
        except (ValueError, TypeError, LookupError, ZeroDivisionError):
            return None


def _cuts(places: Sequence[int], cuts: Sequence[Cut]) -> Cuts:
    return frozenset(cuts[place] for place in places)


def _stays(residences: Sequence[Residence]) -> list[list[Any]]:
    return [[r.id, r.lower, r.upper, r.offset, r.bank] for r in residences]


def _residences(kept: Any) -> tuple[Residence, ...]:
    return tuple(Residence(str(i), int(lower), int(upper), int(at), str(bank)) for i, lower, upper, at, bank in kept)
