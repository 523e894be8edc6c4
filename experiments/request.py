"""What a user asks for, in a form that a study stores, so that `tune resume` needs only its name."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SIZE_UNITS = {"": 1, "B": 1, "KIB": 1024, "KB": 1000, "MIB": 1024**2, "MB": 1000**2}
TIME_UNITS = {"US": 1e-3, "MS": 1.0, "S": 1e3, "": 1.0}


@dataclass(frozen=True)
class TuneRequest:
    """One search. `input` is an absolute path; `options` are a JSON object that the family of the space understands."""

    space: str
    input: str
    strategy: str
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TuneRequest:
        """The request of a stored study; unknown keys of other versions are left out."""
        names = {f.name for f in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in names})


def parse_size(text: str) -> int:
    """Read `64KiB` as 65536. ValueError, a sentence, when it is not of that form."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].upper() not in SIZE_UNITS or math.isinf(float(match[1])):
        raise ValueError(f"{text!r} is no size: expected bytes, such as 2048 or 64KiB.")
    return int(float(match[1]) * SIZE_UNITS[match[2].upper()])


def parse_limit(text: str) -> tuple[str, float]:
    """Read `flash=32KiB` as ("flash", 32768), `latency=0.2s` as ("latency", 200.0), `cycles=1e6` as ("cycles", 1000000.0).

    ValueError, a sentence, when it is not of that form.
    """
    match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is not None and math.isfinite(float(match[2])):
        amount, unit = float(match[2]), match[3].upper()
        if match[1] in ("flash", "ram") and unit in SIZE_UNITS:
            return match[1], int(amount * SIZE_UNITS[unit])
        if match[1] == "latency" and unit in TIME_UNITS:
            return match[1], amount * TIME_UNITS[unit]
        if match[1] == "cycles" and not unit:
            return match[1], amount
    raise ValueError(
        f"--limit {text!r}: expected flash=SIZE, ram=SIZE, latency=TIME or cycles=COUNT, "
        f"such as flash=32KiB, ram=2048, latency=20ms or cycles=100000."
    )


def whole_bytes(limit: float | None) -> int | None:
    """A limit in bytes; None stays None."""
    return None if limit is None else int(limit)
