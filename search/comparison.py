"""Strategies compared on one space: what each reached, when, and whether the differences are more than luck."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from kilotune.search.anytime import RESOLUTION_S, Curve, Improvement
from kilotune.search.statistics import (
    SIGNIFICANCE,
    PairedTest,
    holm,
    least_p,
    median,
    paired_test,
    pairs_needed,
    quantile,
)

FEWEST_PAIRS = 6
"""With fewer, no p of Wilcoxon's two-sided test is below `SIGNIFICANCE`; so few that are all alike say no more."""


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
    BEST_KNOWN = "best known"  # of any run, or of the paper's procedure


@dataclass(frozen=True)
class Reference:
    """The loss that regret is measured from; +inf with OPTIMUM: it is proved that nothing is feasible."""

    loss: float
    kind: ReferenceKind
    proved_by: tuple[str, ...] = ()  # strategies; none: the bound of one is what another one reached


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
    gap: float | None  # of the median to the reference, as `excess` has it; None where one of them is infinite
    proved: int
    paper: Reached | None
    optimum: Reached | None  # of the reference, where that is the optimum
    regret_area: float | None


@dataclass(frozen=True)
class PairwiseTest:
    """Two strategies, seed by seed. `final`: the losses at the end; `area`: the regret areas, so how soon, ties where the two
    curves are alike. `adjusted` are their p values after Holm's correction over all pairwise tests of the comparison. `needs`: how many
    seeds it takes to call the difference significant, as often as these pairs differ; None where those there are suffice, or
    where no pair differs."""

    first: str
    second: str
    final: PairedTest
    area: PairedTest
    adjusted_final: float | None
    adjusted_area: float | None
    needs_final: int | None
    needs_area: int | None


@dataclass(frozen=True)
class Comparison:
    """What can be said, best strategy first. `paper_loss`: of the paper's procedure, None where there is none."""

    standings: tuple[Standing, ...]
    reference: Reference
    paper_loss: float | None
    pairwise_tests: tuple[PairwiseTest, ...]
    horizon_s: float  # over which regret areas are taken
    area_resolution: float | None  # by how much a regret area differs, at most, when all its times do by `RESOLUTION_S`


def compare(runs: Sequence[RunRecord], paper_loss: float | None, horizon_s: float | None = None) -> Comparison:
    """What at least one run says. `horizon_s`: the budget's seconds; None: those of the longest run. Standings are ordered by
    median loss, then by regret area, where no time differs as the runs name their strategies. ValueError, a sentence, when two
    proofs contradict each other: a defect."""
    reference = find_reference(runs, paper_loss)
    horizon_s = horizon_s or max(run.curve.seconds for run in runs) or 1.0
    worst = _worst(runs, paper_loss)

    def area(run: RunRecord) -> float:
        return _regret_area(run.curve, reference.loss, worst, horizon_s)

    names = dict.fromkeys(run.strategy for run in runs)
    by_name = {name: tuple(sorted(_of(runs, name), key=lambda run: run.seed)) for name in names}
    standings = [_standing(name, own, reference, paper_loss, area) for name, own in by_name.items()]
    ordered = _ordered(standings)
    pairwise_tests = _pairwise_tests([s.strategy for s in ordered], by_name, area)
    resolution = _regret(worst, reference.loss) * RESOLUTION_S / horizon_s
    return Comparison(
        tuple(ordered),
        reference,
        paper_loss,
        pairwise_tests,
        horizon_s,
        resolution if math.isfinite(resolution) else None,
    )


