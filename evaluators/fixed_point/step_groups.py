"""Groups of a program's steps that run or are left out together, since candidates that come to the same run them once.

The compiled kernel (`shared_steps.h`) leaves a group out where it means the same for the candidate that ran before and what it reads is the
same: its values are then still there. Of programs of few values it knows them from call to call (`known_values.h`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.looped_steps import LoopedSteps
from kilotune.codegen.straight_line import OperationInstance


@dataclass(frozen=True)
class StepGroup:
    """Parts `first` to before `end` of the body of a program's steps.

    `rows`: the numbers of their operations; `reads`: the parameters and the input that they read, and the variables that earlier groups
    write; `written`: the variables that they write; `kept`: those of them that later groups read.
    """

    first: int
    end: int
    rows: Sequence[int]
    reads: Sequence[str]
    kept: Sequence[str]
    written: Sequence[str]


def grouped_parts(
    steps: LoopedSteps, boundaries: Sequence[int], read_beside: Collection[tuple[int, str]] = ()
) -> tuple[StepGroup, ...]:
    """The groups between parts of the body (`boundaries`, from 0 to behind the last one). `read_beside`: parts, and what something
    besides their operations reads when they run, variables."""
    spans = list(pairwise(boundaries))
    inside = [_steps_in(steps, first, end) for first, end in spans]
    written = [{step.operation.out.variable for step in some} for some in inside]
    reads = [
        {source.variable for step in some for source in step.sources if source.variable is not None}
        | {name for part, name in read_beside if first <= part < end}
        for some, (first, end) in zip(inside, spans, strict=True)
    ]
    later: set[str] = set()
    groups = []
    for (first, end), some, made, read in reversed(list(zip(spans, inside, written, reads, strict=True))):
        rows = sorted({step.row for step in some})
        groups.append(StepGroup(first, end, rows, sorted(read - made), sorted(made & later), sorted(made)))
        later |= read
    return tuple(reversed(groups))


def separate_parts(steps: LoopedSteps) -> IntArray:
    """The parts of the body, a step or a loop, before which no variable is written that is written again from there on; and the end."""
    first_writer: dict[str, int] = {}
    last_writer: dict[str, int] = {}
    for number in range(len(steps.body)):
        for step in _steps_in(steps, number, number + 1):
            written = step.operation.out.variable
            first_writer.setdefault(written, number)
            last_writer[written] = number
    open_writers = np.zeros(len(steps.body) + 1, dtype=np.int64)
    for name, first in first_writer.items():
        open_writers[first + 1] += 1
        open_writers[last_writer[name] + 1] -= 1
    return np.flatnonzero(np.cumsum(open_writers) == 0)


def resumable_parts(program: ir.Program, steps: LoopedSteps, last: int) -> IntArray:
    """The part from which on steps have to run when an operation means something else, for each of them, and when none does: [operations +
    1]. It is not after part `last`."""
    parts = len(steps.body)
    first_part = np.full(len(tuple(ir.operations(program.body))) + 1, parts, dtype=np.int64)
    for number in reversed(range(parts)):
        first_part[[step.row for step in _steps_in(steps, number, number + 1)]] = number
    separate = separate_parts(steps)
    return np.asarray(separate[np.searchsorted(separate, np.minimum(first_part, last), side="right") - 1])


def _steps_in(steps: LoopedSteps, first: int, end: int) -> list[OperationInstance]:
    return [step.first for step, _ in LoopedSteps(steps.program, steps.body[first:end]).places]
