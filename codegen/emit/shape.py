"""How inner loops are written: what trades flash for time and changes no result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class CodeShape:
    """`unroll`: how many steps of a run of products stand in a round of its loop, at most; 0 for one. A convolution copies what lies under
    its window first where either is given.

    `rows`: with how many rows of weights at a time an operand is multiplied, by calls for all rows that take products in pairs where
    the processor has instructions for that; 0 for a call a row, with single products.

    `places`: how many places of a convolution's window meet these rows at a time: one, or two, which then meet two rows.

    `vectors`: these products are taken a vector at a time, where the processor has instructions for that, instead of in pairs.

    `shared`: what several places compute is a function that they call (`sharing`), and loops are short rather than fast."""

    rows: int = 0
    unroll: int = 0
    shared: bool = False
    places: int = field(default=1, metadata={"content_absent_as": 1})
    vectors: bool = field(default=False, metadata={"content_absent_as": False})


PLAIN = "plain"
"""The name of code that trades nothing."""

COMPACT = "compact"
"""The name of code for the least flash, which any processor may have."""

SHAPES: Mapping[str, CodeShape] = MappingProxyType(
    {
        PLAIN: CodeShape(),
        "rows1": CodeShape(1),
        "rows2": CodeShape(2),
        "rows4": CodeShape(4),
        "places2": CodeShape(4, places=2),
        "vectors1": CodeShape(1, vectors=True),
        "vectors4": CodeShape(4, vectors=True),
        "unrolled8": CodeShape(unroll=8),
        "unrolled16": CodeShape(unroll=16),
        COMPACT: CodeShape(shared=True),
    }
)
"""By name. More rows than four need more registers than a Cortex-M4 has."""

AUTO = "auto"
"""Instead of a name: the processor's fastest shape where programs are to be fast, and the plain one otherwise."""
