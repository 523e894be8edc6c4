"""Rows of operations that candidates have had before: what a row becomes hangs on the formats of the variables that its operation touches,
of which a search meets the same ones again and again.

A variable's format is a number here: its width, the scale asked for, and the scale that it has so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np

from kilotune.codegen.arrays import Int32Array, IntArray

SCALE_DIGITS = 24
SCALE_AT_ZERO = 1 << (SCALE_DIGITS - 1)
SCALE_MASK = (1 << SCALE_DIGITS) - 1

MOST_KNOWN = 1 << 16
"""Rows that are kept, of all operations together."""

MOST_LOOKED_UP = 32
"""Candidates of a batch whose rows are looked up: those of more are computed together in less time."""


@dataclass(frozen=True)
class VariableFormats:
    """Widths of variables [N, variables], the scales asked for, and those that they have so far."""

    bits: IntArray
    wanted: IntArray
    scales: IntArray


def packed_formats(formats: VariableFormats) -> IntArray:
    """The numbers of formats [N, variables]. OverflowError for a scale that no number has."""
    scales = np.stack([formats.wanted, formats.scales])
    _check(scales)
    wanted, reached = scales + SCALE_AT_ZERO
    return np.asarray(formats.bits << 2 * SCALE_DIGITS | wanted << SCALE_DIGITS | reached)


def _check(scales: IntArray) -> None:
    if np.abs(scales).max(initial=0) >= SCALE_AT_ZERO:
        raise OverflowError(f"a scale of more than {SCALE_DIGITS - 1} binary digits")


def unpacked_formats(numbers: IntArray) -> VariableFormats:
    """The inverse of `packed_formats`."""
    wanted, reached = numbers >> SCALE_DIGITS & SCALE_MASK, numbers & SCALE_MASK
    return VariableFormats(numbers >> 2 * SCALE_DIGITS, wanted - SCALE_AT_ZERO, reached - SCALE_AT_ZERO)


def reached_formats(numbers: IntArray) -> tuple[Int32Array, Int32Array]:
    """Widths [N, variables] of what `packed_formats` has made, and the scales that variables have so far."""
    widths, scales = numbers >> 2 * SCALE_DIGITS, (numbers & SCALE_MASK) - SCALE_AT_ZERO
    return widths.astype(np.int32), scales.astype(np.int32)


Lower = Callable[[int, VariableFormats, IntArray], tuple[Int32Array, IntArray]]
"""From an operation, candidates of which only the formats count that it touches, and the widths of its sums [N] that are asked for, 0
where none is, to its rows [N, columns] and the scales [N, variables] that there are after it."""


@dataclass
class _Operation:
    """What is known of one. `touched` gives the formats, as a tuple, of its `variables`; `known` has, by these and the width of its sums
    where one is asked for, the number of the row, and variables with their formats after it, where they are others."""

    variables: Sequence[int]
    touched: Callable[[list[int]], tuple[int, ...]] = field(init=False)
    known: dict[tuple[int, ...], tuple[int, list[tuple[int, int]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.variables) == 1:  # of one item there would be no tuple
            self.variables = (*self.variables, *self.variables)
        self.touched = itemgetter(*self.variables)


class KnownRows:
    """Lowers candidates operation by operation, of small batches each operation once for the same formats."""

    def __init__(self, variables: int, columns: int, touched: Sequence[Sequence[int]], lower: Lower) -> None:
        """`columns` of a row; `touched`: of each operation, the variables that `lower` reads or writes formats of."""
        self._variables, self._columns, self._touched, self._lower = variables, columns, touched, lower
        self._forget()

    def __reduce__(self) -> tuple[Callable[..., KnownRows], tuple[object, ...]]:
        """What travels to another process is the definition."""
        return KnownRows, (self._variables, self._columns, self._touched, self._lower)

    def lowered(self, formats: list[list[int]], sum_bits: IntArray | None = None) -> tuple[Int32Array, IntArray]:
        """Rows [N, operations, columns] of candidates of these formats, which are changed in place, and the formats [N, variables] at the
        end. `sum_bits` [N, operations]: widths of sums that are asked for."""
        if len(formats) > MOST_LOOKED_UP:
            return self._computed(np.array(formats, dtype=np.int64), sum_bits)
        if self._count > MOST_KNOWN:
            self._forget()
        chosen = []
        for row, operation in enumerate(self._operations):
            keys, known = list(map(operation.touched, formats)), operation.known
            if sum_bits is not None:
                keys = list(map(_with_width, keys, sum_bits[:, row].tolist()))
            try:
                found = [known[key] for key in keys]
            except KeyError:
                new = {key: candidate for candidate, key in enumerate(keys) if key not in known}
                asked = None if sum_bits is None else sum_bits[list(new.values()), row]
                self._learn(row, list(new), [formats[candidate] for candidate in new.values()], asked)
                found = [known[key] for key in keys]
            for candidate, (_, changes) in zip(formats, found, strict=True):
                for variable, changed in changes:
                    candidate[variable] = changed
            chosen.append([number for number, _ in found])
        numbers = np.array(chosen, dtype=np.intp).reshape(len(chosen), len(formats))
        after = np.array(formats, dtype=np.int64).reshape(len(formats), self._variables)
        return self._rows.take(numbers.T, axis=0), after

    def _computed(self, numbers: IntArray, sum_bits: IntArray | None) -> tuple[Int32Array, IntArray]:
        """As `lowered`, without a look at what is known."""
        formats, extents = unpacked_formats(numbers), (len(numbers), len(self._touched))
        asked = np.zeros(extents, dtype=np.int64) if sum_bits is None else sum_bits
        rows = np.empty((*extents, self._columns), dtype=np.int32)
        for row in range(len(self._touched)):
            rows[:, row], scales = self._lower(row, formats, asked[:, row])
            formats = replace(formats, scales=scales)
        return rows, packed_formats(formats)

    def _forget(self) -> None:
        self._operations = [_Operation(variables) for variables in self._touched]
        self._rows, self._count = np.zeros((0, self._columns), dtype=np.int32), 0

    def _learn(
        self, row: int, keys: Sequence[tuple[int, ...]], formats: Sequence[Sequence[int]], sum_bits: IntArray | None
    ) -> None:
        """Know the row of an operation for each of these keys, of which `formats` are those of a candidate."""
        operation, numbers = self._operations[row], np.array(formats, dtype=np.int64)
        before = unpacked_formats(numbers)
        asked = np.zeros(len(keys), dtype=np.int64) if sum_bits is None else sum_bits
        rows, scales = self._lower(row, before, asked)
        _check(scales)
        after = (numbers + (scales - before.scales)).tolist()  # the last digits
        changed = [
            [(variable, now[variable]) for variable in operation.variables if now[variable] != was[variable]]
            for now, was in zip(after, formats, strict=True)
        ]
        learnt = zip(keys, zip(range(self._count, self._count + len(keys)), changed, strict=True), strict=True)
        self._keep(rows)  # first: a search may be abandoned anywhere, and what is known then must have its row
        operation.known.update(learnt)

    def _keep(self, rows: Int32Array) -> None:
        end = self._count + len(rows)
        if end > len(self._rows):
            more = np.zeros((max(end, 2 * len(self._rows)), self._columns), dtype=np.int32)
            more[: self._count] = self._rows[: self._count]
            self._rows = more
        self._rows[self._count : end] = rows
        self._count = end


def _with_width(key: tuple[int, ...], sum_bits: int) -> tuple[int, ...]:
    return (*key, sum_bits)
