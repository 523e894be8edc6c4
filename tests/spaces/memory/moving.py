"""The least bytes moved within a capacity, by brute force: dynamic programming over all states of a tiny memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kilotune.spaces.memory.instance import Buffer, Instance

State = tuple[tuple[int, int], ...]
"""(buffer, address) of all that is live, sorted."""


def least_moved(instance: Instance, capacity: int) -> int | None:
    """Bytes moved, each buffer at most once at a point where one begins; None: nothing fits."""
    states: dict[State, int] = {(): 0}
    for point in sorted({b.lower for b in instance.buffers}):
        following: dict[State, int] = {}
        for state, moved in states.items():
            kept = [(i, at) for i, at in state if instance.buffers[i].upper > point]
            for after, cost in _moved(instance, kept, capacity):
                for whole in _born(instance, after, point, capacity):
                    if moved + cost < following.get(whole, 1 << 30):
                        following[whole] = moved + cost
        states = following
    return min(states.values(), default=None)


def _addresses(b: Buffer, capacity: int) -> range:
    return range(0, capacity - b.size + 1, b.alignment)


def _moved(instance: Instance, kept: list[tuple[int, int]], capacity: int) -> Iterator[tuple[dict[int, int], int]]:
    """All that some sequence of memmoves, each buffer at most once, makes of the bytes that are kept."""
    choices = [_addresses(instance.buffers[i], capacity) for i, _ in kept]
    for targets in itertools.product(*choices):
        moves = [
            (i, at, to) for (i, at), to in zip(kept, targets, strict=True) if at != to and instance.buffers[i].size
        ]
        if any(_survives(instance, kept, order) for order in itertools.permutations(moves)):
            after = {i: to for (i, _), to in zip(kept, targets, strict=True)}
            yield after, sum(instance.buffers[i].size for i, _, _ in moves)


def _survives(instance: Instance, kept: list[tuple[int, int]], order: tuple[tuple[int, int, int], ...]) -> bool:
    """Run the memmoves on bytes that say whose they are."""
    cells: dict[int, tuple[int, int]] = {at + k: (i, k) for i, at in kept for k in range(instance.buffers[i].size)}
    at = dict(kept)
    for i, source, target in order:
        data = [cells[source + k] for k in range(instance.buffers[i].size)]
        cells.update({target + k: value for k, value in enumerate(data)})
        at[i] = target
    return all(cells[at[i] + k] == (i, k) for i in at for k in range(instance.buffers[i].size))


def _born(instance: Instance, after: dict[int, int], point: int, capacity: int) -> Iterator[State]:
    new = [i for i, b in enumerate(instance.buffers) if b.lower == point]
    for targets in itertools.product(*(_addresses(instance.buffers[i], capacity) for i in new)):
        whole = {**after, **dict(zip(new, targets, strict=True))}
        blocks = sorted((at, at + instance.buffers[i].size) for i, at in whole.items() if instance.buffers[i].size)
        if all(a[1] <= b[0] for a, b in itertools.pairwise(blocks)):
            yield tuple(sorted(whole.items()))
