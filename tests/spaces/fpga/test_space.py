"""The knapsack's optimum against every candidate, parts against whole estimates, bounds and budgets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kilotune.evaluators.fpga.boards import Board, Gates, find_board
from kilotune.evaluators.fpga.cost_model import estimate
from kilotune.search.candidates import random_candidate
from kilotune.search.front import Ranking
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Measurement, SolveLimit
from kilotune.spaces.fpga.candidates import FixedProgram, HardwareGoal
from kilotune.spaces.fpga.choices import PIPELINED, PORTS_NAME
from kilotune.spaces.fpga.space import FpgaSpace
from tests.codegen.rtl.models import candidate

pytestmark = pytest.mark.xdist_group("fpga space")  # one process makes what these tests share

BOARD = find_board("ecp5-25f")


def space_of(name: str, goal: HardwareGoal = HardwareGoal(), board: Board = BOARD) -> FpgaSpace:  # noqa: B008
    bundle, batch = candidate(name)
    return FpgaSpace(FixedProgram(name, batch, bundle.parameters), board, goal)


@cache
def bonsai() -> FpgaSpace:
    """On less than a board, made once: its tables of parts take seconds."""
    return space_of("bonsai-digits", HardwareGoal(budget=Gates(6000, 24288, 56, 12)))


@cache
def every(name: str, board: Board = BOARD) -> tuple[tuple[Assignment, Measurement], ...]:
    """All candidates, measured."""
    space = space_of(name, board=board)
    names = [decision.name for decision in space.decisions]
    options = [decision.options for decision in space.decisions]
    candidates = [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*options)]
    return tuple(zip(candidates, space.evaluate(candidates), strict=True))


def limited(gates: Gates) -> Gates:
    """Three quarters of what there is, so that something has to be given up."""
    return Gates(3 * gates.luts // 100, gates.flip_flops, gates.block_rams, 4)


GOALS = [
    HardwareGoal(),
    HardwareGoal("luts", latency_limit_us=0.23),
    HardwareGoal("energy"),
    HardwareGoal("latency", budget=limited(BOARD.gates)),
    HardwareGoal("luts", latency_limit_us=0.21, budget=limited(BOARD.gates)),
]


@pytest.mark.parametrize("goal", GOALS)
def test_the_knapsack_finds_and_proves_the_best_of_all(goal: HardwareGoal) -> None:
    space = space_of("worked-example", goal)
    ranking = Ranking.of(space)
    feasible = [ranking.rank(m)[1] for _, m in every("worked-example") if ranking.violation(m) == 0.0]
    answer = space.model([]).solve(8, [], 0, SolveLimit(20.0))
    if not feasible:
        assert answer.bound == math.inf
        assert not answer.candidates
        return
    found = space.evaluate(answer.candidates)
    assert ranking.rank(found[0])[:2] == (0.0, min(feasible))
    assert answer.bound == pytest.approx(min(feasible), rel=1e-6)
    assert [ranking.rank(m)[1] for m in found] == sorted(ranking.rank(m)[1] for m in found)


@pytest.mark.parametrize("goal", [HardwareGoal(), HardwareGoal("energy")])
def test_the_knapsack_knows_how_much_slower_a_full_board_is(goal: HardwareGoal) -> None:
    """On a board that the design of fewest cycles would fill, another one is the fastest."""
    board = replace(BOARD, gates=replace(BOARD.gates, luts=700))
    space = space_of("worked-example", goal, board)
    ranking = Ranking.of(space)
    measured = [m for _, m in every("worked-example", board)]
    best = min(measured, key=ranking.rank)
    answer = space.model([]).solve(8, [], 0, SolveLimit(20.0))
    assert ranking.rank(space.evaluate(answer.candidates)[0])[:2] == ranking.rank(best)[:2]
    assert answer.bound == pytest.approx(ranking.rank(best)[1], rel=1e-6)
    roomy = [m for m in measured if ranking.violation(m) == 0.0]
    assert best.metrics["hardware_cycles"] > min(m.metrics["hardware_cycles"] for m in roomy)


def test_the_front_is_that_of_all_candidates() -> None:
    """Also where its fastest design has been measured before, as the paper's hints may be."""
    space = space_of("worked-example", HardwareGoal("front"))
    of_all = {(m.metrics["latency_us"], m.metrics["luts"]) for _, m in every("worked-example")}
    front = {a for a in of_all if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in of_all)}
    hints = run_procedure(space)
    assert hints is not None
    answer = space.model([hints]).solve(8, [], 0, SolveLimit(20.0))
    found = {(m.metrics["latency_us"], m.metrics["luts"]) for m in space.evaluate(answer.candidates)}
    assert front <= found
    assert len(front) > 1


