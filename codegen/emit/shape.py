"""How inner loops are written: what trades flash for time and changes no result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class CodeShape:
    """`rows`: with how many rows of weights at a time an operand is multiplied, by calls for all rows that take products in pairs where
    the processor has instructions for that; 0 for a call a row, with single products."""

    rows: int = 0


PLAIN = "plain"
"""The name of the smallest code."""

SHAPES: Mapping[str, CodeShape] = MappingProxyType(
    {PLAIN: CodeShape(), "rows1": CodeShape(1), "rows2": CodeShape(2), "rows4": CodeShape(4)}
)
"""By name. More rows than four need more registers than a Cortex-M4 has."""
