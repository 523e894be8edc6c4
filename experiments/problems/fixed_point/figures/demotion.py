"""The order in which the paper's procedure demotes variables, and what every step would cost and save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilotune.experiments.problems.paper_trials import Measure, OutOfTimeError, run_stage
from kilotune.search.space import Assignment, Measurement, Option, Trial
from kilotune.spaces.shiftry.procedure import cumulative_demote, explore_scale_for_x, partial_demote
from kilotune.spaces.shiftry.space import ShiftrySpace


@dataclass(frozen=True)
class DemotionOrder:
    """Shiftry Algorithms 12 to 14. `names`: all variables, the first to be demoted first; `formats`: the demoted ones.

    `steps` has one entry more: what is measured with the first 0, 1, 2 ... variables demoted; `kept` is how many of them the
    procedure keeps demoted, and `start` is the candidate before the first.
    """

    start: Assignment
    names: tuple[str, ...]
    formats: tuple[Option, ...]
    steps: tuple[Measurement, ...]
    kept: int

    @property
    def answer(self) -> Trial:
        """Where the procedure stops."""
        return Trial(self.kept, self.candidate(self.kept), self.steps[self.kept])

    def candidate(self, count: int) -> Assignment:
        """With the first `count` variables demoted."""
        return {**self.start, **dict(zip(self.names[:count], self.formats[:count], strict=True))}


def demotion_order(space: ShiftrySpace, measure: Measure) -> DemotionOrder | None:
    """By the procedure's own code. None when `measure` runs out of time."""
    try:
        start: Assignment = {d.name: d.options[0] for d in space.decisions}
        start = run_stage(explore_scale_for_x(space, start), measure)
        ranked = run_stage(partial_demote(space, start), measure)
        names, formats = tuple(name for _, name, _ in ranked), tuple(option for _, _, option in ranked)
        candidates: list[Assignment] = [start]
        for name, option in zip(names, formats, strict=True):
            candidates.append({**candidates[-1], name: option})
        last: list[Assignment] = []

        def remember(batch: Sequence[Assignment]) -> list[Measurement]:
            last[:] = batch
            return measure(batch)

        run_stage(cumulative_demote(space, start, ranked), remember)
        kept = _demoted(last[-1], start, names)
        return DemotionOrder(start, names, formats, tuple(measure(candidates)), kept)
    except OutOfTimeError:
        return None


def _demoted(answer: Mapping[str, Option], start: Mapping[str, Option], names: tuple[str, ...]) -> int:
    """How many variables the answer changes."""
    return sum(answer[name] != start[name] for name in names)
