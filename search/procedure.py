"""What a space's own heuristic reaches by itself, outside any study: the figure that every search is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kilotune.search.space import Assignment, HasProcedure, Measurement, Space, Trial

Evaluate = Callable[[Sequence[Assignment]], list[Measurement]]


def run_procedure(space: Space, evaluate: Evaluate | None = None) -> Trial | None:
    """The answer of the space's procedure (the last candidate that it yields); None where it has none.

    `evaluate` stands in for the space's own, for callers that know some measurements already.
    """
    measure = evaluate or space.evaluate
    if not isinstance(space, HasProcedure):
        return None
    procedure = space.procedure()
    answer, number = None, 0
    try:
        batch = next(procedure)
        while True:
            measured = measure(batch)
            trials = [Trial(number + i, a, m) for i, (a, m) in enumerate(zip(batch, measured, strict=True))]
            number += len(trials)
            answer = trials[-1] if trials else answer
            batch = procedure.send(trials)
    except StopIteration:
        return answer