@pytest.mark.parametrize(("name", "designs"), [("mlp-diabetes", 12), ("protonn-cancer", 12), ("bonsai-digits", 4)])
def test_an_estimate_is_the_sum_of_parts_that_are_known_apart(name: str, designs: int) -> None:
    """Random designs of tables, divisions, loops and sparse products: gates, cycles of each unit and the longest path."""
    space, rng = bonsai() if name == "bonsai-digits" else space_of(name), np.random.default_rng(7)
    for _ in range(designs):
        assignment = random_candidate(space, rng)
        try:
            plan = space.plan(assignment)
        except ValueError:
            continue
        table, ways = (
            space.tables[bool(assignment[PIPELINED]), int(assignment[PORTS_NAME])],
            space.choices.chosen(assignment),
        )
        parts = [
            next(p for p in table.parts[row] if p.way == way and all(plan.banks[n] == b for n, b in p.banks.items()))
            for row, way in ways.items()
        ]
        memories = [table.memory(n, plan.banks[n], plan.ports[n]) for n in plan.memories]
        whole = estimate(plan, space.board)
        assert sum((part.gates for part in parts), sum(memories, table.controller)) == whole.gates
        assert max(part.path_ns for part in parts) <= whole.path_ns
        assert {n: c for part in parts for n, c in part.cycles.items()} == {u.name: u.duration for u in plan.units}


def walks(space: FpgaSpace, count: int) -> Iterator[tuple[list[float], Measurement]]:
    rng = np.random.default_rng(3)
    for _ in range(count):
        assignment, state = random_candidate(space, rng), space.start()
        bounds = [state.bound()]
        for decision in space.decisions:
            state = state.take(assignment[decision.name])
            bounds.append(state.bound())
        yield bounds, space.evaluate([assignment])[0]


@pytest.mark.parametrize("goal", [HardwareGoal(), HardwareGoal("luts"), HardwareGoal("energy")])
def test_no_candidate_undercuts_a_bound_on_its_way(goal: HardwareGoal) -> None:
    space = space_of("protonn-cancer", goal)
    ranking = Ranking.of(space)
    for bounds, measurement in walks(space, 40):
        rank = ranking.rank(measurement)
        if rank[0] == 0.0:
            assert max(bounds) <= rank[1] * (1 + 1e-9)
        assert bounds == sorted(bounds)


def test_ports_are_in_the_knapsack() -> None:
    """Where operations read one variable side by side, its optimum measures what it promised."""
    space = bonsai()
    answer = space.model([]).solve(1, [], 0, SolveLimit(0.5))
    found = space.evaluate(answer.candidates)[0].metrics
    rng = np.random.default_rng(0)
    ranking = Ranking.of(space)
    others = space.evaluate([random_candidate(space, rng) for _ in range(100)])
    assert found["latency_us"] >= answer.bound
    assert all(found["latency_us"] <= m.metrics["latency_us"] for m in others if ranking.violation(m) == 0.0)


def test_the_papers_hints_use_the_multipliers_there_are() -> None:
    space = space_of("mlp-diabetes")
    answer = run_procedure(space)
    assert answer is not None
    assert Ranking.of(space).violation(answer.measurement) == 0.0
    ways = space.choices.chosen(answer.assignment)
    assert ways[0].lanes == max(space.choices.factors[0])
    assert not any(way.soft for way in ways.values())


def test_a_board_without_multipliers_decides_nothing_about_them() -> None:
    space = space_of("worked-example", board=find_board("ice40-hx8k"))
    assert not any(decision.name.startswith("products") for decision in space.decisions)
    assert all(
        m.metrics["multipliers"] == 0 for m in space.evaluate([random_candidate(space, np.random.default_rng(0))])
    )


def test_what_no_factor_fits_is_said() -> None:
    board = replace(BOARD, name="small", gates=replace(BOARD.gates, luts=300))
    said = r"^worked-example needs at least \d+ LUTs, as the cost model predicts; small has 300; .+ takes most of them, \d+\.$"
    with pytest.raises(ValueError, match=said):
        space_of("worked-example", board=board)


def test_clocks_that_were_not_asked_for_are_bounded_too() -> None:
    space = space_of("mlp-diabetes")
    short = space.model([]).solve(1, [], 0, SolveLimit(0.003))
    proved = space.model([]).solve(1, [], 0, SolveLimit(20.0))
    best = space.evaluate(proved.candidates)[0].metrics["latency_us"]
    assert proved.bound == pytest.approx(best)
    assert 0.3 * best < short.bound <= best * (1 + 1e-9)


def test_tables_of_parts_are_made_no_longer_than_a_budget_lasts() -> None:
    """They take seconds of large models. What was made is kept, and is what a table makes at once."""
    space, at_once = space_of("worked-example"), space_of("worked-example")
    answer = space.model([]).solve(1, [], 0, SolveLimit(20.0, 0.0))
    assert (answer.candidates, answer.bound, answer.exhausted) == ((), -math.inf, False)
    table, asked = space.tables[True, 1], itertools.count()
    assert not table.prepare(lambda: next(asked) == 2)
    assert next(asked) == 3
    assert table.prepare(lambda: False)
    assert table.parts == at_once.tables[True, 1].parts
