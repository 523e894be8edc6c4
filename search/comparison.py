"""Strategies compared on one space: what each reached, when, and whether the differences are more than luck."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kilotune.search.anytime import Curve


@dataclass(frozen=True)
class RunRecord:
    """One run of a strategy. `bound`: a loss that it showed no feasible candidate to beat, -inf if none."""

    strategy: str
    seed: int
    curve: Curve
    bound: float
    proved: bool  # its best is the optimum (or nothing is feasible)
    complete: bool  # it used its budget or came to its end


class ReferenceKind(enum.Enum):
    """What regret is measured from, best first."""

    OPTIMUM = "proved optimum"
    BOUND = "best bound"
    BEST_KNOWN = "best found by any run"


@dataclass(frozen=True)
class Reference:
    """The loss that regret is measured from."""

    loss: float
    kind: ReferenceKind
    proved_by: tuple[str, ...] = ()  # strategies


@dataclass(frozen=True)
class Reached:
    """How many of a strategy's runs got as far as some loss, and the medians of how long it took, over all runs: one
    that never did counts as infinitely long, and a median of those is None."""

    runs: int
    evaluations: float | None
    seconds: float | None


@dataclass(frozen=True)
class Standing:
    """One strategy over all seeds. Losses are of the first objective; +inf: nothing feasible. `regret_area` is the mean,
    over the budget's seconds and over the runs, of (best so far - reference) / |reference|."""

    strategy: str
    runs: tuple[RunRecord, ...]
    best: float
    median: float
    quartiles: tuple[float, float]
    gap: float | None  # of the median, relative to the reference
    proved: int
    paper: Reached | None
    optimum: Reached | None  # of the reference, where that is the optimum
    regret_area: float | None


@dataclass(frozen=True)
class Duel:
    """Two strategies, seed by seed: Wilcoxon's signed-rank test on the final losses. `effect` is the matched-pairs
    rank-biserial correlation, from -1 (the first one is always worse) to 1 (always better). `adjusted` is p after Holm's
    correction over all duels of the comparison."""

    first: str
    second: str
    wins: int
    ties: int
    losses: int
    p: float
    adjusted: float
    effect: float


@dataclass(frozen=True)
class Comparison:
    """What can be said, best strategy first. `paper_loss`: of the paper's procedure, None where there is none."""

    standings: tuple[Standing, ...]
    reference: Reference
    paper_loss: float | None
    duels: tuple[Duel, ...]
    verdict: str
