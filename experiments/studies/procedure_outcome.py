"""Whether the paper's procedure came to an answer, so that nobody takes a missing figure for a win."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kilotune.experiments.studies.command_time import made_in_time, never
from kilotune.search.result import Result, Status
from kilotune.search.space import HasProcedure, Trial, procedure_takes_long
from kilotune.search.study import Study


class ProcedureState(enum.Enum):
    """How the procedure ended."""

    ENDED = "ended"
    NO_ANSWER = "ended without an answer"  # it proposed nothing, or nothing that can be used
    NOT_ENDED = "not ended"  # there was not enough time for it
    GIVEN_UP = "given up"  # so that the search could begin (`search.warm_start`)
    NONE = "none"  # the space has none


@dataclass(frozen=True)
class ProcedureOutcome:
    """`answer`: None where it has not ended, and where it ended without one. `seconds`: how long one that has not ended was at it, where
    that is known. `reason`, of one without an answer: why what it proposed cannot be used, a sentence; None where it proposed nothing.
    `limits`: what the space leaves out of the procedure, a sentence."""

    state: ProcedureState
    answer: Trial | None = None
    seconds: float | None = None
    reason: str | None = None
    limits: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For the result file, beside the answer's figures."""
        seconds = None if self.seconds is None else round(self.seconds, 3)
        why = self.sentence() if self.state is ProcedureState.NO_ANSWER else None
        return {"state": self.state.value, "seconds": seconds, **({} if why is None else {"reason": why})}

    def sentence(self, name: str = "paper's procedure") -> str | None:
        """What a reader has to know who looks for the answer of the procedure so called; None where it is there, or there can be none."""
        if self.state is ProcedureState.NOT_ENDED:
            at_it = "" if self.seconds is None else f", after {self.seconds:.1f} s of it"
            return (
                f"The {name} did not end within the budget{at_it}: how its answer compares with the best is not known."
            )
        if self.state is ProcedureState.GIVEN_UP:
            return (
                f"The {name} was given up, so that the search could begin, when it had thought for half of the time that was left: how "
                "its answer compares with the best is not known."
            )
        if self.state is ProcedureState.NO_ANSWER:
            what = (
                "it proposed no candidate."
                if self.reason is None
                else f"what it proposed cannot be used. {self.reason}"
            )
            return " ".join(part for part in (f"The {name} ended without an answer: {what}", self.limits) if part)
        return None


ENDED_EARLY = (Status.FINISHED, Status.SETTLED)


def procedure_in_time(
    study: Study, result: Result, measure: Callable[[], Trial | None], is_over: Callable[[], bool]
) -> ProcedureOutcome:
    """The procedure's answer; `measure` runs it beside the study. A study that begins with it, and whose budget ended before it did,
    has had no time for it: to go on would show an answer that the search was not allowed to use. One that ended early, since all was
    measured or proved before the procedure's last step, has the rest of its time."""
    if not isinstance(study.space, HasProcedure):
        return ProcedureOutcome(ProcedureState.NONE)
    if study.procedure_ended:
        return _ended(study.procedure)
    if is_over is not never and study.procedure_first and result.status not in ENDED_EARLY:
        if study.procedure_given_up is not None:
            return ProcedureOutcome(ProcedureState.GIVEN_UP)
        began_at_once = not procedure_takes_long(study.space)
        return ProcedureOutcome(ProcedureState.NOT_ENDED, seconds=result.elapsed_s if began_at_once else None)
    measured = made_in_time(is_over, lambda: (measure(),))
    if measured is None:
        return ProcedureOutcome(ProcedureState.NOT_ENDED)
    return _ended(measured[0])


def _ended(answer: Trial | None) -> ProcedureOutcome:
    if answer is None or answer.measurement.failure is not None:
        return ProcedureOutcome(ProcedureState.NO_ANSWER, reason=None if answer is None else answer.measurement.failure)
    return ProcedureOutcome(ProcedureState.ENDED, answer)
