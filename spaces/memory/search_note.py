"""Where a search of placements stands, for a later one to go on from: how much each of its ways has got, and what is proved.

What a way has learned (glued blocks, orders, random numbers) is not kept. A later search begins its ways anew with other random numbers,
from the best placement, and gives the next step to the way whose turn it is, with the limits that it had come to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ComponentProgress:
    """What each way of a `ComponentSearch` has got so far, in buffers looked at, and how far the lowest capacity that may still fit has
    been asked about (`CapacityQuestion.standing`; a capacity of 0: it has not been)."""

    spent: Mapping[str, int]
    capacity: int = 0
    asked: tuple[int, int] = (0, 0)


UNBEGUN = ComponentProgress({})


@dataclass(frozen=True)
class PlacementSearchNote:
    """runs: how many runs have gone on from an earlier one; bound_bytes: a peak that no placement of the instance beats, as proved so far;
    progress: that of its components, in the order in which `BufferArrays.occupied_components` has them; none, or of all."""

    runs: int = 0
    bound_bytes: int = 0
    progress: tuple[ComponentProgress, ...] = ()

    def seed(self, seed: int) -> int:
        """For the random numbers of a run, where that of the first run is given: another one for each that goes on."""
        return seed if not self.runs else int(np.random.SeedSequence([seed, self.runs]).generate_state(1)[0] >> 1)

    @property
    def work(self) -> int:
        """In all, in buffers looked at."""
        return sum(sum(part.spent.values()) for part in self.progress)

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        parts = [
            {"spent": dict(one.spent), "capacity": one.capacity, "asked": list(one.asked)} for one in self.progress
        ]
        return {"runs": self.runs, "bound_bytes": self.bound_bytes, "progress": parts}

    @classmethod
    def from_json(cls, kept: Any) -> PlacementSearchNote:
        """What `as_json` wrote; for anything else the note of a search that has not begun."""
        try:
            runs, bound_bytes = _count(kept["runs"]), _count(kept["bound_bytes"])
            return cls(runs, bound_bytes, tuple(_progress(part) for part in kept["progress"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls()


def _progress(kept: Mapping[str, Any]) -> ComponentProgress:
    spent = {str(way): _count(work) for way, work in kept["spent"].items()}
    passes, turn = _counts(kept["asked"])
    return ComponentProgress(spent, _count(kept["capacity"]), (passes, turn))


def _counts(kept: Sequence[Any]) -> list[int]:
    return [_count(one) for one in kept]


def _count(kept: Any) -> int:
    if type(kept) is not int or kept < 0:
        raise ValueError(f"expected a count, found {kept!r}")
    return kept
