"""The paper's mapping problem in three encodings, against brute force."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import z3

from kilotune.codegen.cm.topologies import CorePair, all_to_all, diagonal_mesh, mesh, ring
from kilotune.evaluators.interruptible import is_any_left
from kilotune.search.abandoning import abandonable
from kilotune.spaces.cm.embedding import (
    Embedding,
    EmbeddingResult,
    solve_as_in_the_paper,
    solve_with_cp_sat,
    solve_without_quantifiers,
)

SOLVERS = (solve_as_in_the_paper, solve_without_quantifiers, solve_with_cp_sat)
TRIANGLE = ((0, 1), (1, 2), (0, 2))


def near(pairs: list[CorePair], cores: int) -> np.ndarray:
    table = np.zeros((cores, cores), dtype=bool)
    for a, b in pairs:
        table[a, b] = True
    return table


def test_all_encodings_find_a_placement_exactly_when_there_is_one() -> None:
    found = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        partitions, cores = int(rng.integers(1, 5)), int(rng.integers(3, 6))
        edges = tuple(p for p in itertools.combinations(range(partitions), 2) if rng.random() < 0.6)
        problem = Embedding(partitions, edges, (rng.random((cores, cores)) < 0.45) & ~np.eye(cores, dtype=bool))
        possible = any(problem.holds(cores_) for cores_ in itertools.permutations(range(cores), partitions))
        found += possible
        for solver in SOLVERS:
            answer = solver(problem, 20.0)
            assert (answer.cores is not None) == possible, (seed, solver)
            assert answer.impossible == (not possible)
            assert answer.cores is None or problem.holds(answer.cores)
    assert 5 < found < 22


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_residual_triangle_fits_no_ring_and_no_mesh_but_a_mesh_with_diagonals(solver) -> None:  # type: ignore[no-untyped-def]
    assert solver(Embedding(3, TRIANGLE, near(ring(6), 6)), 20.0).impossible
    assert solver(Embedding(3, TRIANGLE, near(mesh(2, 3), 6)), 20.0).impossible
    for pairs in (diagonal_mesh(2, 3), all_to_all(6)):
        problem = Embedding(3, TRIANGLE, near(pairs, 6))
        assert problem.holds(solver(problem, 20.0).cores)


def test_a_placement_with_two_partitions_on_a_core_does_not_hold() -> None:
    problem = Embedding(2, (), near(mesh(2, 2), 4))
    assert problem.holds((0, 3))
    assert not problem.holds((1, 1))
    assert not Embedding(2, ((0, 1),), near(mesh(2, 2), 4)).holds((0, 3))


@pytest.mark.parametrize("solve", [solve_without_quantifiers, solve_as_in_the_paper])
def test_what_an_abandoned_question_holds_is_released_by_its_own_thread(
    solve: Callable[[Embedding, float], EmbeddingResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Z3 counts references without locks, and may go on for a while when nobody waits for it any more."""
    checking, beside = threading.Event(), []
    check, release = z3.Solver.check, z3.AstRef.__del__

    def checked(solver: Any) -> Any:
        checking.set()
        try:
            return check(solver)
        finally:
            checking.clear()

    def released(term: Any) -> None:
        if checking.is_set() and threading.current_thread() is threading.main_thread():
            beside.append(term.as_ast().value)
        release(term)

    monkeypatch.setattr(z3.Solver, "check", checked)
    monkeypatch.setattr(z3.AstRef, "__del__", released)
    monkeypatch.setattr(z3.Context, "interrupt", lambda _: None)
    monkeypatch.setattr("kilotune.evaluators.interruptible.GRACE_S", 0.0)
    edges = tuple(itertools.chain(itertools.pairwise(range(49)), ((k, k + 3) for k in range(0, 46, 2))))
    with abandonable(checking.is_set) as stretch:
        solve(Embedding(49, edges, near(mesh(7, 7), 49)), 0.3)
    assert stretch.abandoned
    while is_any_left():
        time.sleep(0.02)
    assert not beside
