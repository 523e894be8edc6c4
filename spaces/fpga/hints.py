"""The hints of SeeDot's compiler (Section 6.2.2): in program order, each loop is unrolled as much as the budget still holds."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

ChoiceT = TypeVar("ChoiceT")
AskedT = TypeVar("AskedT")


def greedy_hints(
    options: Sequence[Sequence[ChoiceT]], ask: Callable[[Sequence[ChoiceT]], AskedT]
) -> Generator[AskedT, bool, list[ChoiceT]]:
    """The choice of each loop. `options` of each, the smallest first, which is what a loop has until its turn comes; `ask` makes of
    choices what is yielded, and sent back is whether these fit the budget."""
    chosen = [choices[0] for choices in options]
    for place, choices in enumerate(options):
        for choice in reversed(choices[1:]):
            tried = [*chosen[:place], choice, *chosen[place + 1 :]]
            if (yield ask(tried)):
                chosen = tried
                break
    return chosen
