"""What candidates have come to that mean the same to the last shift: a search goes back to some, and decisions that differ are often
the same program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MOST_KNOWN_BYTES = 16 << 20
"""How much the outputs that are kept may take, with their keys."""


class KnownRun(NamedTuple):
    """`outputs` [samples, elements of the result] and `margin_sums` [3, words] of a candidate."""

    outputs: np.ndarray
    margin_sums: np.ndarray


class KnownRuns:
    """The latest runs by their keys."""

    def __init__(self) -> None:
        self._runs: dict[bytes, KnownRun] = {}
        self._bytes = 0

    def find(self, keys: list[bytes]) -> dict[int, KnownRun]:
        """Those of the keys that are known, by their places."""
        runs = self._runs
        return {place: runs[key] for place, key in enumerate(keys) if key in runs}

    def add(self, keys: Sequence[bytes], outputs: np.ndarray, margin_sums: np.ndarray) -> None:
        """Keep runs, which are the caller's no more: outputs [keys, ...], sums [keys, ...]. The oldest ones are forgotten where there is no
        room."""
        for key, *run in zip(keys, outputs, margin_sums, strict=True):
            self._add(key, KnownRun(*run))

    def _add(self, key: bytes, run: KnownRun) -> None:
        size = len(key) + run.outputs.nbytes + run.margin_sums.nbytes
        if size > MOST_KNOWN_BYTES or key in self._runs:
            return
        self._runs[key] = run
        self._bytes += size
        while self._bytes > MOST_KNOWN_BYTES:
            oldest = next(iter(self._runs))
            gone = self._runs.pop(oldest)
            self._bytes -= len(oldest) + gone.outputs.nbytes + gone.margin_sums.nbytes


def row_keys(ending: bytes, *columns: np.ndarray) -> list[bytes]:
    """The bytes of each row of arrays of 32 or 64 bits [rows, ...], and `ending`."""
    words = [np.ascontiguousarray(one).reshape(len(one), math.prod(one.shape[1:])).view(np.int32) for one in columns]
    joined = np.concatenate(words, axis=1)
    text, size = joined.tobytes(), joined.shape[1] * joined.itemsize
    return [text[start : start + size] + ending for start in range(0, len(text), size)]
