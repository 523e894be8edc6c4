"""What the paper's procedures have measured outside any study, remembered as long as this process runs: a page that refreshes,
and a report that asks for the same twice, pay once."""

from __future__ import annotations

from functools import lru_cache

from kilotune.search.space import Assignment, Measurement, Option, Space

AnsweredDecisions = tuple[tuple[str, Option], ...]

MOST_SPACES = 16


class Remembered:
    """Measurements of one question, whatever object asks it."""

    def __init__(self) -> None:
        self._known: dict[AnsweredDecisions, Measurement] = {}

    def get(self, candidate: Assignment) -> Measurement | None:
        """None for what nobody has measured."""
        return self._known.get(tuple(candidate.items()))

    def put(self, candidate: Assignment, measurement: Measurement) -> None:
        """Keep it; but a failure may be of the moment."""
        if measurement.failure is None:
            self._known[tuple(candidate.items())] = measurement


def remembered(space: Space) -> Remembered:
    """By the space's class and fingerprint, on which all measurements depend."""
    return _remembered(type(space), space.fingerprint)


@lru_cache(maxsize=MOST_SPACES)
def _remembered(kind: type, fingerprint: str) -> Remembered:
    return Remembered()
