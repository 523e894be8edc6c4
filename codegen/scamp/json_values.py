"""Values of a kernel file as an error message shows them. Its numbers are read as integers and fractions, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class JsonConstant:
    """NaN, Infinity or -Infinity, which Python's JSON reads and no kernel has."""

    text: str


def shown(value: Any) -> str:
    """At most 60 characters."""
    if isinstance(value, JsonConstant):
        return value.text
    if isinstance(value, Fraction):
        return f"{float(value):g}" if abs(value) < 10**300 else "a number beyond all bounds"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
