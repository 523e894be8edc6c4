"""Results that may lie anywhere: the bound over all positions against plain enumeration, and programs executed where they say."""

from __future__ import annotations

import random

import pytest

from kilotune.codegen.scamp.kernel import ApproximatedSet, Kernel, KernelSet
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.symbolic import WrongProgramError, prove
from kilotune.search.space import ExactStep
from kilotune.search.strategy import make_strategy
from kilotune.spaces.reverse_split.bounds import bounds_of, lower_bound
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.positions import (
    POSITION,
    PositionSpace,
    kernel_turns,
    position_name,
    positions_below,
)
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, load_kernel
from kilotune.spaces.reverse_split.symmetries import turned_cell, turned_sum
from tests.spaces.reverse_split.kernels import SOBEL, kernels
from tests.spaces.reverse_split.small_programs import brute_force

ROBERTS = ((1, 0), (0, -1))
compiled = pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")


def searched(space: PositionSpace) -> tuple[dict[str, object], ExactStep]:
    """The best candidate of a search that ends, and its last step."""
    best, least, last = {}, float("inf"), None
    for last in space.exact_search(0):
        if last.candidate is not None:
            found = space.evaluate([last.candidate])[0].metrics.get("instructions", float("inf"))
            best, least = (dict(last.candidate), found) if found < least else (best, least)
        if last.complete:
            break
    assert last is not None
    assert last.bound == least
    return best, last


def least_anywhere(least: dict[Sum, int]) -> dict[Sum, int]:
    """By sum with its least cell at the origin: the fewest instructions at any position."""
    found: dict[Sum, int] = {}
    for total, cost in least.items():
        west, south, _, _ = total.box
        home = total.shifted((-west, -south))
        found[home] = min(cost, found.get(home, cost))
    return found


@compiled
@pytest.mark.parametrize(("target", "length", "count"), [("scamp5", 2, 12), ("auke", 3, 12)])
def test_a_search_finds_and_proves_what_enumeration_finds_at_any_position(target: str, length: int, count: int) -> None:
    every = least_anywhere(brute_force(target, 1, INSTRUCTIONS, length))
    hard = sorted((total for total, cost in every.items() if cost == length), key=lambda total: total.terms)
    generator = random.Random(5)
    for total in generator.sample(hard, count):
        moved = total.shifted((generator.randrange(-1, 2), generator.randrange(-1, 2)))
        made = KernelSet((Kernel.of_sum(moved, 1),)).approximate(1).reduced()
        space = PositionSpace(SplitProblem(made, target, 6))
        best, last = searched(space)
        assert last.complete
        assert last.bound == length
        wanted = space.kernels_of(best)  # type: ignore[arg-type]
        prove(space.program(best).text, wanted.sums, wanted.depth)  # type: ignore[arg-type]


@compiled
def test_roberts_is_one_macro_where_its_results_may_lie_anywhere() -> None:
    made = kernels(ROBERTS)
    space = PositionSpace(SplitProblem(made, "scamp5", 6))
    best, last = searched(space)
    assert last.complete
    assert last.bound == 1.0
    text = space.program(best).text  # type: ignore[arg-type]
    wanted = space.kernels_of(best)  # type: ignore[arg-type]
    assert wanted.position != (0, 0)
    assert best[POSITION] == position_name(wanted.position)
    assert wanted.sums == tuple(total.shifted(wanted.position) for total in made.sums)
    prove(text, wanted.sums, wanted.depth)
    with pytest.raises(WrongProgramError):
        prove(text, made.sums, made.depth)


def test_bounds_at_positions_are_those_of_moved_kernels() -> None:
    for target in ("auke", "scamp5"):
        for picture in (ROBERTS, SOBEL, ((0, 1, 0), (0, 0, 0))):
            (total,) = kernels(picture).sums
            bounds = bounds_of((total,), 0, target)
            for x in range(-4, 5):
                for y in range(-4, 5):
                    assert bounds.at((x, y)) == lower_bound((total.shifted((x, y)),), 0, target)


def test_no_position_that_is_left_out_may_have_a_cheaper_program() -> None:
    """Far beyond what is listed the bound is at least what is said of the others, or a symmetry has a counterpart listed."""
    for picture, cost in ((ROBERTS, 2), (SOBEL, 5), (((1, 2, 3), (4, 5, 6), (7, 8, 9)), 6)):
        sums = kernels(picture).sums
        bounds = bounds_of(sums, 0, "scamp5")
        for most in (3, 128):
            found = positions_below(bounds, cost, most)
            assert next(iter(found.searched)) == (0, 0)
            for x in range(-14, 15):
                for y in range(-14, 15):
                    turned = [turned_cell((x, y), symmetry) for symmetry, _ in kernel_turns(sums)]
                    alike = [(a + by[0], b + by[1]) for (a, b), (_, by) in zip(turned, kernel_turns(sums), strict=True)]
                    listed = not found.searched.keys().isdisjoint(alike)
                    assert listed or bounds.at((x, y)) >= min(cost, found.others)


def test_turns_of_kernels_move_programs_to_other_positions() -> None:
    sums = kernels(SOBEL, ROBERTS).sums[:1]
    turns = kernel_turns(sums)
    assert len(turns) == 2  # north and south are alike
    for symmetry, by in turns:
        for at in ((0, 0), (2, -1)):
            turned = {turned_sum(total.shifted(at), symmetry) for total in sums}
            x, y = turned_cell(at, symmetry)
            assert turned == {total.shifted((x + by[0], y + by[1])) for total in sums}


def test_a_front_is_refused_and_kernels_keep_their_position() -> None:
    made: ApproximatedSet = kernels(ROBERTS).at((2, 1))
    assert made.reduced().position == (2, 1)
    with pytest.raises(ValueError, match="do not go with a front"):
        PositionSpace(SplitProblem(made, "scamp5", 6, KernelGoal.FRONT))


def test_a_constraint_model_is_refused_with_what_there_is_none_of() -> None:
    space = PositionSpace(SplitProblem(kernels(SOBEL), "scamp5", 6))
    with pytest.raises(ValueError, match="none of results that may lie anywhere: leave --anywhere out"):
        make_strategy("cp", space, 0)
