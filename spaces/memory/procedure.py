"""The paper's own allocator: Shiftry Section 7, Algorithms 15 to 17.

Live ranges here are half-open, the paper's end with the last use: a buffer is dead at an instruction from `upper` on.
Addresses are in bytes. Collide of Algorithm 15 is meant to be true for blocks that share an address.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.checker import Migration, Residence
from kilotune.spaces.memory.instance import Buffer, Instance


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
    memory = MemoryMap((Bank("", memory_limit_bytes),), migration_price=Fraction(0))
    return allocation_in_banks(instance, memory)


def allocation_in_banks(instance: Instance, memory: MemoryMap) -> BlockAllocation:
    """Algorithm 16 over several banks: each buffer goes to the first bank that has a block for it within its capacity; when
    none has, and moves are allowed, to the first one where defragmentation makes room. With one bank it is the paper's."""
    allocation = _Allocation(instance, memory)
    for i in sorted(range(len(instance.buffers)), key=allocation.turn):
        allocation.place(i)
    return allocation.result()


class _Allocation:
    """The buffers placed so far."""

    def __init__(self, instance: Instance, memory: MemoryMap) -> None:
        self.instance, self.memory, self.buffers = instance, memory, instance.buffers
        self.unit = most_frequent_size(instance)
        self.live: list[list[_Block]] = [[] for _ in memory.banks]
        self.home: dict[int, int] = {}
        self.since: dict[int, tuple[int, int]] = {}  # buffer -> its offset, and the point since when it is there
        self.residences: list[Residence] = []
        self.migrations: list[Migration] = []

    def turn(self, i: int) -> tuple[int, int]:
        """When a buffer is placed: at its first definition."""
        return self.buffers[i].lower, self.buffers[i].upper

    def place(self, i: int) -> None:
        """Put a buffer down. DoesNotFitError: there is no room, moves or not."""
        memory, buffer = self.memory, self.buffers[i]
        allowed = memory.allowed(buffer) if len(memory.banks) > 1 else (0,)
        for k in allowed:
            if not memory.banks[k].read_only:
                self.live[k] = [b for b in self.live[k] if self.buffers[b[2]].upper > buffer.lower]  # FreeDead
        blocks = {k: _first_free(self.live[k], i, buffer, block_size(buffer.size, self.unit)) for k in allowed}
        roomy = [k for k in allowed if memory.banks[k].holds(blocks[k][1])]
        if roomy:
            k = self.home[i] = roomy[0]
            insort(self.live[k], blocks[k])
            self.since[i] = blocks[k][0], buffer.lower
        else:
            self._make_room(i, blocks)

    def _make_room(self, i: int, blocks: Mapping[int, _Block]) -> None:
        """Compact the first bank that then holds the buffer."""
        usage = 0
        for k in blocks if self.memory.migration_price is not None else ():
            compact = _defragment(self.buffers, sorted([*self.live[k], blocks[k]]), i)
            usage = max((end for _, end, _ in compact), default=0)
            if self.memory.banks[k].holds(usage) and not self.memory.banks[k].read_only:
                self.live[k], self.home[i] = compact, k
                self.since[i] = (blocks[k][0], self.buffers[i].lower)
                self._record_moves(i, k)
                return
        raise _does_not_fit(self.instance, self.memory, self.buffers[i], usage)

    def _record_moves(self, i: int, k: int) -> None:
        """Note the moves of a bank's live buffers to where they lie now; the one that is placed was nowhere before."""
        point, bank = self.buffers[i].lower, self.memory.banks[k].name
        for start, _, j in self.live[k]:
            source, begun = self.since[j]
            if source == start:
                continue
            if j != i:
                moved = self.buffers[j]
                self.migrations.append(Migration(point, moved.id, source, start, moved.size, bank))
                if begun < point:
                    self.residences.append(Residence(moved.id, begun, point, source, bank))
            self.since[j] = (start, point)

    def result(self) -> BlockAllocation:
        """Once all buffers are placed."""
        for i, (at, point) in self.since.items():
            bank = self.memory.banks[self.home[i]].name
            self.residences.append(Residence(self.buffers[i].id, point, self.buffers[i].upper, at, bank))
        size = {b.id: b.size for b in self.buffers}
        peak_bytes = max((r.offset + size[r.id] for r in self.residences), default=0)
        return BlockAllocation(tuple(self.residences), tuple(self.migrations), peak_bytes)


def _does_not_fit(instance: Instance, memory: MemoryMap, buffer: Buffer, usage: int) -> DoesNotFitError:
    at = f"at program point {buffer.lower}"
    if len(memory.banks) == 1 and usage:
        return DoesNotFitError(
            f"Shiftry's allocator cannot fit {instance.name} in {memory.banks[0].capacity_bytes} bytes: {at} the live "
            f"buffers take {usage} bytes even when compacted."
        )
    return DoesNotFitError(f"Shiftry's allocator cannot fit {instance.name}: {at} no bank has a block for {buffer.id}.")


def most_frequent_size(instance: Instance) -> int:
    """The unit of ComputeBlockSize. Of equally frequent sizes the smallest one: it wastes least (the paper is silent)."""
    counts = Counter(b.size for b in instance.buffers if b.size)
    return min(counts, key=lambda size: (-counts[size], size), default=1)


def block_size(size: int, unit: int) -> int:
    """ComputeBlockSize: the next multiple of the most frequent size (25 with a unit of 16 is 32)."""
    return -(-size // unit) * unit


def _first_free(live: list[_Block], i: int, buffer: Buffer, block: int) -> _Block:
    """Line 14: the least n such that n * blockSize to (n + 1) * blockSize is free (and aligned). What takes no byte lies at the bottom."""
    if not buffer.size:
        return 0, 0, i
    aligned = buffer.alignment // gcd(buffer.alignment, block)  # every so many blocks
    n = 0
    for start, end, _ in live:
        if start < (n + 1) * block and n * block < end:
            n = _next_multiple(-(-end // block), aligned)
    return n * block, (n + 1) * block, i


def _next_multiple(number: int, of: int) -> int:
    return -(-number // of) * of


def _defragment(buffers: tuple[Buffer, ...], live: list[_Block], last: int) -> list[_Block]:
    """Algorithm 17: push the variables towards lower addresses, in the order of their addresses, `last` on top."""
    compact: list[_Block] = []
    top = 0
    for _, _, j in sorted(live, key=lambda block: (block[2] == last, block[0])):
        start = -(-top // buffers[j].alignment) * buffers[j].alignment
        top = start + buffers[j].size
        compact.append((start, top, j))
    return sorted(compact)
