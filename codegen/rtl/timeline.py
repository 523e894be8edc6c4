"""When every unit starts: dependences, ports of memories, and the cycle at which all is done.

A unit starts in the cycle in which the last one that it waits for is done. Every duration is known, so the one that is last is known
too, and one wire starts a unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen.rtl.units import Item, NestUnit, Repeat, SparseUnit


@dataclass(frozen=True)
class Start:
    """When an item of a body starts and is done, in cycles from the start of the body; `after`: the item whose end starts it (None: the
    body's start). `slots`: the read ports that it has of each variable, at most as many as it needs at once."""

    begin: int
    end: int
    after: int | None
    slots: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Timeline:
    """The starts of a body's items, and of the bodies of its loops by the item's number."""

    starts: tuple[Start, ...]
    inner: Mapping[int, Timeline]

    @property
    def cycles(self) -> int:
        """From the start of the body to the cycle in which its last item is done."""
        return max((start.end for start in self.starts), default=0)

    @property
    def last(self) -> int:
        """The item that is done last."""
        return max(range(len(self.starts)), key=lambda i: self.starts[i].end)


def sites(item: Item) -> dict[str, int]:
    """How many elements of each variable a unit reads in one step (lanes apart), at most."""
    if isinstance(item, SparseUnit):
        return {item.operation.b.variable: len(item.steps)}
    if isinstance(item, NestUnit):
        return {name: len({r for r in item.nest.reads if r and r.variable == name}) for name in item.reads}
    most: dict[str, int] = {}
    for part in item.body:
        for name, count in sites(part).items():
            most[name] = max(most.get(name, 0), count)
    return most


def port_counts(items: Sequence[Item], ports: int, constant: frozenset[str]) -> dict[str, int]:
    """Read ports of every variable but the `constant` ones: `ports`, or what a unit needs at once; one of what is read once."""
    readers: dict[str, list[int]] = {}

    def collect(body: Sequence[Item]) -> None:
        for item in body:
            if isinstance(item, Repeat):
                collect(item.body)
                continue
            for name, count in sites(item).items():
                readers.setdefault(name, []).append(count)

    collect(items)
    return {name: max(*c, min(ports, sum(c))) for name, c in readers.items() if name not in constant}


def schedule(items: Sequence[Item], ports: Mapping[str, int]) -> Timeline:
    """Each item as soon as what it needs is written, what it overwrites is read, and ports are free, in program order.

    `ports` of each variable; those that it does not name are read without a port. A loop takes all ports of what it reads.
    """
    starts: list[Start] = []
    inner: dict[int, Timeline] = {}
    # of each port the item that had it last
    holders: dict[str, list[int | None]] = {name: [None] * count for name, count in ports.items()}

    def ended(number: int | None) -> int:
        return -1 if number is None else starts[number].end

    for number, item in enumerate(items):
        waits: list[int | None] = [None]
        waits += [p for p in range(number) if depends(items[p], item)]
        slots: dict[str, tuple[int, ...]] = {}
        for name, count in sites(item).items():
            if name not in holders:
                continue
            held = holders[name]
            order = sorted(range(len(held)), key=lambda slot: (ended(held[slot]), slot))
            slots[name] = tuple(sorted(order if isinstance(item, Repeat) else order[:count]))
            waits += [held[slot] for slot in slots[name]]
            for slot in slots[name]:
                held[slot] = number
        after = max(waits, key=ended)
        begin = max(0, ended(after))
        if isinstance(item, Repeat):
            inner[number] = schedule(item.body, ports)
            duration = item.count * (1 + inner[number].cycles)
        else:
            duration = item.duration
        starts.append(Start(begin, begin + duration, after, slots))
    return Timeline(tuple(starts), inner)


def depends(earlier: Item, later: Item) -> bool:
    """Whether one has to wait for the other that stands before it."""
    return bool(earlier.writes & (later.reads | later.writes) or earlier.reads & later.writes)
