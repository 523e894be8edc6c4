"""A search shared by threads: the programs of one thread, in its order, and the same refutations."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.plan import Plan, computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.pool import PoolExecutor
from kilotune.search.budget import Budget
from kilotune.search.result import Status
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.deepening import LengthSearcher, proof_of
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, ProgramQuery, Searcher, load_kernel
from kilotune.spaces.reverse_split.shared_asking import SharedSearcher
from kilotune.spaces.reverse_split.signless import SignlessSearcher
from kilotune.spaces.reverse_split.space import ReverseSplitSpace
from tests.spaces.reverse_split.small_programs import random_plan

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")
DEPTH = 4
MOST_PROGRAMS = 12


def kernel(*rows: tuple[int, ...]) -> Sum:
    middle = len(rows) // 2
    return Sum.of(
        ((x - (len(row) - 1) // 2, middle - y), weight) for y, row in enumerate(rows) for x, weight in enumerate(row)
    )


BOX3 = kernel((1, 1, 1), (1, 1, 1), (1, 1, 1)).scaled(1 << DEPTH)
SHARPEN = kernel((0, -1, 0), (-1, 5, -1), (0, -1, 0)).scaled(1 << DEPTH)


SHARPENING = KernelSet((Kernel.of_rows(((0, -1, 0), (-1, 5, -1), (0, -1, 0))),))


def searcher(target: str, total: Sum) -> Callable[[int, int], SignlessSearcher | Searcher]:
    if target == "auke":
        return lambda share, shares: SignlessSearcher((total,), DEPTH, share, shares)
    return lambda share, shares: Searcher(
        ProgramQuery(target, DEPTH, (total,), turned=True), share=share, shares=shares
    )


def programs(asked: LengthSearcher, budget: int, work: int) -> list[Plan | None]:
    """The first programs of that budget, asked for in slices of so much work."""
    found: list[Plan | None] = []
    path: tuple[int, ...] = ()
    while len(found) < MOST_PROGRAMS:
        answer = asked.ask(budget, work, path)
        if answer.status is ProgramStatus.EXHAUSTED:
            break
        path = answer.path
        if answer.status is ProgramStatus.FOUND:
            found.append(answer.plan)
    return found


@pytest.mark.parametrize(("target", "total", "budget"), [("auke", SHARPEN, 10), ("scamp5", BOX3, 6)])
@pytest.mark.parametrize("threads", [2, 3])
def test_programs_come_in_the_order_of_one_thread(target: str, total: Sum, budget: int, threads: int) -> None:
    made = searcher(target, total)
    expected = programs(made(0, 0), budget, 1 << 40)
    assert expected
    for work in (3_000, 50_000):
        shared = SharedSearcher([made(share, threads) for share in range(threads)])
        assert programs(shared, budget - 1, work) == []
        assert programs(shared, budget, work) == expected


def test_every_share_alone_leaves_out_what_the_others_have() -> None:
    made = searcher("auke", SHARPEN)
    whole = made(0, 0).ask(9, 1 << 40)
    parts = [made(share, 3).ask(9, 1 << 40) for share in range(3)]
    assert {part.status for part in (whole, *parts)} == {ProgramStatus.EXHAUSTED}
    assert max(part.work for part in parts) < 0.6 * whole.work  # the three parts are about even
    assert whole.work <= sum(part.work for part in parts) < 1.2 * whole.work


@pytest.mark.parametrize("target", ["auke", "scamp5"])
def test_a_proof_by_two_threads_is_that_of_one(target: str) -> None:
    generator = random.Random(7)
    for _ in range(7):
        wanted = tuple(dict.fromkeys(computed(random_plan(target, 6, 5, generator))))
        bound = lower_bound(wanted, 5, target)
        proofs = [proof_of(wanted, target, 5, INSTRUCTIONS, bound, threads) for threads in (1, 2)]
        plans: list[Plan | None] = [None, None]
        for number, proof in enumerate(proofs):
            while plans[number] is None and proof.open:
                plans[number] = proof.advance(100, 20_000)
        assert proofs[0].bound == proofs[1].bound
        assert plans[0] == plans[1]


def test_a_study_of_several_jobs_proves_in_as_many_threads(tmp_path: Path) -> None:
    problem = SplitProblem(SHARPENING.approximate(0), "auke", 6, KernelGoal.INSTRUCTIONS)
    found = {}
    for jobs in (1, 2):
        space = ReverseSplitSpace(problem)
        study = Study.create(Store(str(tmp_path / f"{jobs}.db")), "one", space, "exhaustive", 0)
        with closing(PoolExecutor(space, jobs) if jobs > 1 else InProcessExecutor(space)) as executor:
            result = study.run(executor, Budget(seconds=20), handle_interrupts=False)
        assert space.threads == min(jobs, os.cpu_count() or 1)
        assert result.best is not None
        found[jobs] = (result.status, result.bound, result.best.measurement.metrics["instructions"])
    assert found[1] == found[2]
    assert found[1][0] is Status.FINISHED
