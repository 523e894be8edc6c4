"""Which units wait for which, without ports of memories: what bounds the cycles of a design from below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen.rtl.timeline import depends
from kilotune.codegen.rtl.units import Item, Repeat


@dataclass(frozen=True)
class Waiting:
    """An item of a body: a unit by its name, or `count` times the body of a loop. `after`: the items before it that it waits for."""

    item: Item
    name: str
    count: int
    body: tuple[Waiting, ...]
    after: tuple[int, ...]


def waiting(items: Sequence[Item]) -> tuple[Waiting, ...]:
    """The items of a body with what each waits for."""
    result = []
    for number, item in enumerate(items):
        after = tuple(earlier for earlier in range(number) if depends(items[earlier], item))
        if isinstance(item, Repeat):
            result.append(Waiting(item, "", item.count, waiting(item.body), after))
        else:
            result.append(Waiting(item, item.name, 0, (), after))
    return tuple(result)


def least_cycles(body: Sequence[Waiting], cycles: Mapping[str, int]) -> int:
    """How long a body takes where each unit starts as soon as what it needs is there. `cycles` of each unit."""
    ends: list[int] = []
    for item in body:
        taken = cycles[item.name] if item.name else item.count * (1 + least_cycles(item.body, cycles))
        ends.append(max((ends[earlier] for earlier in item.after), default=0) + taken)
    return max(ends, default=0)
