"""What a space's own heuristic reaches by itself, outside any study: the figure that every search is compared with."""

from __future__ import annotations

from kilotune.search.space import HasProcedure, Space, Trial


def run_procedure(space: Space) -> Trial | None:
    """The answer of the space's procedure (the last candidate that it yields); None where it has none."""
    if not isinstance(space, HasProcedure):
        return None
    procedure = space.procedure()
    answer, number = None, 0
    try:
        batch = next(procedure)
        while True:
            measured = space.evaluate(batch)
            trials = [Trial(number + i, a, m) for i, (a, m) in enumerate(zip(batch, measured, strict=True))]
            number += len(trials)
            answer = trials[-1] if trials else answer
            batch = procedure.send(trials)
    except StopIteration:
        return answer
