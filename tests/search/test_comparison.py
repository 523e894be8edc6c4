"""Curves and what is concluded from them, on runs made by hand and against sums over fine steps."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.anytime import Curve, Improvement, best_so_far
from kilotune.search.comparison import (
    ReferenceKind,
    RunRecord,
    compare,
    indistinguishable,
    pairwise_test_of,
    seeds_needed,
    undecided,
)
from kilotune.search.front import Ranking
from kilotune.search.space import Constraint, Direction, Measurement, Objective


def loss_after(curve: Curve, seconds: float) -> float:
    """Best-so-far at that time; +inf before anything feasible was found."""
    return next((step.loss for step in reversed(curve.steps) if step.seconds <= seconds), math.inf)


def run(
    strategy: str, seed: int, *steps: tuple[int, float, float], bound: float = -math.inf, proved: bool = False
) -> RunRecord:
    return RunRecord(strategy, seed, Curve(tuple(Improvement(*step) for step in steps), 100, 10.0), bound, proved, True)


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
            steps.append(Improvement(number, float(at), float(value)))
    curve = Curve(tuple(steps), len(improvements), 100.0)
    sampled = [min(loss_after(curve, tick + 0.5), cap) for tick in range(seconds)]
    assert curve.mean_loss(float(seconds), cap) == pytest.approx(sum(sampled) / seconds)


def test_a_curve_follows_feasible_trials_only_and_turns_the_sign_of_what_is_maximised() -> None:
    ranking = Ranking((Objective("accuracy", Direction.MAXIMIZE),), (Constraint("bytes", 10),))
    rows = [(90, 12), (50, 9), (None, 0), (40, 1), (70, 10), (70, 2)]
    measured = [
        (0.5 * i, Measurement(failure="broke") if a is None else Measurement({"accuracy": a, "bytes": b}))
        for i, (a, b) in enumerate(rows, start=1)
    ]
    curve = best_so_far(measured, ranking, 7.0)
    assert curve == Curve((Improvement(2, 1.0, -50), Improvement(5, 2.5, -70)), 6, 7.0)
    assert curve.first(-60) == Improvement(5, 2.5, -70)
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
    pairwise = pairwise_test_of(compared, "slow", "none")
    assert (pairwise.final.wins, pairwise.final.ties, pairwise.final.losses) == (3, 0, 0)
    assert pairwise.area.wins == 2  # on seed 2 both have nothing better than 20 all the time
    assert pairwise.area.ties == 1


def test_pairs_are_by_seed_and_missing_ones_are_left_out() -> None:
    runs = [run("a", s, (1, 1.0, float(s))) for s in range(4)] + [run("b", s, (1, 1.0, s + 0.5)) for s in (3, 1, 7)]
    (pairwise,) = compare(runs, None).pairwise_tests
    assert (pairwise.final.wins, pairwise.final.ties, pairwise.final.losses) == (2, 0, 0)


def test_who_is_level_with_the_leader() -> None:
    runs = [run("best", s, (1, 1.0, 10.0 + s % 2)) for s in range(10)]
    runs += [run("close", s, (1, 1.0, 10.5 + (s * 7) % 3 - 1)) for s in range(10)]
    runs += [run("far", s, (1, 1.0, 30.0 + s)) for s in range(10)]
    compared = compare(runs, None)
    assert compared.standings[-1].strategy == "far"
    assert set(indistinguishable(compared)) == {"best", "close"}


def strategies_of(seeds: int, ahead: float = 1.0) -> list[RunRecord]:
    """Four that differ by more than chance in every seed: the first always wins."""
    return [
        run(name, seed, (1, 1.0, 10.0 + 10 * ahead * place + 0.1 * seed + 0.01 * place * seed))
        for place, name in enumerate("abcd")
        for seed in range(seeds)
    ]


@pytest.mark.parametrize(("seeds", "needed"), [(2, 8), (6, 8), (7, 8), (8, None), (10, None)])
def test_what_no_outcome_could_show_needs_more_seeds(seeds: int, needed: int | None) -> None:
    """Six seeds of four strategies give an adjusted p of 0.19 at the least."""
    compared = compare(strategies_of(seeds), None)
    assert undecided(compared) == ({} if needed is None else dict.fromkeys("bcd", needed))
    assert {pairwise.needs_final for pairwise in compared.pairwise_tests} == {needed}
    assert min(d.adjusted_final or 1.0 for d in compared.pairwise_tests) == pytest.approx(
        min(1.0, 6 * 2.0 ** (1 - seeds))
    )
    assert indistinguishable(compared) == (tuple("abcd") if needed else ("a",))
    assert seeds_needed(4) == 8


@pytest.mark.parametrize(("seeds", "needed"), [(2, 11), (6, 11), (10, 11), (11, None)])
def test_what_no_seed_changes_needs_as_many_seeds_as_the_verdict(seeds: int, needed: int | None) -> None:
    """Eight strategies have 28 pairs, most of which do not vary: Holm's correction is over all that may come to be tested."""
    runs = [
        run(name, seed, (1, 1.0, 10.0 + place + (0.1 * seed if name in "gh" else 0.0)))
        for place, name in enumerate("abcdefgh")
        for seed in range(seeds)
    ]
    compared = compare(runs, None)
    constant = {name: count for name, count in undecided(compared).items() if name not in "gh"}
    assert constant == ({} if needed is None else dict.fromkeys("bcdef", needed))
    assert (indistinguishable(compared)[1:] == ()) is (needed is None)
    assert seeds_needed(8) == 11
    assert set(undecided(compared).values()) <= {11}


