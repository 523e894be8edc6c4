"""The paper's greedy rule, on its own example."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kilotune.spaces.fpga.hints import greedy_hints


def hints(options: Sequence[Sequence[int]], usages: Sequence[Fraction], budget: Fraction) -> list[int]:
    search = greedy_hints(options, lambda tried: sum(f * u for f, u in zip(tried, usages, strict=True)))
    taken = next(search)
    while True:
        try:
            taken = search.send(taken <= budget)
        except StopIteration as found:
            return list(found.value)


def test_the_papers_example() -> None:
    """SeeDot Section 6.2.2: ten iterations at 0.4 r and at 0.1 r give factors 2 and 2."""
    tenths = range(1, 11)
    assert hints([tenths, tenths], [Fraction(4, 10), Fraction(1, 10)], Fraction(1)) == [2, 2]


def test_the_first_loop_is_greedy() -> None:
    """It takes what the second one could have used better, and no more than leaves the others one iteration at a time."""
    assert hints([range(1, 9), range(1, 9)], [Fraction(1), Fraction(1)], Fraction(9)) == [8, 1]
    assert hints([(1, 2, 4), (1, 3)], [Fraction(2), Fraction(1)], Fraction(7)) == [2, 3]


def test_what_never_fits_stays_as_it_is() -> None:
    assert hints([(1, 2), (1, 2)], [Fraction(1), Fraction(1)], Fraction(1)) == [1, 1]
