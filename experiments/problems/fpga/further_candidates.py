"""Candidates after one that the cost model lets through and place and route does not: its limits are tightened by what was measured.

A figure that was measured r times as large as predicted may be predicted to be at most its limit / r from then on. Where the placer found
no room, and so measured nothing, a tenth less than that candidate's look-up tables may be predicted. The best that the model has within
these limits comes next; once it has nothing, the other candidates of the search do, those nearest to the limits first. Where pins are too
few there are no others, unless widths are decided too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace

from kilotune.evaluators.fpga.boards import Board, Gates
from kilotune.experiments.problems.placing import PlacedTrial
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, SolveLimit, Trial
from kilotune.spaces.fpga.candidates import HardwareGoal, gate_constraints
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.space import FpgaSpace

NO_ROOM_SHARE = 0.9
MOST_SOLVING = SolveLimit(25.0, 300.0)
"""What CP-SAT may take for a candidate."""

SAME_PINS = "Every other candidate has as many pins: its features and results are as wide."


def corrected_goal(goal: HardwareGoal, board: Board, tried: Iterable[PlacedTrial]) -> HardwareGoal:
    """The goal with limits tightened by all that were placed; the same where none of them broke one. The goal's budget is for
    predictions: what was measured is held against the board where it has less."""
    allowed, limit_us = goal.budget or board.gates, goal.latency_limit_us
    gates, latency_us = asdict(allowed), limit_us
    there = {kind: min(most, asdict(board.gates)[kind]) for kind, most in gates.items()}
    for placed in tried:
        predicted, measured = placed.trial.measurement.metrics, placed.metrics()
        if placed.no_room and not measured:
            gates["luts"] = min(gates["luts"], int(NO_ROOM_SHARE * predicted["luts"]))
        for kind, limit in there.items():
            if measured.get(kind, 0.0) > limit:
                gates[kind] = min(gates[kind], math.floor(limit * predicted[kind] / measured[kind]))
        if limit_us is not None and latency_us is not None and measured.get("latency_us", 0.0) > limit_us:
            latency_us = min(latency_us, limit_us * predicted["latency_us"] / measured["latency_us"])
    budget = Gates(**gates)
    return (
        goal
        if (budget, latency_us) == (allowed, limit_us)
        else replace(goal, budget=budget, latency_limit_us=latency_us)
    )


@dataclass
class FurtherCandidates:
    """What is tried next. `finalists`: candidates of the search, in order; `most`: how many are tried; `number`: that of the first
    candidate that is no trial of the search, None where no other ones are wanted."""

    space: FpgaSpace | JointSpace
    finalists: Sequence[Trial]
    most: int
    number: int | None = None
    verdict: str | None = field(default=None, init=False)
    """Why there are no further ones of the model's, a sentence: it has none within its tightened limits, or all have the same pins."""

    def next(self, tried: Sequence[PlacedTrial]) -> Trial | None:
        """The candidate after those; None where there is none, or enough were tried."""
        if len(tried) >= self.most:
            return None
        if any(placed.no_pins for placed in tried) and isinstance(self.space, FpgaSpace):
            self.verdict = SAME_PINS
            return None
        numbers = {placed.trial.number for placed in tried}
        untried = [trial for trial in self.finalists if trial.number not in numbers]
        goal = corrected_goal(self.space.goal, self.space.board, tried)
        limits = Ranking(self.space.objectives, gate_constraints(self.space.board, goal))
        return self._searched(goal, tried) or min(
            untried, key=lambda trial: limits.violation(trial.measurement), default=None
        )

    def _searched(self, goal: HardwareGoal, tried: Sequence[PlacedTrial]) -> Trial | None:
        if self.number is None or goal == self.space.goal or self.verdict is not None:
            return None
        found, proved = best_within(self.space, goal, tried[-1].trial.assignment)
        if found is None:
            none = (
                "has no candidate within the limits" if proved else "has found no candidate within the limits in time"
            )
            self.verdict = f"The cost model, corrected by what was measured, {none}."
            return None
        known = next((trial for trial in self.finalists if trial.assignment == found), None)
        if known is None:
            number, self.number = self.number, self.number + 1
            return Trial(number, found, self.space.evaluate([found])[0])
        return None if known in (placed.trial for placed in tried) else known


def best_within(space: FpgaSpace | JointSpace, goal: HardwareGoal, near: Assignment) -> tuple[Assignment | None, bool]:
    """The best candidate of the model that reaches a goal, or None and whether it is proved that there is none. Widths and scales that
    are decided jointly are those of the candidate `near`."""
    formats = space.formats_in(near) if isinstance(space, JointSpace) else {}
    alone = space.unrolling(formats) if isinstance(space, JointSpace) else space
    try:
        within = FpgaSpace(alone.program, alone.board, goal)
    except ValueError:  # no room, whatever is decided
        return None, True
    answer = within.model([]).solve(1, [], 0, MOST_SOLVING)
    found = None if not answer.candidates else {**formats, **answer.candidates[0]}
    return found, answer.exhausted
