"""How much work one step of a search may take, so that it ends before the clock does: long kernels take many times as long as
short ones for the same work, so its speed is measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

FIRST_WORK_PER_S = 50_000.0
"""Until it is measured: less than the longest kernels are searched with."""

LEAST_WORK = 1_000
SHARE_OF_THE_TIME = 0.5
"""How much of the time that is left one step may take."""

SHORTEST_S = 1e-3


@dataclass
class WorkSlices:
    """Slices of work within `seconds_left`. Without a clock (infinity) they are what is asked for: the same on any machine."""

    seconds_left: Callable[[], float]
    work_per_s: float = FIRST_WORK_PER_S

    def slice(self, work: int) -> int:
        """The work that is allowed of `work`."""
        left = self.seconds_left()
        return work if math.isinf(left) else int(max(LEAST_WORK, min(work, self.work_per_s * left * SHARE_OF_THE_TIME)))

    def note(self, work: int, left_before: float) -> None:
        """So much was done since `left_before` seconds were left."""
        if work and math.isfinite(left_before):
            self.work_per_s = work / max(left_before - self.seconds_left(), SHORTEST_S)
