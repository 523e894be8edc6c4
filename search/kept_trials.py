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

EXACT_IN_DOUBLE = 1 << 53
"""Whole numbers up to here are doubles without loss."""


class KeptTrial(NamedTuple):
    """What is known of a candidate: its trial's number, what was measured, and when that ended, in seconds of the study's clock."""

    number: int
    measurement: Measurement
    elapsed_s: float


class _Form(NamedTuple):
    """What measurements have in common."""

    metrics: tuple[str, ...]
    types: tuple[type, ...]
    failure: str | None
    censored: bool


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
        if not all(map(_is_double, values)):
            self._as_they_are[place] = measurement
            self._form.append(-1)
            return
        self._values.extend(values)
        form = _Form(tuple(measurement.metrics), tuple(map(type, values)), measurement.failure, measurement.censored)
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
        form, first = self._forms[self._form[place]], self._first[place]
        values = self._values[first : first + len(form.metrics)]
        metrics = {name: kind(value) for name, kind, value in zip(form.metrics, form.types, values, strict=True)}
        return KeptTrial(number, Measurement(metrics, form.failure, form.censored), elapsed_s)


def _is_double(value: object) -> bool:
    """Whether a double keeps the value as it is."""
    return type(value) is float or (type(value) is int and -EXACT_IN_DOUBLE <= value <= EXACT_IN_DOUBLE)
