"""First fit: a quick placement of blocks in one RAM array, and what every placement is compared with.

Blocks are placed from the largest to the smallest, each at the lowest aligned offset at which it meets no block that
is live at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kilotune.codegen.live_ranges import LiveRange


@dataclass(frozen=True)
class Block:
    """Bytes that must stay together while `live`, at an offset that is a multiple of `alignment`."""

    size_bytes: int
    live: LiveRange
    alignment: int = 1


@dataclass(frozen=True)
class FirstFitPlacement:
    """Offset in bytes of every block, and the bytes that they take together."""

    offsets: Mapping[str, int]
    peak_bytes: int


def first_fit(blocks: Mapping[str, Block], fixed: Mapping[str, int] = MappingProxyType({})) -> FirstFitPlacement:
    """Place every block; those named in `fixed` stay at the offsets given there."""
    offsets = {name: fixed[name] for name in blocks if name in fixed}
    waiting = sorted((name for name in blocks if name not in fixed), key=lambda name: -blocks[name].size_bytes)
    for name in waiting:
        met = ((offsets[other], blocks[other]) for other in offsets if blocks[other].live.overlaps(blocks[name].live))
        offsets[name] = _lowest_offset(blocks[name], met)
    peak = max((offset + blocks[name].size_bytes for name, offset in offsets.items()), default=0)
    return FirstFitPlacement({name: offsets[name] for name in blocks}, peak)


def find_overlap(blocks: Mapping[str, Block], offsets: Mapping[str, int]) -> tuple[str, str] | None:
    """Two blocks that are live at the same time and share bytes; None when the placement is valid."""
    names = list(blocks)
    for number, name in enumerate(names):
        for other in names[:number]:
            apart = (
                offsets[name] + blocks[name].size_bytes <= offsets[other]
                or offsets[other] + blocks[other].size_bytes <= offsets[name]
            )
            if not apart and blocks[name].live.overlaps(blocks[other].live):
                return other, name
    return None


def _lowest_offset(block: Block, met: Iterable[tuple[int, Block]]) -> int:
    offset = 0
    for start, other in sorted(met, key=lambda pair: pair[0]):
        if offset + block.size_bytes <= start:
            break
        offset = max(offset, _align(start + other.size_bytes, block.alignment))
    return offset


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
