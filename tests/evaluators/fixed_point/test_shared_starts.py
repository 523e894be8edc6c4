"""Candidates that begin alike share their first steps, and nobody can tell by what they compute."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.distributed_loops import distributed
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.looped_steps import LoopedSteps, RepeatedSteps, Step, loop_steps
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.margins import float_contest
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from kilotune.evaluators.fixed_point.shared_starts import resumable_steps, shared_starts
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.fixed.programs import HERE, variable


def neighbours(program: ir.Program, random: np.random.Generator) -> FixedBatch:
    """A candidate, those that differ from it in one variable, and it again, shuffled."""
    count = len(program.variables)
    bits = np.repeat(random.choice([8, 16], (1, count)), 2 * count + 2, axis=0)
    scales = bits - 4 + random.integers(-2, 3, (1, count))
    for number in range(count):
        bits[2 * number, number] = 24 - bits[2 * number, number]
        scales[2 * number + 1, number] += 1
    order = random.permutation(len(bits))
    return ShiftryLowering(program, {}).lower(bits[order], scales[order])


@needs_compiler
@given(model=random_models(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_neighbours_compute_together_what_each_computes_alone(model: RandomModel, seed: int) -> None:
    kernel, steps = load_kernel(), loop_steps(model.program)
    assert kernel is not None
    features = np.repeat(model.features, 20, axis=0) * np.linspace(0.1, 1.0, 20 * len(model.features))[:, None]
    batch = neighbours(model.program, np.random.default_rng(seed))
    contest = float_contest(model.program, model.parameters, features, steps)[1]
    native = NativeProgram(kernel, model.program, steps, model.parameters, features, contest)
    if not native.supports(batch):
        return
    outputs, sums = native.run_contest(batch)
    np.testing.assert_array_equal(outputs, run_reference(batch, model.parameters, features, steps))
    if contest is not None:
        assert sums == run_reference_contest(batch, model.parameters, features, steps, contest)[1]


def program_of(*body: ir.Statement) -> ir.Program:
    return ir.Program("steps", VARIABLES, body, ir.whole(VARIABLES[-1]), ir.ResultKind.REAL)


VARIABLES = (variable("X", (1, 4), ir.Role.INPUT), *(variable(name, (1, 4)) for name in "abc"))
X, A, B, C = (ir.whole(v) for v in VARIABLES)


def resumable(program: ir.Program, last: int) -> tuple[list[int], list[int]]:
    order, parts = resumable_steps(program, loop_steps(program), last)
    return order.tolist(), parts.tolist()


def test_a_straight_line_may_be_resumed_anywhere_and_a_loop_only_before_and_after_it() -> None:
    straight = program_of(ir.Relu(A, HERE, X), ir.Relu(B, HERE, A), ir.Relu(C, HERE, B))
    assert resumable(straight, 2) == ([0, 1, 2], [0, 1, 2, 2])
    assert resumable(straight, 1) == ([0, 1, 2], [0, 1, 1, 1])
    loop = ir.Loop("i", 0, 3, (ir.Relu(A, HERE, X), ir.Relu(B, HERE, A)), HERE)
    looped = program_of(ir.Relu(A, HERE, X), loop, ir.Relu(C, HERE, B))
    assert resumable(looped, 2) == ([0, 1, 2, 3], [0, 0, 0, 2, 2])


def test_what_a_later_step_overwrites_can_not_be_read_again() -> None:
    reused = program_of(ir.Relu(A, HERE, X), ir.Relu(B, HERE, A), ir.Relu(A, HERE, B), ir.Relu(C, HERE, A))
    assert resumable(reused, 3) == ([0, 1, 2, 3], [0, 0, 0, 3, 3])


def test_a_loop_is_split_where_rounds_need_one_another_no_more() -> None:
    """A sum over prototypes: what is computed for each of them is done before any is added, and the sum is begun after that."""
    summed = ir.Loop("i", 0, 3, (ir.Relu(A, HERE, X), ir.Negate(B, HERE, A), ir.Add(C, HERE, C, B)), HERE)
    program = program_of(ir.Fill(C, HERE, 0.0), summed)
    split = distributed(loop_steps(program))
    written = [
        [step.first.operation.out.variable for step, _ in LoopedSteps(program, (part,)).places] for part in split.body
    ]
    assert written == [["a"], ["b"], ["c"], ["c"]]
    assert [type(part) for part in split.body] == [Step, Step, Step, RepeatedSteps]
    assert dict(split.copies) == {"a": 3, "b": 3}
    order, parts = resumable_steps(program, split, 3)
    assert (order.tolist(), parts.tolist()) == ([1, 2, 0, 3], [0, 1, 2, 2, 2])
    assert distributed(loop_steps(program), ("a", "b")).copies == {}


def test_candidates_stand_beside_those_with_which_they_share_most() -> None:
    meanings = np.array([[[1], [1], [1]], [[2], [1], [1]], [[1], [1], [2]], [[1], [2], [1]], [[2], [1], [1]]])
    parts = np.array([0, 10, 20, 25])
    order, starts = shared_starts(meanings, parts)
    assert sorted(order.tolist()) == [0, 1, 2, 3, 4]
    for before, now, start in zip(order, order[1:], starts[1:], strict=False):
        same = (meanings[before] == meanings[now]).all(axis=1)
        assert start == parts[3 if same.all() else same.argmin()]
    assert starts[0] == 0
    assert sorted(starts.tolist()) == [0, 0, 10, 20, 25]