def test_pairs_that_do_not_differ_show_nothing_and_more_seeds_are_needed() -> None:
    """Eight seeds are enough where all differ; where every second pair does, twice as many."""
    runs = [
        dataclasses.replace(made, curve=run("b", made.seed, (1, 1.0, 10.0 + 0.1 * made.seed)).curve)
        if made.strategy == "b" and made.seed % 2
        else made
        for made in strategies_of(8)
    ]
    assert undecided(compare(runs, None)) == {"b": 16}
    same = compare([run(name, seed, (1, 1.0, 10.0)) for name in "ab" for seed in range(3)], None)
    assert undecided(same) == {}
    always = compare([run(n, seed, (1, 1.0, 10.0 + (n == "b"))) for n in "ab" for seed in range(3)], None)
    assert undecided(always) == {"b": 6}  # nothing varies: there is nothing to test, but three are few


@pytest.mark.parametrize(("offset_s", "told_apart"), [(0.0009, False), (0.0011, True)])
def test_times_under_the_resolution_are_no_difference(offset_s: float, told_apart: bool) -> None:
    """`late` is named first and later by about a millisecond in all that it does, on every seed."""
    runs = [
        run(name, seed, (1, 0.002 + 0.01 * seed + late, 20.0), (2, 0.5 + 0.02 * seed + late, 10.0))
        for name, late in (("late", offset_s), ("soon", 0.0))
        for seed in range(8)
    ]
    compared = compare(runs, None, 1.0)
    assert compared.standings[0].strategy == ("soon" if told_apart else "late")
    (pairwise,) = compared.pairwise_tests
    assert (pairwise.area.wins, pairwise.area.ties, pairwise.area.losses) == ((8, 0, 0) if told_apart else (0, 8, 0))
    assert pairwise.adjusted_area == (pytest.approx(2 / 2**8) if told_apart else None)
    first, second = compared.standings
    assert first.regret_area is not None
    assert second.regret_area is not None
    assert compared.area_resolution is not None
    assert (abs(first.regret_area - second.regret_area) > compared.area_resolution) is told_apart


def test_curves_are_alike_when_each_reaches_what_the_other_does_in_time() -> None:
    one = Curve((Improvement(1, 0.1, 9.0), Improvement(5, 0.2, 7.0)), 9, 1.0)
    assert one.later_than(Curve((Improvement(1, 0.05, 9.5), Improvement(2, 0.17, 8.0)), 9, 1.0)) == pytest.approx(0.05)
    assert one.later_than(Curve((Improvement(1, 0.3, 7.0),), 9, 1.0)) == pytest.approx(-0.1)
    assert one.later_than(Curve((Improvement(1, 0.3, 6.0),), 9, 1.0)) == math.inf
    assert Curve((), 3, 1.0).alike(Curve((), 9, 1.0))
    assert not one.alike(Curve((), 9, 1.0))
    assert not Curve((), 9, 1.0).alike(one)
    direct = Curve(
        (Improvement(1, 0.1005, 7.5), Improvement(2, 0.2005, 7.0)), 9, 1.0
    )  # never had 9, but was never later than it
    assert one.later_than(direct) == pytest.approx(0.0995)
    assert not one.alike(direct)
