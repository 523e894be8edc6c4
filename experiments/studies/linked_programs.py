"""Programs of a study that are linked one after the other for its device, as long as there is time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from kilotune.evaluators.simulated import DeviceError
from kilotune.experiments.problems.problem import LimitsLinkedFlash
from kilotune.experiments.studies.command_time import made_in_time
from kilotune.experiments.studies.finished_finalists import NEW
from kilotune.search.front import Ranking
from kilotune.search.space import Trial
from kilotune.search.study import Study

ESTIMATE = "linked_bytes"
"""The metric of estimates."""

BEYOND_DEVICE = 1 << 62
"""Bytes of what cannot be linked, since the device has no room for it."""

MadeT = TypeVar("MadeT")


@dataclass(frozen=True)
class Linking:
    """Programs within `limit` bytes are looked for until `is_over`, and `tell` hears of every step that takes long, before it is made.
    `sizes`: bytes of the study's trials that were linked, by their numbers."""

    problem: LimitsLinkedFlash
    study: Study
    limit: int
    is_over: Callable[[], bool]
    tell: Callable[[str], None]
    sizes: dict[int, int] = field(default_factory=dict)

    def bytes_of(self, trial: Trial) -> int | None:
        """What a trial's program takes; None where there is no time for it."""
        size = self.in_time(partial(bytes_linked, self.problem, trial))
        if size is not None and trial.number != NEW:
            self.sizes[trial.number] = size
        return size

    def in_time(self, make: Callable[[], MadeT]) -> MadeT | None:
        """What `make` makes; None when that was abandoned."""
        return made_in_time(self.is_over, make)


def without_estimate(ranking: Ranking) -> Ranking:
    """The ranking without the limit on estimated bytes, of candidates of which it is known, or will be, what they link to."""
    others = tuple(constraint for constraint in ranking.constraints if constraint.metric != ESTIMATE)
    return Ranking(ranking.objectives, others)


def bytes_linked(problem: LimitsLinkedFlash, trial: Trial) -> int:
    """What a trial's program takes; BEYOND_DEVICE where it cannot be linked."""
    try:
        return problem.linked_bytes(trial)
    except DeviceError:
        return BEYOND_DEVICE
