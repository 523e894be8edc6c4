"""The paper's own allocator: Shiftry Section 7, Algorithms 15 to 17.

Live ranges here are half-open, the paper's end with the last use: a buffer is dead at an instruction from `upper` on.
Addresses are in bytes. Collide of Algorithm 15 is meant to be true for blocks that share an address.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import dataclass

from kilotune.spaces.memory.checker import Residence
from kilotune.spaces.memory.instance import Buffer, Instance


@dataclass(frozen=True)
class Migration:
    """One tuple of a migrateList: before `point`, the `size` bytes of `id` move from `source` to `target`."""

    point: int
    id: str
    source: int
    target: int
    size: int


@dataclass(frozen=True)
class BlockAllocation:
    """What Algorithm 16 returns: where each buffer lives at which instructions, and what moves in between."""

    residences: tuple[Residence, ...]
    migrations: tuple[Migration, ...]
    peak_bytes: int

    @property
    def bytes_migrated(self) -> int:
        """What one run of the program copies."""
        return sum(migration.size for migration in self.migrations)


class DoesNotFitError(ValueError):
    """Algorithm 16, line 21."""


_Block = tuple[int, int, int]
"""Start, end, index of the buffer; blocks of the live buffers, sorted."""


def block_allocation(instance: Instance, memory_limit_bytes: int | None = None) -> BlockAllocation:
    """Algorithm 16, VarToMemoryLocation. Without a limit nothing is ever migrated. DoesNotFitError: the limit is below
    the live sum of some instruction (or, with alignments, below what compaction reaches)."""
    buffers = instance.buffers
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i].lower, buffers[i].upper))
    unit = most_frequent_size(instance)
    live: list[_Block] = []
    usage = 0
    since: dict[int, tuple[int, int]] = {}  # buffer -> its offset, and the point since when it is there
    residences: list[Residence] = []
    migrations: list[Migration] = []
    for i in order:
        buffer = buffers[i]
        live = [block for block in live if buffers[block[2]].upper > buffer.lower]  # FreeDead
        block = _first_free(live, i, buffer, block_size(buffer.size, unit))
        insort(live, block)
        since[i] = (block[0], buffer.lower)
        usage = max(usage, block[1])
        if memory_limit_bytes is not None and usage > memory_limit_bytes:
            live = _defragment(buffers, live, i)
            usage = max((end for _, end, _ in live), default=0)
            if usage > memory_limit_bytes:
                raise DoesNotFitError(
                    f"Shiftry's allocator cannot fit {instance.name} in {memory_limit_bytes} bytes: at program point "
                    f"{buffer.lower} the live buffers take {usage} bytes even when compacted."
                )
            for start, _, j in live:
                source, point = since[j]
                if source == start:
                    continue
                if j != i:
                    migrations.append(Migration(buffer.lower, buffers[j].id, source, start, buffers[j].size))
                    if point < buffer.lower:
                        residences.append(Residence(buffers[j].id, point, buffer.lower, source))
                since[j] = (start, buffer.lower)
    residences += [Residence(buffers[i].id, point, buffers[i].upper, at) for i, (at, point) in since.items()]
    size = {b.id: b.size for b in buffers}
    peak_bytes = max((r.offset + size[r.id] for r in residences), default=0)
    return BlockAllocation(tuple(residences), tuple(migrations), peak_bytes)


def most_frequent_size(instance: Instance) -> int:
    """The unit of ComputeBlockSize. Of equally frequent sizes the smallest one: it wastes least (the paper is silent)."""
    counts = Counter(b.size for b in instance.buffers if b.size)
    return min(counts, key=lambda size: (-counts[size], size), default=1)


def block_size(size: int, unit: int) -> int:
    """ComputeBlockSize: the next multiple of the most frequent size (25 with a unit of 16 is 32)."""
    return max(-(-size // unit), 1) * unit


def _first_free(live: list[_Block], i: int, buffer: Buffer, block: int) -> _Block:
    """Line 14: the least n such that n * blockSize to (n + 1) * blockSize is free (and aligned)."""
    n = 0
    for start, end, _ in live:
        while n * block % buffer.alignment:
            n += 1
        if start < (n + 1) * block and n * block < end:
            n = -(-end // block)
    while n * block % buffer.alignment:
        n += 1
    return n * block, (n + 1) * block, i


def _defragment(buffers: tuple[Buffer, ...], live: list[_Block], last: int) -> list[_Block]:
    """Algorithm 17: push the variables towards lower addresses, in the order of their addresses, `last` on top."""
    compact: list[_Block] = []
    top = 0
    for _, _, j in sorted(live, key=lambda block: (block[2] == last, block[0])):
        start = -(-top // buffers[j].alignment) * buffers[j].alignment
        top = start + buffers[j].size
        compact.append((start, top, j))
    return sorted(compact)
