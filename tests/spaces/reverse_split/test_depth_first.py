"""The compiled search over splits against brute force, and against its own plans."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.plan import Plan, computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.experiments.problems.reverse_split.filters import FILTERS
from kilotune.spaces.reverse_split.depth_first import LARGEST_SIDE, MOST_SUMS, SplitLimits, search_splits
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.native import load_kernel
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.pairs import largest_splits
from kilotune.spaces.reverse_split.plans import plan_of_splits
from kilotune.spaces.reverse_split.procedure import PAPER, paper_plans
from kilotune.spaces.reverse_split.reference_search import reference_plans, reference_search
from kilotune.spaces.reverse_split.splits import Sums, from_image
from tests.spaces.reverse_split.kernels import GAUSS3, LAPLACIAN, SOBEL, box, kernels

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")

cells = st.tuples(st.integers(0, 2), st.integers(0, 2))
sums = st.dictionaries(cells, st.sampled_from([-2, -1, 1, 2, 3]), min_size=1, max_size=4).map(Sum.of)


def brute_force(state: Sums, depth: int, registers: int) -> float:
    """The least cost before relaxation over all trees of largest splits, nothing cut but what was met before."""
    least: dict[frozenset[Sum], float] = {}

    def visit(sums: Sums) -> float:
        last = from_image(sums, depth)
        if last is not None:
            return last.length
        key = frozenset(sums)
        if key not in least:
            best = math.inf
            for named in largest_splits(sums, registers, paper=True):
                if len(named.after) + (named.split.transformation.length > 0) <= registers:
                    best = min(best, named.split.cost(sums) + visit(named.after))
            least[key] = best
        return least[key]

    return visit(state)


@pytest.mark.parametrize("descends", [False, True])
def test_more_sums_or_cells_than_it_can_hold_are_left_to_others(descends: bool) -> None:
    limits = SplitLimits(300, descends=descends)
    many = tuple(Sum.of({(0, 0): 2 * number + 3, (1, 0): number + 1}) for number in range(MOST_SUMS + 1))
    report = search_splits(many[:-1], 4, limits, OrderWeights())
    assert report is not None
    assert report.nodes > 0
    assert search_splits(many, 4, limits, OrderWeights()) is None
    for far in ((LARGEST_SIDE, 0), (0, LARGEST_SIDE)):
        assert search_splits((Sum.of({(0, 0): 1, far: 1}),), 0, limits, OrderWeights()) is None


@pytest.mark.slow
@settings(max_examples=40)
@given(sums, st.integers(2, 4))
def test_paper_search_run_to_its_end_finds_the_least_cost(total: Sum, registers: int) -> None:
    limits = SplitLimits(2_000_000, registers, plans=1, first_discrepancies=1 << 20, factors=False, by_cost=True)
    report = search_splits((total,), 0, limits, OrderWeights())
    assert report is not None
    assert report.complete
    found = report.plans[0].cost if report.plans else math.inf
    assert found == brute_force((total,), 0, registers)


@settings(max_examples=60)
@given(st.lists(sums, min_size=1, max_size=3, unique=True), st.booleans())
def test_every_plan_computes_its_sums(wanted: list[Sum], factors: bool) -> None:
    limits = SplitLimits(2_000, 6, plans=24, factors=factors)
    report = search_splits(tuple(wanted), 2, limits, OrderWeights())
    assert report is not None
    for plan in report.plans:
        made = plan_of_splits(wanted, 2, plan.splits)
        assert computed(Plan(made.target, 8, made.steps, made.results)) == tuple(t.scaled(1 << 6) for t in wanted)
        assert plan.relaxed <= plan.cost


@pytest.mark.parametrize(
    ("rows", "divisor", "instructions"),
    [
        (SOBEL, 1, 7),
        (box(3), 1, 8),
        (box(5), 1, 14),
        (box(7), 1, 20),
        (GAUSS3, 16, 12),
        (LAPLACIAN, 1, 9),
        (box(8), 1, 20),
    ],
)
def test_best_plans_of_the_paper_s_filters(rows: list[list[int]], divisor: int, instructions: int) -> None:
    wanted = kernels(rows, divisor=divisor)
    report = search_splits(wanted.sums, wanted.depth, SplitLimits(4_000, 4), OrderWeights())
    assert report is not None
    assert report.plans[0].relaxed == instructions


@pytest.mark.parametrize(("rows", "cost"), [(SOBEL, 8), (box(3), 8)])
def test_least_cost_of_the_paper_before_relaxation(rows: list[list[int]], cost: int) -> None:
    """Section 4.2.1: the optimum of the Sobel filter is 8 before relaxation."""
    problem = SplitProblem(kernels(rows), registers=3)
    *_, found = (None, *paper_plans(problem, OrderWeights()))
    assert found is not None
    assert found.cost == cost


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sobel", "box5", "box6", "gauss3", "gauss5-binomial", "sobel-pair", "analognet2"])
def test_without_a_compiler_the_paper_s_search_visits_the_same_states(name: str) -> None:
    """Of equal splits it took others, and had a plan of 20 instructions for the 5 x 5 box where the compiled search had 15."""
    asked = FILTERS[name].kernels
    wanted = asked.approximate(asked.exact_depth() or 4).reduced()
    for nodes in (15, 60, 300):
        limits = replace(PAPER, nodes=nodes)
        report = search_splits(wanted.sums, wanted.depth, limits, OrderWeights())
        plain = reference_search(wanted.sums, wanted.depth, limits.registers, OrderWeights(), nodes)
        assert report is not None
        assert [plan.names for plan in report.plans] == ([] if plain is None else [plain.names])


def test_without_a_compiler_every_better_plan_comes_when_it_is_found() -> None:
    wanted = kernels(GAUSS3, divisor=16)
    visited = 0

    def seconds_left() -> float:
        nonlocal visited
        visited += 1
        return 1.0

    found = [(plan.cost, visited) for plan in reference_plans(wanted.sums, 4, 6, OrderWeights(), 1000, seconds_left)]
    costs = [cost for cost, _ in found]
    assert costs == sorted(set(costs), reverse=True)
    assert costs[-1] == 12
    assert found[0][1] < 20


def test_seeds_decide_all() -> None:
    wanted = kernels(box(5))
    noisy = OrderWeights(noise=1.0)
    first, again, other = (search_splits(wanted.sums, 0, SplitLimits(3_000, 4), noisy, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
