"""Curves and what is concluded from them, on runs made by hand and against sums over fine steps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.anytime import Curve, Step, best_so_far
from kilotune.search.comparison import ReferenceKind, RunRecord, compare, duel_of, indistinguishable
from kilotune.search.front import Ranking
from kilotune.search.space import Constraint, Direction, Measurement, Objective


def run(
    strategy: str, seed: int, *steps: tuple[int, float, float], bound: float = -math.inf, proved: bool = False
) -> RunRecord:
    return RunRecord(strategy, seed, Curve(tuple(Step(*step) for step in steps), 100, 10.0), bound, proved, True)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(-20, 20)), max_size=8),
    st.integers(1, 60),
    st.integers(-25, 25),
)
def test_the_mean_is_the_sum_over_fine_steps(improvements: list[tuple[int, int]], seconds: int, cap: int) -> None:
    steps, loss = [], math.inf
    for number, (at, value) in enumerate(sorted(improvements), start=1):
        if value < loss:
            loss = value
            steps.append(Step(number, float(at), float(value)))
    curve = Curve(tuple(steps), len(improvements), 100.0)
    sampled = [min(curve.loss_after(tick + 0.5), cap) for tick in range(seconds)]
    assert curve.mean_loss(float(seconds), cap) == pytest.approx(sum(sampled) / seconds)


def test_a_curve_follows_feasible_trials_only_and_turns_the_sign_of_what_is_maximised() -> None:
    ranking = Ranking((Objective("accuracy", Direction.MAXIMIZE),), (Constraint("bytes", 10),))
    rows = [(90, 12), (50, 9), (None, 0), (40, 1), (70, 10), (70, 2)]
    measured = [
        (0.5 * i, Measurement(failure="broke") if a is None else Measurement({"accuracy": a, "bytes": b}))
        for i, (a, b) in enumerate(rows, start=1)
    ]
    curve = best_so_far(measured, ranking, 7.0)
    assert curve == Curve((Step(2, 1.0, -50), Step(5, 2.5, -70)), 6, 7.0)
    assert curve.first(-60) == Step(5, 2.5, -70)
    assert curve.first(-71) is None


def test_the_reference_is_the_proof_then_the_bound_then_the_best() -> None:
    a, b = run("a", 0, (1, 1.0, 12.0)), run("b", 0, (1, 1.0, 10.0))
    assert compare([a, b], 9.0).reference.kind is ReferenceKind.BEST_KNOWN
    assert compare([a, b], 9.0).reference.loss == 9.0
    bounded = run("c", 0, (1, 1.0, 11.0), bound=8.0)
    assert compare([a, b, bounded], None).reference == compare([bounded], None).reference
    assert compare([a, b, bounded], None).reference.kind is ReferenceKind.BOUND
    proof = run("d", 0, (1, 1.0, 10.0), bound=10.0, proved=True)
    assert compare([a, b, proof], 12.0).reference.kind is ReferenceKind.OPTIMUM
    assert compare([a, b, proof], 12.0).reference.proved_by == ("d",)
    met = run("e", 0, (1, 1.0, 11.0), bound=10.0)  # its bound is what b reached
    assert compare([a, b, met], None).reference.kind is ReferenceKind.OPTIMUM


def test_contradicting_proofs_are_a_defect_and_said() -> None:
    proof, better = run("d", 3, (1, 1.0, 10.0), proved=True), run("b", 0, (1, 1.0, 9.0))
    with pytest.raises(ValueError, match=r"d \(seed 3\) calls 10 the optimum, and there is a candidate of 9"):
        compare([proof, better], None)
    with pytest.raises(ValueError, match=r"bound is 9\.5, and there is a candidate of 9"):
        compare([run("c", 0, (1, 1.0, 9.8), bound=9.5), better], None)
    with pytest.raises(ValueError, match="calls 10 the optimum"):
        compare([proof], 9.0)


def test_standings_by_hand() -> None:
    runs = [
        run("slow", 0, (1, 1.0, 20.0), (50, 6.0, 10.0), bound=10.0, proved=True),
        run("slow", 1, (1, 1.0, 20.0), (40, 4.0, 10.0)),
        run("slow", 2, (1, 1.0, 20.0)),
        run("none", 0),
        run("none", 1, (9, 5.0, 20.0)),
        run("none", 2),
    ]
    compared = compare(runs, 20.0, 10.0)
    slow, none = compared.standings
    assert (slow.strategy, slow.best, slow.median, slow.quartiles) == ("slow", 10.0, 10.0, (10.0, 15.0))
    assert slow.paper is not None
    assert slow.optimum is not None
    assert (slow.paper.runs, slow.paper.evaluations, slow.paper.seconds) == (3, 1.0, 1.0)
    assert (slow.optimum.runs, slow.optimum.evaluations, slow.optimum.seconds) == (2, 50.0, 6.0)
    # mean best so far: (20 * 6 + 10 * 4) / 10 = 16, (20 * 4 + 10 * 6) / 10 = 14, 20; nothing counts as 20, the worst first one
    assert slow.regret_area == pytest.approx(((16 + 14 + 20) / 3 - 10) / 10)
    assert none.median == math.inf
    assert none.gap is None
    assert compare(runs[:2], None).standings[0].gap == 0.0
    assert compare([*runs[:1], run("half", 0, (1, 1.0, 15.0))], None).standings[1].gap == pytest.approx(
        0.5
    )  # of the optimum, 10
    assert none.regret_area == pytest.approx(1.0)
    assert none.optimum is not None
    assert (none.optimum.runs, none.optimum.evaluations) == (0, None)
    duel = duel_of(compared, "slow", "none")
    assert (duel.final.wins, duel.final.ties, duel.final.losses) == (3, 0, 0)
    assert duel.area.wins == 2  # on seed 2 both have nothing better than 20 all the time
    assert duel.area.ties == 1


def test_pairs_are_by_seed_and_missing_ones_are_left_out() -> None:
    runs = [run("a", s, (1, 1.0, float(s))) for s in range(4)] + [run("b", s, (1, 1.0, s + 0.5)) for s in (3, 1, 7)]
    (duel,) = compare(runs, None).duels
    assert (duel.final.wins, duel.final.ties, duel.final.losses) == (2, 0, 0)


def test_who_is_level_with_the_leader() -> None:
    runs = [run("best", s, (1, 1.0, 10.0 + s % 2)) for s in range(10)]
    runs += [run("close", s, (1, 1.0, 10.5 + (s * 7) % 3 - 1)) for s in range(10)]
    runs += [run("far", s, (1, 1.0, 30.0 + s)) for s in range(10)]
    compared = compare(runs, None)
    assert compared.standings[-1].strategy == "far"
    assert set(indistinguishable(compared)) == {"best", "close"}
