"""What benchmarks of SCAMP-5 share: named kernels, and the search behind `tune --space reverse-split` for so many CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.few_digits import with_few_digits
from kilotune.codegen.scamp.kernel import ApproximatedSet, Kernel, KernelSet
from kilotune.codegen.scamp.macros import format_macros
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.registers import RegisterPressureError
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.macro_check import check_macros
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.problems.reverse_split.filters import KernelRows
from kilotune.search.space import Assignment
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.space import ReverseSplitSpace

NONE = "-"


@dataclass(frozen=True)
class KernelCase:
    """Kernels of integer weights over `2**depth`, what others reach, and what is wanted (instructions).

    `error`: the share by which weights may be off, for as few digits as possible (`codegen.scamp.few_digits`).
    """

    name: str
    depth: int
    kernels: tuple[KernelRows, ...]
    auke: str = NONE
    cain_auke: str = NONE
    cain_scamp5: str = NONE
    cain_transfers: str = NONE
    wanted_auke: int | None = None
    wanted_scamp5: int | None = None
    error: float = 0.0

    @property
    def kernel_set(self) -> KernelSet:
        """The kernels, of integers."""
        return KernelSet(tuple(Kernel.of_rows(rows) for rows in self.kernels))

    @property
    def approximated(self) -> ApproximatedSet:
        return ApproximatedSet(self.depth, with_few_digits(self.kernel_set, 0, self.error).approximations)


@dataclass(frozen=True)
class SearchedProgram:
    """Where a search of a case stands at its end. `program`: proved from its text; None where none fits the registers.

    CPU seconds: `found_at`, when the first objective had its last value; `end`, when the search stopped. `bound`: no program has less of
    the first objective. `legal`: its macros were read back from C++ and executed transfer by transfer; else the registers do not hold it
    as macros, which happens to programs in AUKE's set alone.
    """

    program: ScampProgram | None
    found_at: float
    end: float
    bound: float
    proved: bool
    legal: bool


def searched(
    case: KernelCase,
    target: str,
    seconds: float,
    seed: int = 0,
    goal: KernelGoal = KernelGoal.INSTRUCTIONS,
    registers: int = 6,
) -> SearchedProgram:
    """Search until the best program is proved or the CPU seconds are over; `WrongProgramError` where a program is wrong, `ValueError` where
    the registers cannot do."""
    start = time.process_time()
    space = ReverseSplitSpace(SplitProblem(case.approximated, target, registers, goal))
    best: Assignment | None = None
    losses: tuple[float, ...] = (float("inf"),)
    found_at, bound, proved = 0.0, space.least, False
    for step in space.exact_search(seed, lambda: start + seconds - time.process_time()):
        bound, proved = max(bound, step.bound), step.complete
        if step.candidate is not None:
            metrics = space.evaluate([step.candidate])[0].metrics
            these = tuple(objective.loss(metrics) for objective in space.objectives)
            if these < losses:
                found_at = found_at if these[0] == losses[0] else time.process_time() - start
                best, losses = step.candidate, these
        if proved or time.process_time() - start > seconds:
            break
    end = time.process_time() - start
    if best is None or losses[0] == float("inf"):
        return SearchedProgram(None, 0.0, end, bound, False, False)
    sums = case.approximated.sums
    program = prove(space.program(best).text, sums, case.depth)
    return SearchedProgram(
        program, found_at, end, bound, proved or losses[0] <= bound, _is_legal(program, sums, case.depth)
    )


def _is_legal(program: ScampProgram, sums: Sequence[Sum], depth: int) -> bool:
    try:
        source = format_macros(program)
    except RegisterPressureError:
        return False
    check_macros(source, sums, depth)
    return True
