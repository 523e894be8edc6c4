"""A program of thousands of variables is built in time that grows with its length, not with the square of it."""

from __future__ import annotations

import cProfile
import pstats

from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse


def text(lets: int) -> str:
    lines = ["let X = (4, 1) in [-1.0, 1.0] in"]
    for k in range(lets):
        before = f"v{k - 1}" if k else "X"
        lines.append(f"let v{k} = {f'{before} + X' if k % 2 else f'relu({before})'} in")
    return "\n".join([*lines, f"argmax(v{lets - 1} + X)"])


def calls(lets: int) -> int:
    """Of Python's functions, generators included; so no clock is asked."""
    tree = parse(text(lets))
    profile = cProfile.Profile()
    profile.runcall(elaborate, tree, "long")
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_twice_as_many_lets_are_twice_the_work() -> None:
    """It was 3.6 times: every operand looked at all names in scope."""
    calls(10)
    short, long = calls(400), calls(800)
    assert long < 2.3 * short
