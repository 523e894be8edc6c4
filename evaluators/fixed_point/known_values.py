"""What the compiled kernel keeps from call to call: the values that groups of a program's steps have come to, by what they hang on.

A search asks for neighbours of candidates that it has asked for before, a few at a time, and most of what they compute has been computed.
`known_values.h` says how that is found again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from kilotune.codegen.fixed.arithmetic import Rounding

MOST_VALUE_BYTES = 16 << 20
"""How much the values may take that are kept; memory that no value has been in yet is not there."""

LEAST_VALUES = 8
"""With room for fewer a program keeps none: what is stored would be gone before it is asked for."""

MOST_VALUES = 32
"""How many values of a group and block are kept at most."""

SMALL_WORK = 100
"""Products and other elements of a sample that are computed as soon as looked up."""

WORTH_KEEPING = 12
"""Products and other elements for each element that is kept, from which on that costs less than it saves."""

ALIGNMENT = 64


def values_with_room(chain_bytes: int) -> int:
    """How many values of each group and block are kept, of a program whose groups keep so many bytes for a candidate; 0 where none are."""
    count = min(MOST_VALUES, MOST_VALUE_BYTES // max(chain_bytes, 1))
    return count if count >= LEAST_VALUES else 0


def without_small_groups(boundaries: Sequence[int], work_of_parts: Sequence[int]) -> list[int]:
    """The boundaries between groups of parts, but for those behind a group of little work."""
    left = [boundaries[0]]
    for end in boundaries[1:-1]:
        if sum(work_of_parts[left[-1] : end]) >= SMALL_WORK:
            left.append(end)
    return [*left, boundaries[-1]]


class KnownValues:
    """The memory of a program, of which each rounding has its own. A call takes it away and gives it back when it has ended: one that was
    abandoned may still write there."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._memories: dict[Rounding, np.ndarray] = {}

    def take(self, rounding: Rounding, library: ctypes.CDLL, c_program: ctypes.Structure) -> np.ndarray:
        """The memory of that rounding, which nobody else has meanwhile. MemoryError."""
        memory = self._memories.pop(rounding, None)
        if memory is not None:
            return memory
        size = int(library.kilotune_memory_bytes(ctypes.byref(c_program), ctypes.c_int32(self.count)))
        if size < 0:
            raise MemoryError("the simulator needs more memory")
        words = np.zeros(size + ALIGNMENT, dtype=np.uint8)
        start = -words.ctypes.data % ALIGNMENT
        return words[start : start + size]

    def give_back(self, rounding: Rounding, memory: np.ndarray) -> None:
        """What `take` has returned."""
        self._memories[rounding] = memory
