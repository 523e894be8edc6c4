"""Placements that fall: the lowest buffer first, each to the lowest gap that holds it, then upside down, and so on.

What lay on one another and beside one another mostly stays so, and what was left unused between them moves to the top, where it is no
longer part of the peak.
"""

from __future__ import annotations

import math

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.orders import place_in_order, sorted_by

FALLS = 7
"""How often all buffers fall, each time from the other side."""


def fallen(buffers: BufferArrays, offsets: IntArray) -> IntArray:
    """The lowest of the placements that are met while all fall down, and are turned upside down, in turns: bytes, shape (buffers,)."""
    lowest, least = offsets, math.inf
    for _ in range(FALLS):
        offsets = place_in_order(buffers, sorted_by(offsets))
        peak = int((offsets + buffers.size).max())
        if peak < least:
            lowest, least = offsets, peak
        offsets = peak - buffers.size - offsets
    return lowest
