"""Every sentence of the verdict, on comparisons made by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from kilotune.experiments.comparison.plan import Case, ComparisonPlan
from kilotune.experiments.comparison.verdict import (
    cpu_time,
    left_out_sentence,
    regret_area,
    resolved_regret,
    seeds_sentence,
    verdict,
)
from kilotune.search.anytime import Curve, Improvement
from kilotune.search.comparison import RunRecord, compare
from kilotune.search.space import Direction, Objective

BYTES = Objective("peak_bytes")
ACCURACY = Objective("accuracy_percent", Direction.MAXIMIZE)
NOTHING = math.inf


def runs(
    strategy: str, finals: Sequence[float], bound: float = -math.inf, proved: bool = False, evaluations: int = 3
) -> list[RunRecord]:
    """One a seed; each reached its final loss with its so-manieth evaluation, after half a second."""
    return [
        RunRecord(
            strategy,
            seed,
            Curve(() if math.isinf(loss) else (Improvement(evaluations, 0.5, loss),), 9, 1.0),
            bound,
            proved,
            True,
        )
        for seed, loss in enumerate(finals)
    ]


SAME = [10.0] * 10
CLOSE = [10.0 + seed % 2 for seed in range(10)]
LEVEL = [10.5 + (seed * 7) % 3 - 1 for seed in range(10)]
FAR = [30.0 + seed for seed in range(10)]
NONE = [NOTHING] * 10


@pytest.mark.parametrize(
    ("made", "paper", "sentences"),
    [
        pytest.param(
            runs("cp", SAME, 10.0, True) + runs("random", FAR) + runs("local", [10.0] * 4 + FAR[:6]),
            10.0,
            "The paper's procedure is optimal: peak bytes 10, proved by cp. Always at the optimum, with the medians of what it "
            "took: cp (3 evaluations, 0.5 CPU-s). Never: random.",
            id="optimal",
        ),
        pytest.param(
            runs("cp", SAME, 10.0, True, evaluations=1) + runs("exhaustive", SAME, 10.0, True),
            12.0,
            "The paper's procedure is not optimal: peak bytes 12, and the optimum is 10 (20 % off), proved by cp and exhaustive. "
            "Always at the optimum, with the medians of what it took: cp (1 evaluation, 0.5 CPU-s); exhaustive (3 evaluations, "
            "0.5 CPU-s).",
            id="not optimal",
        ),
        pytest.param(
            runs("tpe", FAR) + runs("cp", [11.0] * 10, 10.0),
            10.0,
            "The paper's procedure is optimal: peak bytes 10, proved by the bound. Best median: cp, 11; worse: tpe (p = 0.002, "
            "effect 1.00).",
            id="the bound meets the paper's",
        ),
        pytest.param(
            runs("cp", [0.0] * 3, 0.0, True),
            512.0,
            "The paper's procedure is not optimal: peak bytes 512, and the optimum is 0, proved by cp. Always at the optimum, "
            "with the medians of what it took: cp (3 evaluations, 0.5 CPU-s).",
            id="the optimum is 0: no share of it",
        ),
        pytest.param(
            runs("cp", [-8.0] * 10, -10.0) + runs("tpe", [-5.0] * 10, -9.0),
            -7.0,
            "The paper's procedure is not optimal: accuracy percent 7, and 8 was found (12.5 % off). Nothing can be better than "
            "9: 8 is at most 11.1 % off. Best median: cp, 8; worse: tpe.",
            id="a bound, more is better, nothing varies",
        ),
        pytest.param(
            runs("close", CLOSE) + runs("level", LEVEL) + runs("far", FAR),
            9.0,
            "No strategy beats the paper's procedure: peak bytes 9. Best median: level, 10.5; close is not worse for all that 10 "
            "seeds can tell; worse: far (p = 0.0059, effect 1.00).",
            id="nothing proved",
        ),
        pytest.param(
            runs("a", [10.0] * 3) + runs("b", [11.0] * 3) + runs("c", [12.0] * 3),
            None,
            "Best median: a, 10; 3 seeds cannot tell whether it is better than b and c (needs 7 seeds).",
            id="too few seeds to call anything worse",
        ),
        pytest.param(
            runs("a", [10.0]) + runs("b", [11.0]),
            None,
            "Best median: a, 10; 1 seed cannot tell whether it is better than b (needs 6 seeds).",
            id="one seed",
        ),
        pytest.param(
            runs("a", [10.0] * 2) + runs("b", [NOTHING, NOTHING, 11.0, 11.0, 11.0])[2:],
            None,
            "Best median: a, 10; b is not worse for all that 2 seeds can tell.",
            id="no seed in common",
        ),
        pytest.param(
            runs("a", [10.0 + seed for seed in range(6)])
            + runs("b", [20.0 + seed for seed in range(6)])
            + runs("c", [30.0 + seed for seed in range(3)] + [13.0, 14.0, 15.0])
            + runs("d", [41.0 + 2 * seed for seed in range(6)]),
            None,
            "Best median: a, 12.5; 6 seeds cannot tell whether it is better than b and d (needs 8 seeds) and c (needs 16 seeds).",
            id="six seeds of four strategies: no win can be significant",
        ),
        pytest.param(runs("a", [10.0, 12.0]), None, "a: median 11.", id="one strategy"),
        pytest.param(
            runs("a", [NOTHING, 12.0], 9.0) + runs("b", [NOTHING] * 2),
            NOTHING,
            "The paper's procedure has no answer that meets the limits. At least half of every strategy's runs find nothing that "
            "meets the limits; the best that one finds is 12 (a).",
            id="rarely feasible",
        ),
        pytest.param(
            runs("a", [NOTHING, 12.0]),
            None,
            "At least half of a's runs find nothing that meets the limits; the best that one finds is 12 (a).",
            id="one strategy, rarely feasible",
        ),
        pytest.param(
            runs("a", NONE) + runs("b", NONE),
            12.0,
            "No strategy beats the paper's procedure: peak bytes 12. No run finds anything that meets the limits.",
            id="only the procedure is feasible",
        ),
        pytest.param(
            runs("a", NONE) + runs("b", NONE, NOTHING, True),
            NOTHING,
            "The paper's procedure has no answer that meets the limits. Nothing meets the limits, proved by b.",
            id="proved infeasible",
        ),
    ],
)
def test_the_verdict_says(made: list[RunRecord], paper: float | None, sentences: str) -> None:
    objective = ACCURACY if min(run.curve.loss for run in made) < 0 else BYTES
    assert verdict(objective, compare(made, paper, 1.0), "paper's procedure") == sentences


def test_there_is_no_share_of_a_bound_that_is_0() -> None:
    text = verdict(BYTES, compare(runs("a", [5.0] * 2, 0.0), 5.0, 1.0), "first plan")
    assert text == "No strategy beats the first plan: peak bytes 5. Nothing can be better than 0. a: median 5."


@pytest.mark.parametrize("trained", [True, False])
def test_before_the_run_it_says_that_nothing_is_trained(trained: bool) -> None:
    cases = (Case("one", "memory", "x", ("a",)), Case("other", "shiftry", "x", ("a",), {"trained": trained}))
    said = left_out_sentence(ComparisonPlan(cases, 6, "1s"))
    assert ("Searches are compared, which --trained is no part of" in said) == bool(said) == trained


@pytest.mark.parametrize(
    ("strategies", "repeats", "said"),
    [
        ("abcd", 6, "A verdict between 4 strategies needs at least 8 seeds, and there are 6: `--repeats 8`"),
        ("abcd", 1, "A verdict between 4 strategies needs at least 8 seeds, and there is 1: `--repeats 8`"),
        ("abcd", 8, "A verdict between 4 strategies needs at least 8 seeds; there are 8."),
        ("abcdef", 10, "A verdict between 6 strategies needs at least 10 seeds; there are 10."),
        ("ab", 5, "A verdict between 2 strategies needs at least 6 seeds, and there are 5: `--repeats 6`"),
        ("a", 1, ""),
    ],
)
def test_before_the_run_it_says_how_many_seeds_a_verdict_needs(strategies: str, repeats: int, said: str) -> None:
    cases = (Case("one", "memory", "x", tuple(strategies)), Case("other", "memory", "x", ("a",)))
    sentence = seeds_sentence(ComparisonPlan(cases, repeats, "1s"))
    assert sentence.startswith(said)
    assert bool(sentence) is bool(said)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "< 0.001"),
        (0.00099, "< 0.001"),
        (0.0012, "0.001"),
        (0.0462, "0.046"),
        (0.4667, "0.47"),
        (12.3, "12"),
        (456.0, "460"),
    ],
)
def test_times_are_shown_to_their_resolution(seconds: float, text: str) -> None:
    assert cpu_time(seconds) == text


def test_a_regret_says_no_more_than_the_times_it_is_made_of() -> None:
    """Over 10 s, from nothing better than 20 at first, to an optimum of 10: a millisecond is 0.01 % of regret."""

    def run(name: str, at_s: float) -> RunRecord:
        return RunRecord(
            name, 0, Curve((Improvement(1, 0.0, 20.0), Improvement(2, at_s, 10.0)), 9, 10.0), 10.0, True, True
        )

    compared = compare([run("soon", 0.0004), run("late", 0.123456)], None, 10.0)
    assert compared.area_resolution == pytest.approx(1e-4)
    assert [regret_area(compared, standing) for standing in compared.standings] == ["< 0.01", "1.23"]
    assert [resolved_regret(compared, standing) for standing in compared.standings] == [0.0, 1.23]
