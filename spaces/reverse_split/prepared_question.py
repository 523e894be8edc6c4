"""A question to one of the compiled searches for programs, ready to be asked in a thread, and what came of it.

The searches (`programs.c`, `signless.c`) are called alike: with a problem, whose last fields are set for each question, and with
arrays into which they write the program and the place where a later call goes on.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.scamp.plan import Plan
from kilotune.evaluators.interruptible import StopFlag, interruptible

QUICK_WORK = 4_000
"""Up to this much is a tenth of a second at most, of the longest kernels."""


class ProgramStatus(enum.IntEnum):
    """Answers to one question. The numbers are those of the compiled searches."""

    FOUND = 0
    EXHAUSTED = 1
    STOPPED = 2
    NO_MEMORY = 3


@dataclass(frozen=True)
class ProgramResult:
    """`plan` for FOUND; `path`: where a later call goes on; `work`: values that were looked at."""

    status: ProgramStatus
    plan: Plan | None
    path: tuple[int, ...]
    work: int


@dataclass(frozen=True)
class PreparedQuestion:
    """A question ready to be asked in a thread: `call` does the work and returns a status, `stop` asks it to end soon, `answer` is what
    came of it."""

    call: Callable[[], int]
    stop: Callable[[], object]
    answer: Callable[[int], ProgramResult]

    def ask(self, work_limit: int) -> ProgramResult:
        """The answer, which Ctrl-C and the end of a budget interrupt. Raises `MemoryError`."""
        # A thread takes longer to start than most questions to answer.
        return self.answer(self.call() if work_limit <= QUICK_WORK else interruptible(self.call, self.stop))


@dataclass(frozen=True)
class CompiledSearch:
    """How a compiled search is called: its `function`, the `problem` that it is told, how long a path or program gets at most, how many
    numbers it writes for an instruction and how many results it places, and the `plan` of both."""

    function: Callable[..., int]
    problem: ctypes.Structure
    longest: int
    numbers: int
    results: int
    plan: Callable[[list[list[int]], list[int]], Plan | None]

    def prepared(self, budget: int, work_limit: int, path: Sequence[int]) -> PreparedQuestion:
        """The question for a program of at most `budget`, from where `path` left off. One at a time: the problem is told of it here."""
        self.problem.budget, self.problem.work_limit = budget, work_limit
        way = np.zeros(self.longest, dtype=np.int32)
        way[: len(path)] = path
        length, count = np.array([len(path)], dtype=np.int32), np.zeros(1, dtype=np.int32)
        steps, at = np.zeros((self.longest, self.numbers), dtype=np.int32), np.zeros(self.results + 1, dtype=np.int32)
        work = np.zeros(1, dtype=np.int64)
        addresses = tuple(array.ctypes.data for array in (way, length, steps, count, at, work))
        flag = StopFlag()
        self.problem.stop = flag.address

        def call() -> int:
            return int(self.function(ctypes.byref(self.problem), *addresses))

        def answer(status: int) -> ProgramResult:
            if status == ProgramStatus.NO_MEMORY:
                raise MemoryError("The search for programs ran out of memory.")
            found = status == ProgramStatus.FOUND
            plan = self.plan(steps[: int(count[0])].tolist(), at[: self.results].tolist()) if found else None
            return ProgramResult(ProgramStatus(status), plan, tuple(way[: int(length[0])].tolist()), int(work[0]))

        return PreparedQuestion(call, flag.set, answer)


def too_long() -> PreparedQuestion:
    """A question for programs longer than a search can hold: nothing is called, and the answer is STOPPED without a path."""
    result = ProgramResult(ProgramStatus.STOPPED, None, (), 0)
    return PreparedQuestion(lambda: ProgramStatus.STOPPED, lambda: None, lambda status: result)
