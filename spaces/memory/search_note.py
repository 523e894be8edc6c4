"""Where a search of placements stands, for a later one to go on from: how much each of its ways has got, and what is proved; and where
one of orders and placements together does.

What a way has learned (glued blocks, orders, random numbers) is not kept. A later search begins its ways anew with other random numbers,
from the best placement, takes turns among them from the start, and goes on with the limits that questions of the exact search had come to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


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

    @property
    def work(self) -> int:
        """In all, in buffers looked at."""
        return work_of(self.progress)

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {"runs": self.runs, "bound_bytes": self.bound_bytes, "progress": _as_json(self.progress)}

    @classmethod
    def from_json(cls, kept: Any) -> PlacementSearchNote:
        """What `as_json` wrote; for anything else the note of a search that has not begun."""
        try:
            runs, bound_bytes = _count(kept["runs"]), _count(kept["bound_bytes"])
            return cls(runs, bound_bytes, tuple(_progress(part) for part in kept["progress"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls()


@dataclass(frozen=True)
class OrderSearchNote:
    """Where a search of orders and placements stands (`spaces.memory.ordered_placement`).

    runs: how many have gone on from an earlier one; bound_bytes: a peak that no order and placement beat; order: that of the least live
    sum so far, none: no search has begun; sets, in_vain: how far the search of orders has got (`order_search.OrderStep`); others: orders
    that were drawn besides. Of the placement in `order`: the steps that it had, a peak that none beats, and the progress of its components.
    """

    runs: int = 0
    bound_bytes: int = 0
    order: tuple[int, ...] = ()
    sets: int = 0
    in_vain: int = 0
    others: int = 0
    asked: int = 0
    least_bytes: int = 0
    progress: tuple[ComponentProgress, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**named, "order": list(self.order), "progress": _as_json(self.progress)}

    @classmethod
    def from_json(cls, kept: Any) -> OrderSearchNote:
        """What `as_json` wrote; for anything else the note of a search that has not begun."""
        try:
            plain = {field.name: _count(kept[field.name]) for field in fields(cls) if field.type == "int"}
            parts = tuple(_progress(part) for part in kept["progress"])
            return cls(**plain, order=tuple(_counts(kept["order"])), progress=parts)
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls()


NO_ORDERS = OrderSearchNote()


def work_of(progress: Sequence[ComponentProgress]) -> int:
    """In all components, in buffers looked at."""
    return sum(sum(part.spent.values()) for part in progress)


def _as_json(progress: Sequence[ComponentProgress]) -> list[dict[str, Any]]:
    return [{"spent": dict(one.spent), "capacity": one.capacity, "asked": list(one.asked)} for one in progress]


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
