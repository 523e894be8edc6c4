"""Bounds over all common positions of results, by the checker: beside plain enumeration, and certificates that are not true."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.certificate import (
    BoundCertificate,
    FalseClaimError,
    parse_certificate,
    refuted_lengths,
)
from kilotune.evaluators.scamp5.common_positions import SQUARE, positions_in_reach, square_class, turned_cell
from kilotune.evaluators.scamp5.refutation import load_checker
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS
from tests.spaces.reverse_split.small_programs import brute_force

ROBERTS = KernelSet((Kernel.of_rows(((1, 0), (0, -1))),)).approximate(0).sums
TO_THE_WEST = "# scamp5; image in A; results in B\nB = sub2x(A, north, west, A)\n"
compiled = pytest.mark.skipif(load_checker() is None, reason="needs a C compiler")


def is_confirmed(claim: BoundCertificate) -> bool:
    try:
        list(refuted_lengths(claim))
    except FalseClaimError:
        return False
    return True


@compiled
@pytest.mark.parametrize(("target", "most", "depth"), [("auke", 3, 1), ("scamp5", 2, 1)])
def test_the_bound_over_all_positions_is_that_of_plain_enumeration(target: str, most: int, depth: int) -> None:
    known = brute_force(target, depth, INSTRUCTIONS, most)
    hard = sorted((total for total, cost in known.items() if total and cost == most), key=lambda total: total.terms)
    for total in random.Random(8).sample(hard, 3):
        reach = range(-2 * most, 2 * most + 1)
        least = min(known.get(total.shifted((x, y)), most) for x in reach for y in reach)
        claim = BoundCertificate(target, depth, (total,), least, None, (0, 0))
        assert is_confirmed(claim)
        assert not is_confirmed(replace(claim, at_least=least + 1))


def test_every_position_that_moves_can_reach_is_asked() -> None:
    sums = (Sum.of({(0, 0): 1, (2, 1): -1}), Sum.of({(-1, 0): 3}))
    for moves in range(6):
        found = set(positions_in_reach(sums, moves))
        for x in range(-9, 10):
            for y in range(-9, 10):
                cells = [(0, 0), *((a + x, b + y) for total in sums for (a, b), _ in total)]
                across, up = ([cell[axis] for cell in cells] for axis in (0, 1))
                needed = max(across) - min(across) + max(up) - min(up)
                assert ((x, y) in found) == (needed <= moves)


def test_a_class_is_what_the_square_turns_into_one_another() -> None:
    sums = (Sum.of({(0, 0): 1, (2, 1): -1}), Sum.of({(-1, 0): 3}))
    for symmetry in SQUARE:
        turned = [Sum.of((turned_cell(cell, symmetry), weight) for cell, weight in total) for total in sums]
        assert square_class(turned) == square_class(sums)
        moved = [total.shifted((1, 0)) for total in turned]
        assert square_class(moved) != square_class(sums)


@compiled
def test_a_program_somewhere_else_is_executed_where_it_puts_its_results() -> None:
    true = BoundCertificate("scamp5", 0, ROBERTS, 1, TO_THE_WEST, (-1, 0))
    assert parse_certificate(true.text, "c.json") == true
    assert is_confirmed(true)
    with pytest.raises(FalseClaimError, match="is not kernel 1"):
        list(refuted_lengths(replace(true, position=(0, 0))))
    at_home = BoundCertificate("scamp5", 0, ROBERTS, 2)
    assert [length.positions for length in refuted_lengths(at_home)] == [1]
    with pytest.raises(FalseClaimError, match="not ruled out: 1 may do"):
        list(refuted_lengths(replace(at_home, position=(0, 0))))


@compiled
def test_kernels_that_are_the_image_somewhere_take_nothing_there() -> None:
    moved = (Sum.image(0).shifted((3, 1)), Sum.image(0).shifted((4, 1)))
    assert not is_confirmed(BoundCertificate("auke", 0, moved[:1], 1, None, (0, 0)))
    assert is_confirmed(BoundCertificate("auke", 0, moved, 1, None, (0, 0)))
    assert not is_confirmed(BoundCertificate("auke", 0, moved, 2, None, (0, 0)))
