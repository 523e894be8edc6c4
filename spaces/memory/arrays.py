"""An instance as arrays: what the compiled code and the sort keys read. Time shrinks to sections.

A section is a maximal set of buffers that are live together (a maximal clique of the interval graph). Two buffers
conflict when they share one, and the largest live sum is the heaviest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.spaces.memory.instance import Instance

NumberT = TypeVar("NumberT", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class BufferArrays:
    """Shape (buffers,) each, in the order of the instance. Sizes and alignments in bytes."""

    lower: IntArray
    upper: IntArray
    size: IntArray
    alignment: IntArray

    @classmethod
    def of(cls, instance: Instance) -> BufferArrays:
        table = np.array([(b.lower, b.upper, b.size, b.alignment) for b in instance.buffers], dtype=np.int64).reshape(
            -1, 4
        )
        return cls(*(np.ascontiguousarray(table[:, i]) for i in range(4)))

    def __len__(self) -> int:
        return len(self.size)

    def subset(self, members: npt.NDArray[np.intp]) -> BufferArrays:
        """The buffers at these indices."""
        return BufferArrays(self.lower[members], self.upper[members], self.size[members], self.alignment[members])

    @cached_property
    def sections(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
        """First and one past the last section of every buffer, and the number of sections."""
        n = len(self)
        begins, ends = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        times = np.concatenate([self.upper, self.lower])
        is_begin = np.concatenate([np.zeros(n, dtype=bool), np.ones(n, dtype=bool)])
        order = np.lexsort((is_begin, times))  # what ends at a point goes before what begins there
        starts = is_begin[order]
        # A section closes at the first end after a begin; the next begin opens another one.
        opens = starts & ~np.concatenate([[False], starts[:-1]])
        current = np.cumsum(opens) - 1
        buffers = order % n if n else order
        begins[buffers[starts]] = current[starts]
        ends[buffers[~starts]] = current[~starts] + 1
        return begins, ends, int(current[-1]) + 1 if n else 0

    @cached_property
    def section_bytes(self) -> IntArray:
        """Shape (sections,): live bytes."""
        begins, ends, count = self.sections
        change = np.zeros(count + 1, dtype=np.int64)
        np.add.at(change, begins, self.size)
        np.subtract.at(change, ends, self.size)
        return np.cumsum(change)[:count]

    @cached_property
    def area(self) -> FloatArray:
        """Size times life of each buffer: that of gigabytes and seconds in nanoseconds is more than integers of 64 bits hold."""
        area: FloatArray = np.multiply(self.size, self.upper - self.lower, dtype=np.float64)
        return area

    @cached_property
    def load(self) -> IntArray:
        """The largest live sum during each buffer's life, in bytes."""
        return self.over_life(self.section_bytes)

    def over_life(self, values: npt.NDArray[NumberT]) -> npt.NDArray[NumberT]:
        """The largest of `values` (one a section) during each buffer's life."""
        begins, ends, count = self.sections
        table = [values]  # maxima over stretches of 1, 2, 4, ... sections
        while 2 << (len(table) - 1) <= count:
            step = 1 << (len(table) - 1)
            table.append(np.maximum(table[-1][:-step], table[-1][step:]))
        levels = np.floor(np.log2(np.maximum(ends - begins, 1))).astype(np.int64)
        result = np.zeros(len(self), dtype=values.dtype)
        for level, row in enumerate(table):
            at = np.flatnonzero(levels == level)
            result[at] = np.maximum(row[begins[at]], row[ends[at] - (1 << level)])
        return result

    @cached_property
    def conflicts(self) -> IntArray:
        """How many other buffers each one is live together with."""
        ended = np.searchsorted(np.sort(self.upper), self.lower, side="right")
        not_begun = len(self) - np.searchsorted(np.sort(self.lower), self.upper, side="left")
        return (len(self) - ended - not_begun - 1).astype(np.int64)

    def occupied_components(self) -> list[npt.NDArray[np.intp]]:
        """The components of the buffers that take any bytes, as indices into all of them."""
        there = np.flatnonzero(self.size > 0)
        return [there[members] for members in self.subset(there).components()]

    def components(self) -> Iterator[npt.NDArray[np.intp]]:
        """Indices of the buffers of each connected part: parts are never live together."""
        begins, ends, count = self.sections
        crossing = np.zeros(count + 1, dtype=np.int64)
        np.add.at(crossing, begins + 1, 1)
        np.subtract.at(crossing, ends, 1)
        part_of_section = np.cumsum(np.cumsum(crossing)[:count] == 0) - 1
        part = part_of_section[begins] if count else begins
        order = np.argsort(part, kind="stable")
        bounds = np.flatnonzero(np.diff(part[order])) + 1
        yield from (members for members in np.split(order, bounds) if len(members))
