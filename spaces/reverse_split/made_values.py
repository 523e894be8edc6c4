"""The values that a walk over programs has met, and the instructions that compute them, in an order in which they can be executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.sums import Sum

IMAGE = 0
"""The number of the image among a walk's values."""


@dataclass(frozen=True, slots=True)
class MadeValue:
    """One instruction of a program; its value and its operands are numbers of `WalkValues`."""

    key: int
    op: str
    operands: tuple[int, ...]
    directions: tuple[str, ...]
    cost: int


class WalkValues:
    """All values that a walk has met, numbered: sums are long, and a question asks for the same ones again and again.

    A value that is computed again, since no register holds it so long, has a number for each time; so has a copy.
    """

    def __init__(self, image: Sum) -> None:
        self.sums = [image]
        self.copies = [False]
        self._numbers = {(image, False, 0): IMAGE}

    def number(self, total: Sum, copy: bool = False, time: int = 0) -> int:
        """The number of a value, a new one where it was not met before."""
        found = self._numbers.setdefault((total, copy, time), len(self.sums))
        if found == len(self.sums):
            self.sums.append(total)
            self.copies.append(copy)
        return found


def in_order(
    program: Sequence[MadeValue], gone: set[int], new: Sequence[MadeValue], wanted: Sequence[int]
) -> list[MadeValue] | None:
    """The instructions that the wanted values need, in the order of the program as far as they stand in it, new ones right before who
    reads them first; None where an operand is missing, or values need one another."""
    makers = {made.key: made for made in program if made.key not in gone}
    for made in new:
        makers.setdefault(made.key, made)
    places = {made.key: place for place, made in enumerate(program)}
    needed = set(wanted)
    waiting = [key for key in wanted if key != IMAGE]
    while waiting:
        maker = makers.get(waiting.pop())
        if maker is None:
            return None
        fresh = [key for key in maker.operands if key != IMAGE and key not in needed]
        needed.update(fresh)
        waiting += fresh
    there, opened, order = {IMAGE}, set[int](), list[MadeValue]()
    for first in sorted((key for key in needed if key in places and key != IMAGE), key=places.__getitem__):
        stack = [first]
        while stack:
            made = makers[stack[-1]]
            missing = [key for key in made.operands if key not in there]
            if made.key in there or not missing:
                stack.pop()
                if made.key not in there:
                    there.add(made.key)
                    opened.discard(made.key)
                    order.append(made)
            elif not opened.isdisjoint(missing):
                return None  # values that need one another
            else:
                opened.add(made.key)
                stack += missing
    return order
