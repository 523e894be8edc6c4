"""Banks of memories: element e of a variable with B banks, a power of two, lies in bank e mod B at address e div B.

A bank is read once a cycle by each port and written once, so lanes must never meet in one at different addresses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kilotune.codegen.rtl.nests import Reach, StepNest

MOST_BANKS = 128


def free_of_conflicts(banks: int, lanes: int, lane_stride: int) -> bool:
    """Whether lanes at that distance always meet different banks, or all read the same element."""
    return lane_stride == 0 or banks // math.gcd(banks, lane_stride) >= lanes


def least_banks(accesses: Iterable[tuple[int, int]]) -> int | None:
    """The least number of banks that suits all accesses of (lanes, distance of neighbouring lanes); None beyond MOST_BANKS."""
    wanted, banks = list(accesses), 1
    while banks <= MOST_BANKS:
        if all(free_of_conflicts(banks, lanes, stride) for lanes, stride in wanted):
            return banks
        banks *= 2
    return None


def visited_banks(
    reach: Reach, nest: StepNest, loops: Mapping[str, tuple[int, int]], banks: int
) -> tuple[frozenset[int], ...]:
    """The banks that each lane meets at some step. `loops`: start and count of the loops around, by index."""
    residues = {reach.offset.constant % banks}
    for extent, stride in zip(nest.extents, reach.strides, strict=True):
        residues = _moved(residues, range(extent), stride, banks)
    for index, factor in reach.offset.terms:
        start, count = loops[index]
        residues = _moved(residues, range(start, start + count), factor, banks)
    return tuple(
        frozenset((residue + lane * reach.lane_stride) % banks for residue in residues) for lane in range(nest.lanes)
    )


def _moved(residues: set[int], values: range, stride: int, banks: int) -> set[int]:
    steps = {value * stride % banks for value in values}
    return {(residue + step) % banks for residue in residues for step in steps}


def bank_depth(size: int, banks: int, bank: int) -> int:
    """How many of `size` elements lie in a bank."""
    return len(range(bank, size, banks))
