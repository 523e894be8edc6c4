"""Numbers of many trials in few bytes, each of which can still be read by itself, to the last bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LARGEST = 1 << 53
"""Whole numbers up to here are doubles without loss."""

CODES = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True, slots=True)
class PackedColumn:
    """Numbers as what is to be added to the least of them, as indices into a table of those that differ, or as they are.

    `codes`: shape (numbers,). `table`: those that differ; None where there is none. `least`: what codes without a table are added to;
    None: they are the numbers.
    """

    codes: np.ndarray
    table: np.ndarray | None
    least: float | None

    def at(self, row: int) -> float:
        """A number; those of an integer column as integers."""
        code = self.codes.item(row)
        if self.table is not None:
            return self.table.item(code)  # type: ignore[no-any-return]
        return code if self.least is None else self.least + code  # type: ignore[no-any-return]

    def all(self) -> list[float]:
        """All numbers."""
        if self.table is not None:
            return self.table[self.codes].tolist()  # type: ignore[no-any-return]
        codes: list[float] = self.codes.tolist()
        return codes if self.least is None else [self.least + code for code in codes]


def packed(numbers: np.ndarray) -> PackedColumn:
    """`numbers`: at least one, shape (numbers,), int64 (at most `LARGEST` in size) or float64."""
    bits = numbers.view(np.int64)
    if (bits == bits[0]).all():  # a code that takes no memory
        return PackedColumn(np.broadcast_to(np.uint8(0), len(numbers)), numbers[:1].copy(), None)
    best = _by_distance(numbers, bits) or PackedColumn(numbers.copy(), None, None)
    if best.codes.itemsize == 1:
        return best
    different, indices = np.unique(bits, return_inverse=True)
    kind = _least_kind(len(different) - 1)
    if len(bits) * np.dtype(kind).itemsize + different.nbytes < best.codes.nbytes:
        return PackedColumn(indices.reshape(-1).astype(kind), different.view(numbers.dtype), None)
    return best


def _by_distance(numbers: np.ndarray, bits: np.ndarray) -> PackedColumn | None:
    """Whole numbers that are close together; None for others."""
    least, greatest = numbers.min(), numbers.max()
    if not (least >= -LARGEST and greatest <= LARGEST and greatest - least <= np.iinfo(CODES[-1]).max):
        return None
    whole = numbers.astype(np.int64)
    if not (whole.astype(numbers.dtype).view(np.int64) == bits).all():
        return None
    return PackedColumn((whole - int(least)).astype(_least_kind(int(greatest - least))), None, least.item())


def _least_kind(greatest: int) -> type[np.unsignedinteger]:
    """The shortest codes that go so far."""
    return next(kind for kind in CODES if greatest <= np.iinfo(kind).max)
