"""A set of the numbers of trials, which are close together, in a bit each."""

from __future__ import annotations


class NumberSet:
    """Whole numbers from 0. It takes an eighth of a byte for each number up to the greatest."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: object) -> bool:
        return (
            isinstance(number, int)
            and 0 <= number >> 3 < len(self._bits)
            and bool(self._bits[number >> 3] >> (number & 7) & 1)
        )

    def add(self, number: int) -> None:
        """Take a number in, unless it is there."""
        place = number >> 3
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        mask = 1 << (number & 7)
        self._count += not self._bits[place] & mask
        self._bits[place] |= mask

    def remove(self, number: int) -> None:
        """KeyError for a number that is not there."""
        if number not in self:
            raise KeyError(number)
        self._bits[number >> 3] &= ~(1 << (number & 7))
        self._count -= 1