def find_reference(runs: Sequence[RunRecord], paper_loss: float | None) -> Reference:
    """The proved optimum, else the best bound, else the best loss known. ValueError when a run (or the paper's procedure)
    beats what another one proved."""
    best = min([run.curve.loss for run in runs] + ([] if paper_loss is None else [paper_loss]))
    proofs = [run for run in runs if run.proved]
    for run in proofs:
        if best < run.curve.loss:
            claim = f"calls {run.curve.loss:g} the optimum"
            if math.isinf(run.curve.loss):
                claim = "has shown that nothing is feasible"
            raise ValueError(
                f"{run.strategy} (seed {run.seed}) {claim}, and there is a candidate of {best:g}: "
                f"one of the two is wrong, please report it."
            )
    bound = max(run.bound for run in runs)
    if bound > best:
        raise ValueError(
            f"A run's bound is {bound:g}, and there is a candidate of {best:g}: a defect, please report it."
        )
    if proofs or bound == best:
        return Reference(best, ReferenceKind.OPTIMUM, tuple(dict.fromkeys(run.strategy for run in proofs)))
    if math.isfinite(bound):
        return Reference(bound, ReferenceKind.BOUND)
    return Reference(best, ReferenceKind.BEST_KNOWN)


def excess(loss: float, reference: float) -> float:
    """How far a loss is above the reference, as a share of it (of 1 where it is 0); +inf where one of them is infinite."""
    if math.isinf(loss) or math.isinf(reference):
        return math.inf
    return max(0.0, loss - reference) / (abs(reference) or 1.0)


def indistinguishable(comparison: Comparison) -> tuple[str, ...]:
    """The leader, and the strategies that it does not beat significantly at the end of the budget. Pairs that do not vary, so
    that there is nothing to test, count as they are when there are as many of them as a verdict needs (`seeds_needed`)."""
    leader = comparison.standings[0]
    level = [leader.strategy]
    for standing in comparison.standings[1:]:
        pairwise = pairwise_test_of(comparison, leader.strategy, standing.strategy)
        if pairwise is None or not _certain(pairwise) or pairwise.final.wins <= pairwise.final.losses:
            level.append(standing.strategy)
    return tuple(level)


def _certain(pairwise: PairwiseTest) -> bool:
    if pairwise.adjusted_final is None:
        return pairwise.needs_final is None
    return pairwise.adjusted_final < SIGNIFICANCE


def pairwise_test_of(comparison: Comparison, first: str, second: str) -> PairwiseTest | None:
    """The pairwise test of two strategies, in the order of the standings. None: they have no seed in common yet."""
    return next(
        (pairwise for pairwise in comparison.pairwise_tests if (pairwise.first, pairwise.second) == (first, second)),
        None,
    )


def seeds_needed(strategies: int) -> int:
    """How many seeds it takes for a verdict between so many strategies, at least: all pairs of them are tested, and each seed may
    make a pair of runs that differ. 1 where there is nothing to compare."""
    return max(FEWEST_PAIRS, pairs_needed(math.comb(strategies, 2))) if strategies > 1 else 1


def undecided(comparison: Comparison) -> dict[str, int]:
    """The strategies of which no verdict against the leader can be reached, whatever the runs that are there had ended with; and
    how many seeds that takes."""
    leader = comparison.standings[0].strategy
    pairwise_tests = ((s.strategy, pairwise_test_of(comparison, leader, s.strategy)) for s in comparison.standings[1:])
    return {
        name: pairwise.needs_final
        for name, pairwise in pairwise_tests
        if pairwise is not None and pairwise.needs_final is not None
    }


def _ordered(standings: Sequence[Standing]) -> list[Standing]:
    """Best first. Of those that are alike the one that was named first comes first: which is sooner by less than the
    resolution, is luck."""
    left = sorted(standings, key=lambda s: (s.median, s.regret_area if s.regret_area is not None else math.inf))
    ordered: list[Standing] = []
    while left:
        level = [standing for standing in standings if standing in left and _alike(left[0], standing)]
        ordered += level
        left = [standing for standing in left if standing not in level]
    return ordered


def _alike(one: Standing, other: Standing) -> bool:
    """Whether no seed that both have tells them apart."""
    theirs = {run.seed: run.curve for run in other.runs}
    pairs = [(run.curve, theirs[run.seed]) for run in one.runs if run.seed in theirs]
    return one is other or (one.median == other.median and bool(pairs) and all(a.alike(b) for a, b in pairs))


