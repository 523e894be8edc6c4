"""The paper's procedure beside a study: what has been measured is not measured again, and the rest takes a second or two, so
that a page can be drawn while a search runs. The next drawing goes on from there."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kilotune.experiments.problems.procedure_measurements import remembered
from kilotune.search.procedure import run_procedure, trials_of
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.study import Study

MOST_SECONDS = 1.5
"""How long measuring may take, in seconds of this thread's processor time, which does not depend on how busy the machine is."""

AnswerT = TypeVar("AnswerT")
AskedSpaceT = TypeVar("AskedSpaceT", bound=Space)
Measure = Callable[[Sequence[Assignment]], list[Measurement]]


@dataclass(frozen=True)
class ProcedureKey(Generic[AskedSpaceT]):
    """A key of what is computed once for a space, equal for all objects of that space: pages that refresh ask again and again."""

    fingerprint: str
    space: AskedSpaceT = field(compare=False)

    @classmethod
    def of(cls, space: AskedSpaceT) -> ProcedureKey[AskedSpaceT]:
        """By all that an answer depends on."""
        return cls(space.fingerprint, space)


class OutOfTimeError(Exception):
    """The procedure asks for more measurements than there is time for."""


def measure_beside(study: Study, seconds: float = MOST_SECONDS) -> Measure:
    """Measurements from the study where it holds them, else remembered ones, else from its space. The function raises
    OutOfTimeError when `seconds` of processor time have passed since it was made and something is missing."""
    end, earlier = time.thread_time() + seconds, remembered(study.space)

    def one(candidate: Assignment) -> Measurement:
        known = study.book.measurement(candidate) or earlier.get(candidate)
        if known is not None:
            return known
        if time.thread_time() > end:
            raise OutOfTimeError
        (measured,) = study.space.evaluate([candidate])
        earlier.put(candidate, measured)
        return measured

    return lambda batch: [one(candidate) for candidate in batch]


def papers_answer(study: Study, seconds: float = MOST_SECONDS) -> Trial | None:
    """What the paper's procedure ends with; None where there is no time to know. Its number is that of the procedure."""
    try:
        return run_procedure(study.space, measure_beside(study, seconds))
    except OutOfTimeError:
        return None


def run_stage(stage: Generator[list[Assignment], list[Trial], AnswerT], measure: Measure) -> AnswerT:
    """Run one stage of a procedure to its end; what it returns. OutOfTimeError."""
    running = trials_of(stage, measure)
    while True:
        try:
            next(running)
        except StopIteration as end:
            answer: AnswerT = end.value
            return answer
