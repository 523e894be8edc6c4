"""The time of a command: its budget begins when it begins to read its input, what it does after the search has a little more, and
so has a command that has nothing to show yet."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.abandoning import abandonable
from kilotune.search.budget import Budget
from kilotune.search.space import Space, answers_always
from kilotune.search.study import Study

LEAST_SEARCH_S = 0.01
FIRST_ANSWER_S = 5.0
"""How long after its budget a command still reads its input and measures its first candidate, and nothing else. A first run
compiles its kernels in that time, and a busy machine takes seconds to import what is needed: that a budget of a second ends a
little later is worth less to whoever asked than any answer at all."""

LONGEST_READING_S = 60.0
"""How long after its budget a command still reads its input on a machine so busy that the command has not had FIRST_ANSWER_S of a processor
yet."""

CONCLUDING_S = 0.7
CONCLUDING_SHARE = 0.08
"""How long after its budget a command may still measure what it reports beside the best: test data, programs on a device. The
larger of the two."""

AFTER_INTERRUPT_S = 0.7
DEVICE_SHARE = 0.2
"""The share of the budget that is kept for finishing the best candidates, for compiling the best programs and for running them."""

TRAINING_SHARE = 0.6
"""The share of the budget that is kept for that and for training what is delivered, where that is asked for: a training takes from some
seconds to a minute or two, and comes to nothing where it does not end. Of the usual minute it has 18 seconds and what others leave."""

MadeT = TypeVar("MadeT")


@dataclass(frozen=True)
class CommandTime:
    """From now on. ValueError from `build` and `read`: the budget is long over before there is anything to search."""

    budget: Budget
    begun_s: float = field(default_factory=time.monotonic)
    begun_processor_s: float = field(default_factory=time.process_time)

    def build(self, request: TuneRequest, tell: Callable[[str], None] | None = None) -> Problem:
        """`build_problem` within the budget."""
        return self.read(request.input or request.space, lambda: build_problem(request, tell))

    def read(self, name: str, make: Callable[[], Problem]) -> Problem:
        """What `make` makes of the input of that name, within the budget."""
        problem: Problem | None = None
        with abandonable(self._reads_too_long) as reading:
            problem = make()
        if problem is None or reading.abandoned:
            raise ValueError(
                f"--budget {self.budget}: reading {name} takes more than {FIRST_ANSWER_S:g} s longer than that, so "
                f"nothing was searched: expected a larger budget."
            )
        return problem

    def _reads_too_long(self) -> bool:
        beyond_s = self.spent_s() - self.budget.seconds
        had_its_time = time.process_time() - self.begun_processor_s >= FIRST_ANSWER_S
        return beyond_s >= (FIRST_ANSWER_S if had_its_time else LONGEST_READING_S)

    def spent_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun_s

    def for_search(self, reserved_share: float = 0.0) -> Budget:
        """What is left of the budget, less a share of all of it."""
        left_s = self.budget.seconds * (1.0 - reserved_share) - self.spent_s()
        return Budget(max(left_s, LEAST_SEARCH_S), self.budget.trials)

    def for_first_answer(self, search: Budget, space: Space) -> float:
        """Seconds beyond that budget of a search of the space in which it may still find its first candidate."""
        if math.isinf(search.seconds):
            return 0.0
        return max(0.0, self.budget.seconds + first_answer_seconds(space) - self.spent_s() - search.seconds)

    def finalists_over(self, replay_s: float) -> bool:
        """Whether no more finalists are to be finished or run on a device: half of what is kept for it is left to test data and the best.
        `replay_s` as for `concluded`."""
        return self.spent_s() - replay_s >= self.budget.seconds * (1.0 - DEVICE_SHARE / 2.0)

    def untrained_over(self, replay_s: float) -> bool:
        """Whether no more finalists are to be finished or linked, since what is left is for training the one that is delivered. `replay_s`
        as for `concluded`."""
        return self.spent_s() - replay_s >= self.budget.seconds * (1.0 - TRAINING_SHARE + DEVICE_SHARE)

    def training_left_s(self, replay_s: float) -> float:
        """Seconds until `finalists_over`, which ends a training."""
        return self.budget.seconds * (1.0 - DEVICE_SHARE / 2.0) - self.spent_s() + replay_s

    def concluded(self, study: Study, replay_s: float) -> Callable[[], bool]:
        """Whether what comes after the search has to end. `replay_s`: what a resumed study has replayed, which costs no budget."""
        extra_s = replay_s + max(CONCLUDING_S, CONCLUDING_SHARE * self.budget.seconds)
        return lambda: self.spent_s() >= self.budget.seconds + extra_s or study.stopped_for_s() >= AFTER_INTERRUPT_S


def first_answer_seconds(space: Space) -> float:
    """How long after its budget a search of the space goes on for its first candidate."""
    return math.inf if answers_always(space) else FIRST_ANSWER_S


def never() -> bool:
    """For what may take its time."""
    return False


def endless() -> float:
    """Seconds that are left to what may take its time."""
    return math.inf


def unheard(said: str) -> None:
    """Told what is being done, and shows it to nobody."""


def made_in_time(is_over: Callable[[], bool], make: Callable[[], MadeT]) -> MadeT | None:
    """What `make` makes; None when that was abandoned."""
    if is_over():
        return None
    made: MadeT | None = None
    with abandonable(is_over) as making:
        made = make()
    return None if making.abandoned else made
