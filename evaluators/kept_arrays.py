"""Arrays that compiled code is given the addresses of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class KeptArrays:
    """Arrays that must live as long as the C code has their addresses."""

    def __init__(self) -> None:
        self._kept: list[NDArray[np.generic]] = []

    def pointer(self, array: NDArray[np.generic]) -> int:
        """The address of its data, in C's order."""
        self._kept.append(np.ascontiguousarray(array))
        return int(self._kept[-1].__array_interface__["data"][0])  # `ctypes.data` takes twice as long

    def ints(self, values: Sequence[int]) -> int:
        """The address of an array of 32 bits each."""
        return self.pointer(np.array(values, dtype=np.int32))

    def pointers(self, arrays: Sequence[NDArray[np.generic]]) -> int:
        """The address of an array of their addresses."""
        return self.pointer(np.array([self.pointer(array) for array in arrays], dtype=np.uint64))

    def grouped(self, lists: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Where each list begins, and all their items."""
        begins = np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int32)
        return self.pointer(begins), self.ints([item for one in lists for item in one])
