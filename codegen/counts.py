"""Counts of things as they stand in sentences and in the comments of emitted programs."""

from __future__ import annotations


def counted(count: float, noun: str) -> str:
    """`1 trial`, `3 trials`: a noun whose plural ends in a plain s, after how many of it there are."""
    return f"{count:.0f} {noun}{'' if count == 1 else 's'}"
