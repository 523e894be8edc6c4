"""Dynamic storage allocation: buffers that are live for some time and want an address (Shiftry Section 7).

A buffer is live in the half-open range [lower, upper) of program points and takes `size` bytes from an address that is
a multiple of its alignment. Two buffers that are live at the same point may not share a byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Buffer:
    """One rectangle: time across, address up. Sizes and alignments are in bytes.

    Where there are several banks: `banks` names those that may hold it (empty: any); a constant is only read, so it may
    stay in a read-only bank.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    banks: tuple[str, ...] = ()
    constant: bool = False

    def overlaps(self, other: Buffer) -> bool:
        """Whether both are live at some point."""
        return self.lower < other.upper and other.lower < self.upper


@dataclass(frozen=True)
class Instance:
    """A placement problem. `name` is for messages and reports."""

    name: str
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True)
class Placement:
    """An offset in bytes for every buffer id."""

    offsets: Mapping[str, int]

    def peak_bytes(self, instance: Instance) -> int:
        """One past the highest byte used."""
        return max((self.offsets[b.id] + b.size for b in instance.buffers), default=0)
