"""A smaller case with the same finding: fewer mutations first, then fewer files, lines and letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind, MutationRecipe, make

Holds = Callable[[FuzzCase], bool]
"""Whether a case still has the finding."""


def shrink(kind: Kind, recipe: MutationRecipe, holds: Holds, attempts: int) -> FuzzCase:
    """The smallest case found that still has the finding, by delta debugging (Zeller and Hildebrandt 2002) in the simple form
    that halves what it leaves out. `attempts`: how often `holds` may be asked for files; it runs the command."""
    steps = recipe.steps
    for step in recipe.steps if attempts else ():
        fewer = tuple(one for one in steps if one != step)
        if fewer and holds(make(kind, MutationRecipe(recipe.kind, recipe.origin, fewer))):
            steps = fewer
    return shrink_case(make(kind, MutationRecipe(recipe.kind, recipe.origin, steps)), holds, attempts)


def shrink_case(case: FuzzCase, holds: Holds, attempts: int) -> FuzzCase:
    """The smallest case found from `case` whose finding is still the one looked for."""
    left = attempts
    improved = True
    while improved:
        improved = False
        for smaller in _smaller(case):
            if not left:
                return case
            left -= 1
            if smaller.size < case.size and holds(smaller):
                case, improved = smaller, True
                break
    return case


def _smaller(case: FuzzCase) -> Iterator[FuzzCase]:
    """Cases with something left out, the largest pieces first."""
    for path in case.files:
        yield case.without_file(path)
    for path, content in case.files.items():
        for piece in _without_pieces(content.splitlines(keepends=True) if _is_text(content) else []):
            yield case.with_file(path, b"".join(piece))
    for path, content in case.files.items():
        if len(content) <= 4096:
            for letters in _without_pieces([content[i : i + 1] for i in range(len(content))]):
                yield case.with_file(path, b"".join(letters))


def _without_pieces(parts: list[bytes]) -> Iterator[list[bytes]]:
    """The parts without a half, without a quarter, and so on down to single ones."""
    size = (len(parts) + 1) // 2
    while size:
        for begin in range(0, len(parts), size):
            yield parts[:begin] + parts[begin + size :]
        size //= 2


def _is_text(content: bytes) -> bool:
    return b"\0" not in content