def _standing(
    name: str,
    runs: tuple[RunRecord, ...],
    reference: Reference,
    paper_loss: float | None,
    area: Callable[[RunRecord], float],
) -> Standing:
    losses = [run.curve.loss for run in runs]
    middle = median(losses)
    gap = excess(middle, reference.loss)
    areas = [area(run) for run in runs]
    optimum = reference.loss if reference.kind is ReferenceKind.OPTIMUM and math.isfinite(reference.loss) else None
    return Standing(
        strategy=name,
        runs=runs,
        best=min(losses),
        median=middle,
        quartiles=(quantile(losses, 0.25), quantile(losses, 0.75)),
        gap=gap if math.isfinite(gap) else None,
        proved=sum(run.proved for run in runs),
        paper=None if paper_loss is None or math.isinf(paper_loss) else _reached(runs, paper_loss),
        optimum=None if optimum is None else _reached(runs, optimum),
        regret_area=sum(areas) / len(areas) if all(map(math.isfinite, areas)) else None,
    )


def _reached(runs: Sequence[RunRecord], loss: float) -> Reached:
    firsts = [run.curve.first(loss) for run in runs]

    def middle(of: Callable[[Improvement], float]) -> float | None:
        value = median([math.inf if step is None else of(step) for step in firsts])
        return value if math.isfinite(value) else None

    count = sum(step is not None for step in firsts)
    return Reached(count, middle(lambda step: float(step.evaluations)), middle(lambda step: step.seconds))


def _pairwise_tests(
    names: Sequence[str], by_name: dict[str, tuple[RunRecord, ...]], area: Callable[[RunRecord], float]
) -> tuple[PairwiseTest, ...]:
    """Over the seeds that both strategies have."""
    tests: list[tuple[str, str, PairedTest, PairedTest]] = []
    for first, second in combinations(names, 2):
        theirs = {run.seed: run for run in by_name[second]}
        pairs = [(run, theirs[run.seed]) for run in by_name[first] if run.seed in theirs]
        if pairs:
            final = paired_test([a.curve.loss for a, _ in pairs], [b.curve.loss for _, b in pairs])
            alike = [a.curve.alike(b.curve) for a, b in pairs]
            soon = paired_test([area(a) for a, _ in pairs], [area(b) for _, b in pairs], alike)
            tests.append((first, second, final, soon))
    finals, areas = holm([test[2].p for test in tests]), holm([test[3].p for test in tests])
    needed = seeds_needed(len(names))
    return tuple(
        PairwiseTest(
            *test, final, soon, _needed(test[2], _tested(finals), needed), _needed(test[3], _tested(areas), needed)
        )
        for test, final, soon in zip(tests, finals, areas, strict=True)
    )


def _tested(adjusted: Sequence[float | None]) -> int:
    return sum(p is not None for p in adjusted)


def _needed(test: PairedTest, tests: int, enough: int) -> int | None:
    """How many seeds it takes, one p of so many, where even the least p that so many differing pairs can give is not significant.
    `enough`: how many must differ when all pairs of strategies are tested, since one that does not vary yet may later."""
    differing = test.wins + test.losses
    if not differing:
        return None
    if test.p is None:
        return None if test.pairs >= enough else enough
    if tests * least_p(differing) < SIGNIFICANCE:
        return None
    return -(-enough * test.pairs // differing)


def _regret_area(curve: Curve, reference: float, worst: float, horizon_s: float) -> float:
    if not math.isfinite(reference) or not math.isfinite(worst):
        return math.inf
    return _regret(curve.mean_loss(horizon_s, worst), reference)


def _regret(loss: float, reference: float) -> float:
    return (loss - reference) / (abs(reference) or 1.0)


def _worst(runs: Sequence[RunRecord], paper_loss: float | None) -> float:
    """The worst first feasible loss of any run: what having nothing counts as."""
    known = [run.curve.steps[0].loss for run in runs if run.curve.steps]
    known += [] if paper_loss is None or math.isinf(paper_loss) else [paper_loss]
    return max(known, default=math.inf)


def _of(runs: Sequence[RunRecord], name: str) -> list[RunRecord]:
    return [run for run in runs if run.strategy == name]
