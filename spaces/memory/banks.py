"""What memory there is and what its use costs: banks, and moves between program points.

The cost of a placement, in bytes of peak: the peaks of the banks without a capacity, plus what the bytes in priced banks
cost, plus the migration price of every byte moved. A read-only bank (flash) takes constants only; what lies there stays
for the whole program, so live ranges do not count in it, and its peak costs nothing: the constants are in flash anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import lcm

from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.instance import Buffer, Instance

LARGEST_COST = 1 << 62
"""What sums of CP-SAT hold."""


@dataclass(frozen=True)
class Bank:
    """`price`: bytes of peak that one byte of a buffer costs that lives here. Without a capacity the peak itself counts."""

    name: str
    capacity_bytes: int | None = None
    price: Fraction = Fraction(0)
    read_only: bool = False

    @property
    def peak_counts(self) -> bool:
        """Whether a byte of peak is a byte of cost."""
        return self.capacity_bytes is None and not self.read_only

    def holds(self, peak_bytes: int) -> bool:
        """Whether a peak is within the capacity."""
        return self.capacity_bytes is None or peak_bytes <= self.capacity_bytes


@dataclass(frozen=True)
class MemoryMap:
    """`migration_price`: bytes of peak that one moved byte costs; None: buffers stay where they are put.

    `most_moves`: how often one buffer may move; None: at every point where a buffer begins.
    """

    banks: tuple[Bank, ...]
    migration_price: Fraction | None = None
    most_moves: int | None = None

    @cached_property
    def by_name(self) -> dict[str, Bank]:
        """Banks by their names."""
        return {bank.name: bank for bank in self.banks}

    @cached_property
    def scale(self) -> int:
        """By which all prices are whole numbers."""
        return lcm(*(bank.price.denominator for bank in self.banks), (self.migration_price or Fraction(0)).denominator)

    def fits_a_solver(self, instance: Instance, moved_bytes: int = 0) -> bool:
        """Whether all costs, in whole numbers, are below `LARGEST_COST`, where so many bytes move at most."""
        total = sum(b.size + b.alignment - 1 for b in instance.buffers)
        living = total * (len(self.banks) + max(bank.price for bank in self.banks))
        return self.scale * (living + moved_bytes * (self.migration_price or Fraction(0))) < LARGEST_COST

    def allowed(self, buffer: Buffer) -> tuple[int, ...]:
        """Indices of the banks that may hold a buffer, in the order of the map."""
        return tuple(
            k
            for k, bank in enumerate(self.banks)
            if (not buffer.banks or bank.name in buffer.banks)
            and (buffer.constant or not bank.read_only)
            and bank.holds(buffer.size)
        )


def require_banks(instance: Instance, memory: MemoryMap) -> None:
    """ValueError, naming the buffer, when one has no bank that may hold it or names a bank that does not exist."""
    names = ", ".join(bank.name for bank in memory.banks)
    for b in instance.buffers:
        for name in b.banks:
            if name not in memory.by_name:
                raise ValueError(f"{instance.name}: buffer {b.id!r}: expected banks among {names}, found {name!r}.")
        if not memory.allowed(b):
            what = "constant" if b.constant else "not constant"
            listed = "any bank" if not b.banks else " or ".join(b.banks)
            raise ValueError(
                f"{instance.name}: no bank may hold buffer {b.id!r} ({b.size} bytes, {what}, {listed}): expected one "
                f"among {names} with that capacity."
            )


def require_total(instance: Instance, memory: MemoryMap) -> None:
    """ValueError, naming the program point and the buffers, when what is live there exceeds the banks that may hold it."""
    bounded = [
        b for b in instance.buffers if all(memory.banks[k].capacity_bytes is not None for k in memory.allowed(b))
    ]
    holding = sorted({k for b in bounded for k in memory.allowed(b)})
    together = sum(memory.banks[k].capacity_bytes or 0 for k in holding)
    # Over several banks the sizes rounded to an alignment prove nothing.
    aligned = len(holding) == 1
    listed = tuple(b if aligned else replace(b, alignment=1) for b in bounded)
    found = largest_live_sum(Instance(instance.name, listed))
    if found.peak_bytes > together:
        names = " and ".join(memory.banks[k].name for k in holding)
        raise ValueError(f"{together} bytes in {names} are too few for {instance.name}: {found.sentence()}.")
