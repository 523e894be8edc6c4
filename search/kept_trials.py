"""Measured candidates in little memory: a search of hours measures millions, and must not end for want of it.

What trials have in common, the names of their metrics above all, is kept once, and their numbers lie in arrays: some 20 bytes and 8 a
metric for each, where a measurement as an object takes about a kilobyte.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from kilotune.search.encoding import CandidateKey
from kilotune.search.space import Measurement

LARGEST = 1 << 53
"""Whole numbers up to here are doubles without loss."""

NUMBERS = frozenset((int, float))
"""What a double holds, but for large whole numbers; a bool would come back as an integer."""


class KeptTrial(NamedTuple):
    """What is known of a candidate: its trial's number, what was measured, and when that ended, in seconds of the study's clock."""

    number: int
    measurement: Measurement
    elapsed_s: float


_Form = tuple[tuple[str, ...], tuple[type, ...], str | None, bool]
"""What measurements have in common: names of metrics, their types, the failure, and whether they are censored."""


class KeptTrials:
    """One trial a candidate. What is read is equal to what was put in, whole numbers as whole numbers."""

    def __init__(self) -> None:
        self._places: dict[CandidateKey, int] = {}
        self._numbers, self._elapsed_s = array("q"), array("d")
        self._forms: list[_Form] = []
        self._form_of: dict[_Form, int] = {}
        self._form, self._first = array("l"), array("q")
        self._values = array("d")
        self._as_they_are: dict[int, Measurement] = {}  # by place: metrics that are no doubles

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: CandidateKey) -> bool:
        return key in self._places

    def put(self, key: CandidateKey, number: int, measurement: Measurement, elapsed_s: float) -> None:
        """Keep a candidate's trial, instead of another one where there is one."""
        place = self._places[key] = len(self._numbers)
        self._numbers.append(number)
        self._elapsed_s.append(elapsed_s)
        self._first.append(len(self._values))
        values = measurement.metrics.values()
        types = tuple(map(type, values))
        # in C, for all values at once: this is done for every trial; NaN, which compares as it likes, is kept as it is
        if not NUMBERS.issuperset(types) or (values and not -LARGEST <= min(values) <= max(values) <= LARGEST):
            self._as_they_are[place] = measurement
            self._form.append(-1)
            return
        self._values.extend(values)
        form = tuple(measurement.metrics), types, measurement.failure, measurement.censored
        index = self._form_of.setdefault(form, len(self._forms))
        if index == len(self._forms):
            self._forms.append(form)
        self._form.append(index)

    def get(self, key: CandidateKey) -> KeptTrial | None:
        """The candidate's trial; None where there is none."""
        place = self._places.get(key)
        return None if place is None else self._at(place)

    def number(self, key: CandidateKey) -> int | None:
        """The number of the candidate's trial; None where there is none."""
        place = self._places.get(key)
        return None if place is None else self._numbers[place]

    def numbers(self) -> Iterator[int]:
        """The numbers of all trials."""
        return (self._numbers[place] for place in self._places.values())

    def items(self) -> Iterator[tuple[CandidateKey, KeptTrial]]:
        """All candidates and their trials."""
        return ((key, self._at(place)) for key, place in self._places.items())

    def _at(self, place: int) -> KeptTrial:
        number, elapsed_s = self._numbers[place], self._elapsed_s[place]
        if place in self._as_they_are:
            return KeptTrial(number, self._as_they_are[place], elapsed_s)
        (names, types, failure, censored), first = self._forms[self._form[place]], self._first[place]
        values = self._values[first : first + len(names)]
        metrics = {name: kind(value) for name, kind, value in zip(names, types, values, strict=True)}
        return KeptTrial(number, Measurement(metrics, failure, censored), elapsed_s)
