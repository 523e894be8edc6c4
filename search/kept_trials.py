"""Measured candidates in little memory: a search of hours measures tens of millions, and must not end for want of it.

The last thousands are objects. Those before lie in blocks: keys in a table (`search.key_table`), numbers in columns of codes
(`search.packed_column`), and what trials have in common, the names of their metrics above all, once. A trial takes some 40 to 60 bytes so,
where a measurement as an object takes about a kilobyte.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kilotune.search.encoding import CandidateKey
from kilotune.search.key_table import KeyTable
from kilotune.search.packed_column import LARGEST, PackedColumn, packed
from kilotune.search.space import Measurement

BLOCK = 4096
"""Trials of a block."""

NUMBERS = frozenset((int, float))
"""What a column holds, but for large whole numbers; a bool would come back as an integer."""


class KeptTrial(NamedTuple):
    """What is known of a candidate: its trial's number, what was measured, and when that ended, in seconds of the study's clock."""

    number: int
    measurement: Measurement
    elapsed_s: float


_Shape = tuple[tuple[str, ...], tuple[type, ...]]
"""Names of metrics and their types."""

_Form = tuple[_Shape, str | None, bool]
"""What measurements have in common: their shape, the failure, and whether they are censored."""

_AS_IT_IS = -1
"""In place of a form: a measurement that is kept as an object."""

_SUPERSEDED = Measurement()
"""In place of such a one that is kept no more."""


@dataclass(frozen=True, slots=True)
class _TrialBlock:
    """Trials, row by row. `rows`: of each its row among those of the same shape; None where there is one shape."""

    least_number: int
    greatest_number: int
    numbers: PackedColumn
    elapsed_s: PackedColumn
    forms: PackedColumn
    rows: PackedColumn | None
    metrics: dict[_Shape, tuple[PackedColumn, ...]]


class KeptTrials:
    """One trial a candidate. What is read is equal to what was put in, whole numbers as whole numbers."""

    def __init__(self, block: int = BLOCK) -> None:
        """`block`: how many trials become one."""
        self._block = block
        self._recent: dict[CandidateKey, KeptTrial] = {}
        self._count = 0
        self._keys, self._blocks = KeyTable(), list[_TrialBlock]()
        self._superseded: set[int] = set()  # places of trials whose candidates came again
        self._forms: list[_Form] = []
        self._form_of: dict[_Form, int] = {}
        self._shapes: dict[_Shape, _Shape] = {}
        self._as_they_are: dict[int, Measurement] = {}  # by place: metrics that no column holds

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: CandidateKey) -> bool:
        return key in self._recent or (bool(self._blocks) and self._keys.place(key) >= 0)

    def put(self, key: CandidateKey, number: int, measurement: Measurement, elapsed_s: float) -> bool:
        """Keep a candidate's trial, instead of another one where there is one; whether there was none."""
        is_new = key not in self._recent and (not self._blocks or self._keys.place(key) < 0)
        self._count += is_new
        self._recent[key] = KeptTrial(number, measurement, elapsed_s)
        if len(self._recent) >= self._block:
            self._seal()
        return is_new

    def get(self, key: CandidateKey) -> KeptTrial | None:
        """The candidate's trial; None where there is none."""
        recent = self._recent.get(key)
        if recent is not None:
            return recent
        place = self._keys.place(key) if self._blocks else -1
        return None if place < 0 else self._at(place)

    def number(self, key: CandidateKey) -> int | None:
        """The number of the candidate's trial; None where there is none."""
        recent = self._recent.get(key)
        if recent is not None:
            return recent.number
        place = self._keys.place(key) if self._blocks else -1
        return None if place < 0 else int(self._blocks[place // self._block].numbers.at(place % self._block))

    def numbered(self, number: int) -> tuple[CandidateKey, KeptTrial] | None:
        """The candidate and the trial of a number; None where there is none."""
        for index, block in enumerate(self._blocks):
            if block.least_number <= number <= block.greatest_number:
                found = next((item for item in self._chain([index]) if item[1].number == number), None)
                if found is not None:
                    return found
        return next((item for item in self._recent.items() if item[1].number == number), None)

    def numbers(self) -> Iterator[int]:
        """The numbers of all trials, in no order."""
        for start, block in enumerate(self._blocks):
            for place, number in enumerate(block.numbers.all(), start * self._block):
                if place not in self._superseded and self._keys.key(place) not in self._recent:
                    yield int(number)
        yield from (trial.number for trial in self._recent.values())

    def by_number(self) -> Iterator[tuple[CandidateKey, KeptTrial]]:
        """All candidates and their trials by number, one made at a time."""
        recent = sorted(self._recent.items(), key=lambda item: item[1].number)
        chains = (self._chain(chain) for chain in _chains(self._blocks))
        return heapq.merge(*chains, recent, key=lambda item: item[1].number)

    def _chain(self, blocks: Iterable[int]) -> Iterator[tuple[CandidateKey, KeptTrial]]:
        for index in blocks:
            trials = self._trials_of(index)
            for row in sorted(range(len(trials)), key=lambda row: trials[row].number):
                place = index * self._block + row
                key = self._keys.key(place)
                if place not in self._superseded and key not in self._recent:
                    yield key, trials[row]

    def _trials_of(self, index: int) -> list[KeptTrial]:
        """All of a block, row by row."""
        block = self._blocks[index]
        metrics = {
            shape: list(zip(*(c.all() for c in columns), strict=True)) for shape, columns in block.metrics.items()
        }
        forms = block.forms.all()
        rows = range(len(forms)) if block.rows is None else block.rows.all()
        trials = []
        for at, (number, elapsed_s, form, row) in enumerate(
            zip(block.numbers.all(), block.elapsed_s.all(), forms, rows, strict=True)
        ):
            if form == _AS_IT_IS:
                measurement = self._as_they_are.get(index * self._block + at, _SUPERSEDED)
            else:
                shape, failure, censored = self._forms[int(form)]
                values = metrics[shape][int(row)] if shape[0] else ()
                measurement = Measurement(dict(zip(shape[0], values, strict=True)), failure, censored)
            trials.append(KeptTrial(int(number), measurement, elapsed_s))
        return trials

    def _at(self, place: int) -> KeptTrial:
        block, row = self._blocks[place // self._block], place % self._block
        number, elapsed_s = int(block.numbers.at(row)), block.elapsed_s.at(row)
        form = block.forms.at(row)
        if form == _AS_IT_IS:
            return KeptTrial(number, self._as_they_are[place], elapsed_s)
        shape, failure, censored = self._forms[int(form)]
        if block.rows is not None:
            row = int(block.rows.at(row))
        metrics = {name: column.at(row) for name, column in zip(shape[0], block.metrics[shape], strict=True)}
        return KeptTrial(number, Measurement(metrics, failure, censored), elapsed_s)

    def _seal(self) -> None:
        """Make a block of the recent trials."""
        forms, rows, values = list[int](), list[int](), dict[_Shape, list[Sequence[float]]]()
        for key, trial in self._recent.items():
            before = self._keys.put(key)
            if before >= 0:
                self._superseded.add(before)
                self._as_they_are.pop(before, None)
            shape = self._shape(trial.measurement)
            if shape is None:
                self._as_they_are[len(self._keys) - 1] = trial.measurement
                forms.append(_AS_IT_IS)
                rows.append(0)
                continue
            form = shape, trial.measurement.failure, trial.measurement.censored
            forms.append(self._form_of.setdefault(form, len(self._forms)))
            if forms[-1] == len(self._forms):
                self._forms.append(form)
            of_shape = values.setdefault(shape, [])
            rows.append(len(of_shape))
            of_shape.append(tuple(trial.measurement.metrics.values()))
        trials = list(self._recent.values())
        numbers = np.array([trial.number for trial in trials])
        block = _TrialBlock(
            least_number=int(numbers.min()),
            greatest_number=int(numbers.max()),
            numbers=packed(numbers),
            elapsed_s=packed(np.array([trial.elapsed_s for trial in trials], dtype=float)),
            forms=packed(np.array(forms)),
            rows=None if rows[-1] == len(rows) - 1 else packed(np.array(rows)),
            metrics={shape: _columns(shape, of_shape) for shape, of_shape in values.items()},
        )
        self._blocks.append(block)
        self._recent.clear()

    def _shape(self, measurement: Measurement) -> _Shape | None:
        """The measurement's, the same object every time; None where no columns hold its metrics."""
        values = measurement.metrics.values()
        types = tuple(map(type, values))
        if not NUMBERS.issuperset(types):
            return None
        # in C, for all values at once; what is not comparable (NaN) comes to the next line as well
        large = values and not -LARGEST <= min(values) <= max(values) <= LARGEST
        if large and any(kind is int and abs(value) > LARGEST for value, kind in zip(values, types, strict=True)):
            return None
        shape = tuple(measurement.metrics), types
        return self._shapes.setdefault(shape, shape)


def _columns(shape: _Shape, values: Sequence[Sequence[float]]) -> tuple[PackedColumn, ...]:
    """One for each metric; values: shape (trials, metrics)."""
    by_metric = zip(*values, strict=True)
    return tuple(
        packed(np.array(column, dtype=np.int64 if kind is int else np.float64))
        for column, kind in zip(by_metric, shape[1], strict=True)
    )


def _chains(blocks: Sequence[_TrialBlock]) -> list[list[int]]:
    """The blocks in as few sequences as may be in which numbers ascend from each to the next: one, but for processes that share a study."""
    chains: list[list[int]] = []
    for index in sorted(range(len(blocks)), key=lambda index: blocks[index].least_number):
        before = next((c for c in chains if blocks[c[-1]].greatest_number < blocks[index].least_number), None)
        if before is None:
            chains.append([index])
        else:
            before.append(index)
    return chains
