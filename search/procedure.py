"""What a space's own heuristic reaches by itself, outside any study: the figure that every search is compared with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from kilotune.search.space import Assignment, HasProcedure, Measurement, Space, Trial

ReturnedT = TypeVar("ReturnedT")
Evaluate = Callable[[Sequence[Assignment]], list[Measurement]]


def run_procedure(space: Space, evaluate: Evaluate | None = None) -> Trial | None:
    """The answer of the space's procedure (the last candidate that it yields); None where it has none.

    `evaluate` stands in for the space's own, for callers that know some measurements already.
    """
    measure = evaluate or space.evaluate
    if not isinstance(space, HasProcedure):
        return None
    answer = None
    for trials in trials_of(space.procedure(), measure):
        answer = trials[-1] if trials else answer
    return answer


def trials_of(
    search: Generator[list[Assignment], list[Trial], ReturnedT], measure: Evaluate
) -> Generator[list[Trial], None, ReturnedT]:
    """Run straight-line search code to its end: the trials of each batch that it yields, numbered from 0; returns what it returns."""
    number = 0
    try:
        batch = next(search)
        while True:
            measured = measure(batch)
            trials = [Trial(number + i, a, m) for i, (a, m) in enumerate(zip(batch, measured, strict=True))]
            number += len(trials)
            yield trials
            batch = search.send(trials)
    except StopIteration as end:
        returned: ReturnedT = end.value
        return returned
