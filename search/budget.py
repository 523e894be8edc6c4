"""How long a search may go on: seconds, trials, or both."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_TRIALS = re.compile(r"(\d+)\s*trials?")


@dataclass(frozen=True)
class Budget:
    """Whichever limit is met first ends the run; infinity is no limit. Duplicates cost no trial."""

    seconds: float = math.inf
    trials: float = math.inf

    def __post_init__(self) -> None:
        if not self.seconds > 0 or not self.trials > 0:
            raise ValueError(f"A budget needs more than 0 seconds and more than 0 trials, not {self}.")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `2h`, `1h30m`, `90s`, `500trials` or both with a comma between. ValueError: a sentence."""
        seconds, trials = math.inf, math.inf
        for part in (piece.strip().lower() for piece in text.split(",")):
            if _DURATION.fullmatch(part) and math.isinf(seconds):
                seconds = _seconds(part)
            elif (match := _TRIALS.fullmatch(part)) and math.isinf(trials):
                trials = int(match[1])
            else:
                raise ValueError(
                    f"Budget {text!r}: expected a time such as 2h, 15m or 90s, a number of trials such as 500trials, "
                    f"or one of each with a comma between; found {part!r}."
                )
        if seconds <= 0 or trials <= 0:
            raise ValueError(f"Budget {text!r}: the time and the number of trials must be more than 0.")
        return cls(seconds, trials)

    def __str__(self) -> str:
        parts = []
        if math.isfinite(self.seconds):
            whole = next((u for u in "hm" if self.seconds % _SECONDS_PER_UNIT[u] == 0), "s")
            parts.append(f"{self.seconds / _SECONDS_PER_UNIT[whole]:.15g}{whole}")
        if math.isfinite(self.trials):
            parts.append(f"{int(self.trials)}trials")
        return ",".join(parts) or "unlimited"


def parse_seconds(text: str) -> float:
    """Read `30s` or `1h30m`. ValueError, a sentence, when it is no time, or no time at all."""
    part = text.strip().lower()
    if not _DURATION.fullmatch(part) or _seconds(part) <= 0:
        raise ValueError(f"{text!r}: expected a time such as 30s, 15m or 1h30m.")
    return _seconds(part)


def _seconds(part: str) -> float:
    return sum(float(number) * _SECONDS_PER_UNIT[unit] for number, unit in _DURATION_PART.findall(part))
