"""A variable's fixed-point format as an option of a decision: `int8@7` is 8 bits at scale 7."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

DEFAULT_BITS = 16
"""Every variable's width until it is demoted (Shiftry Algorithm 11)."""

DEMOTED_BITS = 8


@dataclass(frozen=True)
class Format:
    """Bitwidth and scale of a variable: the integer i stands for i / 2**scale."""

    bits: int
    scale: int

    def __str__(self) -> str:
        return f"int{self.bits}@{self.scale}"


@cache
def parse_format(text: str) -> Format:
    """Read `int8@7`; ValueError when it is not of that form."""
    bits, separator, scale = text.removeprefix("int").partition("@")
    if not text.startswith("int") or not separator:
        raise ValueError(f"a format is written like int8@7, found {text!r}")
    return Format(int(bits), int(scale))
