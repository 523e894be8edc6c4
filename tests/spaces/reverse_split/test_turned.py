"""Of programs that the symmetries of the target turn into one another one is met: no shortest program is lost, no proof is false."""

from __future__ import annotations

import random

import pytest

from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import (
    BUS_TRANSFERS,
    INSTRUCTIONS,
    Costs,
    ProgramQuery,
    Searcher,
    load_kernel,
)
from kilotune.spaces.reverse_split.symmetries import SQUARE, Symmetry, symmetries_of, turned_sum
from tests.spaces.reverse_split.small_programs import brute_force, random_plan

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")
NO_LIMIT = 1 << 40
LAPLACIAN = Sum.of([((0, 0), 4), ((0, 1), -1), ((1, 0), -1), ((0, -1), -1), ((-1, 0), -1)])
BOX3 = Sum.of(((x, y), 1) for x in (-1, 0, 1) for y in (-1, 0, 1))
GROUPS: tuple[tuple[Symmetry, ...], ...] = (
    ((-1, 1, False),),
    ((-1, -1, False),),
    ((1, 1, True),),
    ((-1, 1, True), (-1, -1, False), (1, -1, True)),
    SQUARE[1:],
)


def least(total: Sum, target: str, depth: int, costs: Costs, most: int, *, turned: bool) -> tuple[int, int]:
    """The least cost of a program, at most `most`, and the work of refuting everything cheaper."""
    searcher = Searcher(ProgramQuery(target, depth, (total,), costs, whole=True, turned=turned))
    work = 0
    for budget in range(1, most + 1):
        answer = searcher.ask(budget, NO_LIMIT)
        if answer.status is ProgramStatus.FOUND:
            assert answer.plan is not None
            assert computed(answer.plan)[0] == total.scaled(1 << (answer.plan.depth - depth))
            return budget, work
        assert answer.status is ProgramStatus.EXHAUSTED
        work += answer.work
    return most + 1, work


@pytest.mark.parametrize(
    ("target", "costs", "most"), [("auke", INSTRUCTIONS, 3), ("scamp5", INSTRUCTIONS, 2), ("scamp5", BUS_TRANSFERS, 5)]
)
def test_every_symmetric_sum_of_a_short_program_costs_what_plain_enumeration_says(
    target: str, costs: Costs, most: int
) -> None:
    known = brute_force(target, 2, costs, most)
    symmetric = sorted((t for t in known if symmetries_of(t)), key=lambda total: total.terms)
    assert len(symmetric) > 20
    for total in random.Random(0).sample(symmetric, min(len(symmetric), 120)):
        assert least(total, target, 2, costs, most, turned=True)[0] == known[total]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(("target", "length", "costs"), [("auke", 7, INSTRUCTIONS), ("scamp5", 4, INSTRUCTIONS)])
def test_symmetric_sums_of_random_programs_cost_the_same_with_all_programs_met(
    group: tuple[Symmetry, ...], target: str, length: int, costs: Costs
) -> None:
    generator = random.Random(f"{group} {target}")
    checked = 0
    while checked < 8:
        (base,) = computed(random_plan(target, 2, 0, generator))
        total = base
        for symmetry in group:
            total += turned_sum(base, symmetry)
        if not total or total == Sum.image(0) or len(symmetries_of(total)) < len(group):
            continue
        checked += 1
        plain = least(total, target, 0, costs, length, turned=False)
        turned = least(total, target, 0, costs, length, turned=True)
        assert turned[0] == plain[0]
        assert turned[1] <= plain[1]


@pytest.mark.parametrize(("total", "optimum"), [(LAPLACIAN, 5), (BOX3, 6)])
def test_the_square_s_symmetries_save_most_of_the_work(total: Sum, optimum: int) -> None:
    assert len(symmetries_of(total)) == 7
    plain = least(total, "scamp5", 0, INSTRUCTIONS, optimum - 1, turned=False)
    turned = least(total, "scamp5", 0, INSTRUCTIONS, optimum - 1, turned=True)
    assert plain[0] == turned[0] == optimum
    assert turned[1] < plain[1] / 2
    assert least(total, "scamp5", 0, INSTRUCTIONS, optimum, turned=True)[0] == optimum


def test_a_proof_in_slices_goes_on_where_it_stopped() -> None:
    searcher = Searcher(ProgramQuery("scamp5", 0, (BOX3,), whole=True, turned=True))
    whole = searcher.ask(5, NO_LIMIT)
    path, work, slices = (), 0, 0
    while True:
        answer = searcher.ask(5, max(1, whole.work // 7), path)
        path, work, slices = answer.path, work + answer.work, slices + 1
        if answer.status is not ProgramStatus.STOPPED:
            break
    assert answer.status is whole.status is ProgramStatus.EXHAUSTED
    assert slices > 3
    assert work < 1.3 * whole.work + 1000


def test_slices_of_any_size_come_to_an_end() -> None:
    """Looking up is work, and may be more than a slice: each goes on by one value at least."""
    searcher = Searcher(ProgramQuery("scamp5", 0, (LAPLACIAN,), whole=True, turned=True))
    path: tuple[int, ...] = ()
    for _ in range(1000):
        answer = searcher.ask(4, 1, path)
        path = answer.path
        if answer.status is not ProgramStatus.STOPPED:
            break
    assert answer.status is ProgramStatus.EXHAUSTED
