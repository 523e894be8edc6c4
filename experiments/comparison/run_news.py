"""What a process that makes the runs of a comparison says of them."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.experiments.comparison.plan import RunKey


@dataclass(frozen=True)
class RunNews:
    """Where a run stands: `best` is the first objective's metric of its best candidate, None before the first trial."""

    run: RunKey
    trials: int
    seconds: float  # of CPU
    best: float | None
    feasible: bool
    bound: float | None


@dataclass(frozen=True)
class RunFinished:
    """A run has come to an end, or was stopped; `problem`: a sentence when it could not be made."""

    run: RunKey
    problem: str | None = None
