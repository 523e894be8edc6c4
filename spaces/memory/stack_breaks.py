"""Where no division of what ends at a point of time fits an order of the stack: who belongs to whom was mistaken earlier, somewhere.

All that was found need not be lost for that. What may still be side by side of what ends is taken together, and what begins is put in
these places as it fits best by size; a place for which nothing is left vanishes. Above a place that is too small all moves up, so the
order that results is no tiling any more, but one that is near it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kilotune.spaces.memory.pq_tree import PQNode, any_order, with_consecutive, with_replaced, without


@dataclass(frozen=True)
class BrokenChange:
    """What ends side by side in all orders of `tree`, and what takes its place, which may be nothing; `after` it."""

    ending: tuple[int, ...]
    beginning: tuple[int, ...]
    tree: PQNode
    after: PQNode


@dataclass(frozen=True)
class StackEvents:
    """What ends or begins at a point of time: the bit of each buffer in a tree, and its size."""

    bits: Mapping[int, int]
    sizes: Mapping[int, int]


def broken_changes(tree: PQNode, ending: StackEvents, beginning: StackEvents) -> tuple[list[BrokenChange], int]:
    """One for each place, and by how many bytes all places together differ from what is put into them."""
    places = _places(tree, ending)
    room = [sum(ending.sizes[buffer] for buffer in place) for place in places]
    chosen: list[list[int]] = [[] for _ in places]
    for buffer in sorted(beginning.sizes, key=lambda one: -beginning.sizes[one]):
        largest = max(range(len(places)), key=room.__getitem__)
        chosen[largest].append(buffer)
        room[largest] -= beginning.sizes[buffer]
    changes = list[BrokenChange]()
    for number in sorted(range(len(places)), key=lambda one: not chosen[one]):
        members = sum(ending.bits[buffer] for buffer in places[number])
        before = with_consecutive(tree, members)
        assert before is not None  # narrowed for all of these, and what was put into others stands in one place
        if chosen[number]:
            tree = with_replaced(
                before, members, any_order({buffer: beginning.bits[buffer] for buffer in chosen[number]})
            )
        else:
            tree = without(before, members)
        changes.append(BrokenChange(tuple(places[number]), tuple(chosen[number]), before, tree))
    return changes, sum(abs(left) for left in room)


def _places(tree: PQNode, ending: StackEvents) -> list[list[int]]:
    """Buffers that may all be side by side, the larger ones first."""
    left, places = sorted(ending.sizes, key=lambda one: -ending.sizes[one]), list[list[int]]()
    while left:
        place, members = list[int](), 0
        for buffer in left:
            narrowed = with_consecutive(tree, members | ending.bits[buffer])
            if narrowed is not None:
                place.append(buffer)
                members |= ending.bits[buffer]
                best = narrowed
        tree = best
        left = [buffer for buffer in left if buffer not in place]
        places.append(place)
    return places
