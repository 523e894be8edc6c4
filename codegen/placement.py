"""Where temporaries live in RAM: offsets that respect an `Interference`, for one assignment of widths.

A greedy pass places temporaries in some order, each at the lowest aligned offset that no earlier one forbids. The first
order, from the largest to the smallest, nearly always reaches the largest sum of sizes held together, which nothing can
beat; where it does not, other orders are tried, and then single temporaries are moved in the best of them. Operations
go backward only where that takes less RAM. The same widths are always placed alike, so that a search and the C emitted
for its answer agree.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kilotune.codegen.interference import Interference, Meeting

REPAIRS = 60
"""Passes with one temporary moved, when no static order reaches the bound."""


@dataclass(frozen=True)
class PlacedVariables:
    """Offset in bytes by temporary; `peak_bytes` is their extent, and `bound_bytes` what no placement goes below."""

    offsets: Mapping[str, int]
    peak_bytes: int
    bound_bytes: int


class Placer:
    """Places the temporaries of one program for any widths.

    Temporaries are numbered as in `interference.names`: `apart` are pairs (smaller number first) that share no byte, `meetings`
    (meeting, result, operand) those that may share some, `two_ways` whether the operations of some of these may go backward,
    `instants` ([held], [meetings]) what holds values together; `life` is the number of instants in which a temporary is held,
    `start` the first of them.
    """

    def __init__(self, interference: Interference) -> None:
        self.interference = interference
        names = interference.names
        self._index = {name: i for i, name in enumerate(names)}
        pairs = ((self._index[a], self._index[b]) for a, b in interference.apart)
        apart = {(min(pair), max(pair)) for pair in pairs}
        self.apart = sorted(apart)
        numbered = ((m, self._index[m.result], self._index[m.operand]) for m in interference.meetings)
        self.meetings = [(m, a, b) for m, a, b in numbered if (min(a, b), max(a, b)) not in apart]
        self.two_ways = any(meeting.order.backward is not None for meeting, _, _ in self.meetings)
        self.instants = [
            (
                [self._index[name] for name in sorted(instant.held)],
                [(m, self._index[m.result], self._index[m.operand]) for m in instant.meetings],
            )
            for instant in interference.instants
        ]
        lives = Counter(name for instant in interference.instants for name in instant.held)
        self.life = [lives[name] for name in names]
        first: dict[str, int] = {}
        for number, instant in enumerate(interference.instants):
            for name in instant.held:
                first.setdefault(name, number)
        self.start = [first.get(name, 0) for name in names]

    def place(self, bits: Mapping[str, int], fixed: Mapping[str, int] = MappingProxyType({})) -> PlacedVariables:
        """The best placement found for widths in bits by variable, and the bound; those of `fixed` stay at its offsets."""
        bound = self.bound_bytes(bits)
        best, peak = self._placed(bits, fixed, bound, forward=True)
        if peak > bound and self.two_ways:
            other, least = self._placed(bits, fixed, bound, forward=False)
            best, peak = (other, least) if least < peak else (best, peak)
        return PlacedVariables(dict(zip(self.interference.names, best, strict=True)), max(peak, 0), bound)

    def _placed(
        self, bits: Mapping[str, int], fixed: Mapping[str, int], bound: int, *, forward: bool
    ) -> tuple[list[int], int]:
        """Offsets and their extent, looked for until it is `bound`; `forward`: where no operation goes backward."""
        widths = self._widths(bits)
        sizes = [w * self.interference.elements[n] for n, w in zip(self.interference.names, widths, strict=True)]
        near = self._forbidden(widths, sizes, forward=forward)
        start = [fixed.get(name, -1) for name in self.interference.names]
        best: list[int] = start
        best_peak, best_order = -1, list(range(len(sizes)))
        for order in self._orders(sizes, near):
            offsets, peak = _first_fit(order, sizes, widths, near, start)
            if best_peak < 0 or peak < best_peak:
                best, best_peak, best_order = offsets, peak, order
            if best_peak <= bound:
                break
        chance = random.Random(0)
        for _ in range(REPAIRS if best_peak > bound and len(sizes) > 1 else 0):
            order = _moved(best_order, best, sizes, chance)
            offsets, peak = _first_fit(order, sizes, widths, near, start)
            if peak <= best_peak:
                best, best_peak, best_order = offsets, peak, order
            if best_peak <= bound:
                break
        return best, best_peak

    def place_each(self, many: Sequence[Mapping[str, int]]) -> list[PlacedVariables]:
        """The placements of several widths in bits by variable."""
        return [self.place(bits) for bits in many]

    def bound_bytes(self, bits: Mapping[str, int]) -> int:
        """The largest sum of sizes held together, less what an operation may overwrite at most."""
        widths = self._widths(bits)
        sizes = [w * self.interference.elements[n] for n, w in zip(self.interference.names, widths, strict=True)]
        most = 0
        for instant in self.instants:
            held = sum(sizes[i] for i in instant[0])
            if held > most and instant[1]:
                held -= sum(shared_bytes(m, sizes[a], sizes[b], widths[a], widths[b]) for m, a, b in instant[1])
            most = max(most, held)
        return most

    def find_clash(self, bits: Mapping[str, int], offsets: Mapping[str, int]) -> tuple[str, str] | None:
        """Two temporaries that share bytes which they may not share; None when the placement is valid."""
        names, widths = self.interference.names, self._widths(bits)
        sizes = [w * self.interference.elements[n] for n, w in zip(names, widths, strict=True)]
        for i, others in enumerate(self._forbidden(widths, sizes)):
            for j, low, high in others:
                if low < offsets[names[i]] - offsets[names[j]] < high:
                    return names[min(i, j)], names[max(i, j)]
        return None

    def backward(self, bits: Mapping[str, int], offsets: Mapping[str, int]) -> frozenset[int]:
        """Rows of the operations that have to begin with their last place in a placement, which is valid."""
        widths = self._widths(bits)
        found = set()
        for meeting, a, b in self.meetings:
            between = meeting.order.forbidden_forward(widths[a], widths[b])
            if between is not None and meeting.order.backward is not None:
                low, high = self._reached(between, a, b, widths)
                if low < offsets[meeting.result] - offsets[meeting.operand] < high:
                    found.add(meeting.row)
        return frozenset(found)

    def _reached(self, between: tuple[int, int], result: int, operand: int, widths: Sequence[int]) -> tuple[int, int]:
        """What is left of forbidden distances between variables of these numbers that would share bytes."""
        elements, names = self.interference.elements, self.interference.names
        sizes = [widths[number] * elements[names[number]] for number in (result, operand)]
        return max(between[0], -sizes[0]), min(between[1], sizes[1])

    def _widths(self, bits: Mapping[str, int]) -> list[int]:
        held = self.interference.element_bytes(bits)
        return [held[name] for name in self.interference.names]

    def _forbidden(
        self, widths: Sequence[int], sizes: Sequence[int], *, forward: bool = False
    ) -> list[list[tuple[int, int, int]]]:
        """By temporary: (other, low, high) with its offset less the other's not strictly between low and high; `forward`: where no
        operation goes backward."""
        near: list[list[tuple[int, int, int]]] = [[] for _ in sizes]
        for a, b in self.apart:
            near[a].append((b, -sizes[a], sizes[b]))
            near[b].append((a, -sizes[b], sizes[a]))
        for meeting, a, b in self.meetings:
            order = meeting.order
            between = (order.forbidden_forward if forward else order.forbidden)(widths[a], widths[b])
            if between is not None:
                low, high = self._reached(between, a, b, widths)
                near[a].append((b, low, high))
                near[b].append((a, -high, -low))
        return near

    def _orders(self, sizes: Sequence[int], near: Sequence[Sequence[tuple[int, int, int]]]) -> Iterator[list[int]]:
        """Static orders, the one that succeeds most often first."""
        numbers = range(len(sizes))
        life, start = self.life, self.start
        load = [sum(sizes[j] for j, _, _ in near[i]) for i in numbers]
        yield sorted(numbers, key=lambda i: -sizes[i])
        yield sorted(numbers, key=lambda i: (-sizes[i], -life[i]))
        yield sorted(numbers, key=lambda i: (-life[i], -sizes[i]))
        yield sorted(numbers, key=lambda i: -sizes[i] * life[i])
        yield sorted(numbers, key=lambda i: (-load[i] - sizes[i], -sizes[i]))
        yield sorted(numbers, key=lambda i: (start[i], -sizes[i]))
        yield sorted(numbers, key=lambda i: (-start[i], -sizes[i]))


def shared_bytes(meeting: Meeting, result: int, operand: int, result_width: int, operand_width: int) -> int:
    """The most bytes that a result of `result` bytes may have in common with its operand of `operand` bytes."""
    between = meeting.order.forbidden(result_width, operand_width)
    if between is None:
        return min(result, operand)
    low, high = between
    return max(0, min(result, operand, max(low + result, operand - high)))


def _first_fit(
    order: Sequence[int],
    sizes: Sequence[int],
    widths: Sequence[int],
    near: Sequence[Sequence[tuple[int, int, int]]],
    start: Sequence[int],
) -> tuple[list[int], int]:
    """Offsets, and the peak in bytes, of a greedy pass; what is placed in `start` (not -1) stays there."""
    offsets = list(start)
    peak = max((o + size for o, size in zip(offsets, sizes, strict=True) if o >= 0), default=0)
    for number in order:
        if offsets[number] >= 0:
            continue
        taken = sorted([(offsets[j] + low, offsets[j] + high) for j, low, high in near[number] if offsets[j] >= 0])
        offset, width = 0, widths[number]
        for low, high in taken:
            if offset <= low:
                break
            if offset < high:
                offset = -(-high // width) * width
        offsets[number] = offset
        peak = max(peak, offset + sizes[number])
    return offsets, peak


def _moved(order: Sequence[int], offsets: Sequence[int], sizes: Sequence[int], chance: random.Random) -> list[int]:
    """The order with one temporary moved: forward if it is the one that reaches highest, else anywhere."""
    moved = list(order)
    if chance.random() < 0.5:
        number = max(order, key=lambda i: offsets[i] + sizes[i])
        place = moved.index(number)
        moved.insert(chance.randrange(place) if place else 0, moved.pop(place))
    else:
        moved.insert(chance.randrange(len(moved)), moved.pop(chance.randrange(len(moved))))
    return moved
