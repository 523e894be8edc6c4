"""What is decided of a program's hardware, besides its widths and scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kilotune.codegen.rtl.processing import ColumnShares


@dataclass(frozen=True)
class HardwareDesign:
    """Unroll factors and processing elements by the operation's number in program order; what is not named takes one of each.

    `pipelined`: a register after each part of an operation's arithmetic, for a faster clock; without them a result is there some cycles
    sooner. `ports`: how many operations may read a variable at the same time; a port more is a copy of its memory. `soft`: the operations
    whose multiplications are made of look-up tables where the board has multipliers.
    """

    lanes: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    shares: Mapping[int, ColumnShares] = field(default_factory=lambda: MappingProxyType({}))
    pipelined: bool = True
    ports: int = 1
    soft: frozenset[int] = frozenset()


SEQUENTIAL = HardwareDesign()
"""One step after the other."""
