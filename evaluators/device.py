"""A microcontroller board: memory, clock, processor."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Device:
    """A microcontroller board. Flash is what the boot loader leaves free.

    `processor`: a name that an architecture knows (`evaluators.architectures`), such as one that avr-gcc's -mmcu takes.
    `cost_table`: the name of a shipped table, or the path of another one (`evaluators.cost_model`); empty for the
    processor's own.
    """

    name: str
    description: str
    flash_bytes: int
    ram_bytes: int
    clock_hz: int
    processor: str
    cost_table: str = ""

    def as_json(self) -> dict[str, Any]:
        """The description as a file would hold it."""
        return asdict(self)
