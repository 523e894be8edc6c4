"""Smaller models of a task, made when they are asked for: each takes seconds, and a search may need none or the first few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

from kilotune.spaces.shiftry.pruned_models import PrunedModel


class OfferedModels:
    """Those of `begin()`, which says the same ones in the same order each time it is called. Iterating makes one after the other; what
    has been made is not made again. Where making one is abandoned, whoever asks next has it made."""

    def __init__(self, begin: Callable[[], Iterator[PrunedModel]]) -> None:
        self._begin = begin
        self._made: list[PrunedModel] = []
        self._way: Iterator[PrunedModel] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_way": None}  # a generator cannot be sent to a worker

    def __iter__(self) -> Iterator[PrunedModel]:
        for number in count():
            if number == len(self._made) and not self._make_next():
                return
            yield self._made[number]

    def _make_next(self) -> bool:
        """Whether there was one more."""
        way = self._way or islice(self._begin(), len(self._made), None)
        self._way = None  # stays so where making it is abandoned: the generator has ended then
        found = next(way, None)
        self._way = way
        if found is not None:
            self._made.append(found)
        return found is not None
