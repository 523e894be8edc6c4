"""What a mistyped name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ " (did you mean 'shiftry'?)" for the known name that is nearest to `name`, to stand behind it in a message; empty when
    none is near."""
    nearest = get_close_matches(name, list(known), n=1)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""
