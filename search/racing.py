"""Races: a candidate that can no longer matter is not measured to its end.

A strategy may say what its next candidates have to beat; those that do not are all the same to it. A space that measures piece by piece
can then stop a candidate whose metrics, at their very best, neither beat that nor enter the front of what is known.
Nothing else changes: the same candidates are proposed, the same one is the best, the front is the same.
What was stopped is a censored trial: it has no metrics, but bounds of them, and never ranks before a measured one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from kilotune.search.front import Front, Rank, Ranking, no_worse
from kilotune.search.space import Assignment, Measurement, Metrics


@dataclass(frozen=True)
class Hurdle:
    """What a candidate must still be able to do: rank before `rank`, or be dominated by none of the losses in `front`. `is_last`: who is
    out is asked for no more, so that even a small program is worth stopping."""

    ranking: Ranking
    rank: Rank
    front: tuple[Rank, ...]
    is_last: bool = True

    @classmethod
    def of(cls, wanted: Rank, known: Front, is_last: bool = True) -> Hurdle:
        """What a strategy wants to be beaten, after the trials that are known. The best of them counts too: a study whose
        strategy asks for nothing still has one."""
        return cls(known.ranking, max(wanted, known.best_rank), known.losses, is_last)

    def is_out(self, at_best: Metrics) -> bool:
        """Whether a candidate whose metrics are at best these can do neither. Equal is not before."""
        rank = self.ranking.rank(Measurement(at_best))
        if rank < self.rank:
            return False
        return rank[0] > 0.0 or any(no_worse(losses, rank[1:]) for losses in self.front)


@runtime_checkable
class NamesHurdle(Protocol):
    """Ability of a strategy: it knows which trials are all the same to it."""

    @property
    def hurdle(self) -> Rank | None:
        """What the last proposals have to clear: whatever ranks here or behind it is as good as anything else there. `()` comes
        before every rank. None: every rank counts."""


@runtime_checkable
class AsksAgain(Protocol):
    """Ability of a strategy that names hurdles: it may ask for what has not cleared one, behind another one or none."""

    @property
    def asks_again(self) -> bool:
        """Whether it does."""


def asks_again(strategy: object) -> bool:
    """Whether a strategy asks for candidates again that were out."""
    return isinstance(strategy, AsksAgain) and strategy.asks_again


@runtime_checkable
class RacingSpace(Protocol):
    """Ability of a space: it measures piece by piece."""

    def evaluate_against(self, batch: Sequence[Assignment], hurdle: Hurdle) -> list[Measurement]:
        """As `Space.evaluate`, but a candidate that `hurdle.is_out` may be censored (`Measurement.censored`). Which ones are, and
        where they stop, hangs on the candidate and the hurdle alone."""


@runtime_checkable
class RacesAtTimes(Protocol):
    """Ability of a racing space: knows whether it ever censors a candidate. Where it does not it is asked for no more than `evaluate`,
    since what candidates have to beat is work of its own."""

    @property
    def races(self) -> bool:
        """Whether some candidates are worth stopping."""

    @property
    def races_who_is_asked_again(self) -> bool:
        """Whether some are that may be asked for once more (`Hurdle.is_last`)."""


def is_raced(space: object, again: bool = False) -> bool:
    """Whether candidates of a space may be censored. `again`: by a strategy that may ask for them once more."""
    if not isinstance(space, RacingSpace):
        return False
    return not isinstance(space, RacesAtTimes) or (space.races_who_is_asked_again if again else space.races)
