"""A set of byte strings or texts in little memory: the bytes one after the other, and 12 to 18 more for each, where a dictionary of objects
takes 150 to 250."""

from __future__ import annotations

from array import array

import numpy as np

PARTS = 32
"""Tables that grow one after the other, so that little is held twice at a time."""

LEAST_SLOTS, TAIL = 8, 32
GREATEST_LOAD, GROWTH = 0.65, 1.35
PLACE_BITS = 32
PLACES = (1 << PLACE_BITS) - 1


class KeyTable:
    """Keys in the order in which they came, of one type. The place of a key: how many came before it. At most 2^32 - 2 of them.

    Open addressing with linear probing (Knuth, The Art of Computer Programming 3, 6.4). A slot holds a place and 32 bits of the key's hash;
    where these agree, the keys themselves are compared. Behind the slots stands a tail, so that no probe starts again at the front.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._width: int | None = None  # of every key, as long as all are equally long
        self._ends = array("Q")  # of keys, once they are not
        self._count = 0
        self._text = False
        self._slots = [array("Q", bytes(8 * (LEAST_SLOTS + TAIL))) for _ in range(PARTS)]
        self._sizes = [LEAST_SLOTS] * PARTS  # without their tails
        self._taken = [0] * PARTS

    def __len__(self) -> int:
        """How many keys were put in, those that came again counted again."""
        return self._count

    def __contains__(self, key: bytes | str) -> bool:
        return self.place(key) >= 0

    def place(self, key: bytes | str) -> int:
        """Where the key is, at its last place if it came again; -1: nowhere."""
        return self._probe(key, hash(key))[0]

    def put(self, key: bytes | str) -> int:
        """Take a key in, behind all others; the place that it had before, -1 where it is new."""
        number = hash(key)
        before, slots, at = self._probe(key, number)
        content = key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass")
        if len(content) != self._width:
            self._let_widths_differ(key, len(content))
        self._bytes += content
        self._count += 1
        if self._width is None:
            self._ends.append(len(self._bytes))
        slots[at] = (number >> 5 & PLACES) << PLACE_BITS | self._count
        if before < 0:
            part = number % PARTS
            self._taken[part] += 1
            if self._taken[part] > GREATEST_LOAD * self._sizes[part] or at == len(slots) - 2:  # the last one stays free
                self._sizes[part] = int(GROWTH * self._sizes[part])
                self._slots[part] = _in_more(slots, self._sizes[part])
        return before

    def key(self, place: int) -> bytes | str:
        """The key at a place."""
        if self._width is not None:
            found = self._bytes[place * self._width : (place + 1) * self._width]
        else:
            found = self._bytes[self._ends[place - 1] if place else 0 : self._ends[place]]
        return found.decode("utf-8", "surrogatepass") if self._text else bytes(found)

    def _probe(self, key: bytes | str, number: int) -> tuple[int, array[int], int]:
        """The key's place, -1 where it has none; the slots, and the index of that in which the key is, or would be put."""
        part = number % PARTS
        slots, tag = self._slots[part], number >> 5 & PLACES
        at = tag * self._sizes[part] >> PLACE_BITS
        while slot := slots[at]:
            if slot >> PLACE_BITS == tag and self.key((slot & PLACES) - 1) == key:
                break
            at += 1
        return (slot & PLACES) - 1, slots, at

    def _let_widths_differ(self, key: bytes | str, width: int) -> None:
        if not self._count:
            self._width, self._text = width, isinstance(key, str)
        elif self._width is not None:
            self._ends.extend(self._width * (place + 1) for place in range(self._count))
            self._width = None


def _in_more(slots: array[int], size: int) -> array[int]:
    """The entries in `size` slots and a tail. By hash, each comes to its own slot or to the first free one behind."""
    old = np.frombuffer(slots, dtype=np.uint64)
    kept = np.sort(old[old != 0], kind="stable")
    wanted = ((kept >> np.uint64(PLACE_BITS)) * np.uint64(size) >> np.uint64(PLACE_BITS)).astype(np.int64)
    in_order = np.arange(len(kept))
    at = np.maximum.accumulate(wanted - in_order) + in_order
    more = array("Q", bytes(8 * (max(size, int(at[-1])) + TAIL)))
    np.frombuffer(more, dtype=np.uint64)[at] = kept
    return more
