"""Candidates that come to the same share their steps, and nobody can tell by what they compute."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.distributed_loops import distributed
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.looped_steps import LoopedSteps, RepeatedSteps, Step, loop_steps
from kilotune.evaluators.fixed_point import native
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.margins import float_contest
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from kilotune.evaluators.fixed_point.sample_blocks import LANES
from kilotune.evaluators.fixed_point.step_groups import StepGroup, grouped_parts, resumable_parts, separate_parts
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
@given(model=random_models(), seed=st.integers(0, 2**32 - 1), keeps=st.booleans())
@settings(max_examples=60, deadline=None)
def test_neighbours_compute_together_what_each_computes_alone(model: RandomModel, seed: int, keeps: bool) -> None:
    kernel, steps = load_kernel(), loop_steps(model.program)
    assert kernel is not None
    features = np.repeat(model.features, 20, axis=0) * np.linspace(0.1, 1.0, 20 * len(model.features))[:, None]
    batch = neighbours(model.program, np.random.default_rng(seed))
    contest = float_contest(model.program, model.parameters, features, steps)[1]
    with (
        mock.patch.object(native, "values_with_room", return_value=8 * keeps),
        mock.patch.object(native, "WORTH_KEEPING", 0),
    ):
        made = NativeProgram(kernel, model.program, steps, model.parameters, features, contest)
    if not made.supports(batch):
        return
    outputs, sums = made.run_contest(batch)
    np.testing.assert_array_equal(outputs, run_reference(batch, model.parameters, features, steps))
    if contest is not None:
        assert sums == run_reference_contest(batch, model.parameters, features, steps, contest)[1]


def program_of(*body: ir.Statement) -> ir.Program:
    return ir.Program("steps", VARIABLES, body, ir.whole(VARIABLES[-1]), ir.ResultKind.REAL)


VARIABLES = (variable("X", (1, 4), ir.Role.INPUT), *(variable(name, (1, 4)) for name in "abc"))
X, A, B, C = (ir.whole(v) for v in VARIABLES)


LOOP = ir.Loop("i", 0, 3, (ir.Relu(A, HERE, X), ir.Relu(B, HERE, A)), HERE)
STRAIGHT = program_of(ir.Relu(A, HERE, X), ir.Relu(B, HERE, A), ir.Relu(C, HERE, B))
LOOPED = program_of(ir.Relu(A, HERE, X), LOOP, ir.Relu(C, HERE, B))
REUSED = program_of(ir.Relu(A, HERE, X), ir.Relu(B, HERE, A), ir.Relu(A, HERE, B), ir.Relu(C, HERE, A))


@pytest.mark.parametrize(
    ("program", "last", "boundaries", "resumed"),
    [
        (STRAIGHT, 2, [0, 1, 2, 3], [0, 1, 2, 2]),
        (STRAIGHT, 1, [0, 1, 2, 3], [0, 1, 1, 1]),
        (LOOPED, 2, [0, 2, 3], [0, 0, 0, 2, 2]),  # what a loop writes anew may only be read before it or after it
        (REUSED, 3, [0, 3, 4], [0, 0, 0, 3, 3]),  # what a later step overwrites cannot be read again
    ],
)
def test_parts_may_be_left_out_where_nothing_is_written_on_both_sides(
    program: ir.Program, last: int, boundaries: list[int], resumed: list[int]
) -> None:
    steps = loop_steps(program)
    assert separate_parts(steps).tolist() == boundaries
    assert resumable_parts(program, steps, last).tolist() == resumed


def test_groups_say_what_they_read_and_what_is_read_of_them() -> None:
    groups = grouped_parts(loop_steps(LOOPED), [0, 2, 3])
    assert groups == (StepGroup(0, 2, [0, 1, 2], ["X"], ["b"], ["a", "b"]), StepGroup(2, 3, [3], ["b"], [], ["c"]))
    contested = grouped_parts(loop_steps(STRAIGHT), [0, 1, 2, 3], [(2, "a")])
    assert [(group.reads, group.kept) for group in contested] == [(["X"], ["a"]), (["a"], ["b"]), (["a", "b"], [])]


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
    assert separate_parts(split).tolist() == [0, 1, 2, 4]
    assert resumable_parts(program, split, 3).tolist() == [2, 0, 1, 2, 2]
    assert distributed(loop_steps(program), ("a", "b")).copies == {}


def chain(inputs: int = 4) -> ir.Program:
    """A product of matrices, what is positive of it, and another one."""
    names = ("X", "W", "V", "a", "b", "c")
    sizes = ((inputs, 1), (3, inputs), (6, 3), (3, 1), (3, 1), (6, 1))
    roles = (ir.Role.INPUT, ir.Role.PARAMETER, ir.Role.PARAMETER, *[ir.Role.TEMPORARY] * 3)
    variables = tuple(variable(*one) for one in zip(names, sizes, roles, strict=True))
    x, w, v, a, b, c = (ir.whole(one) for one in variables)
    body = (ir.MatMul(a, HERE, w, x), ir.Relu(b, HERE, a), ir.MatMul(c, HERE, v, b))
    return ir.Program("chain", variables, body, c, ir.ResultKind.REAL)


def scaled(program: ir.Program, count: int) -> FixedBatch:
    """Candidates that differ in the scale of the input."""
    bits = np.full((count, len(program.variables)), 16)
    scales = np.full_like(bits, 11)
    scales[:, 0] = np.arange(count) + 4
    scales[:, 3] = 9
    return ShiftryLowering(program, {}).lower(bits, scales)


@needs_compiler
@pytest.mark.parametrize("differing", [None, 100, 299])
def test_values_that_are_the_same_in_the_first_block_are_computed_on_once_as_long_as_they_are(
    differing: int | None,
) -> None:
    """Features are multiples of a sixteenth but in one sample, of which larger scales keep more."""
    program, kernel = chain(), load_kernel()
    assert kernel is not None
    random = np.random.default_rng(0)
    features = random.integers(0, 16, (300, 4)) / 16.0
    if differing is not None:
        features[differing] += 0.7 / 16
    parameters = {"W": random.uniform(0.1, 0.5, (3, 4)), "V": random.uniform(-1, 1, (6, 3))}
    batch, steps = scaled(program, 8), loop_steps(program)
    with (
        mock.patch.object(native, "lanes_of_block", return_value=LANES),
        mock.patch.object(native, "values_with_room", return_value=0),
    ):
        running = NativeProgram(kernel, program, steps, parameters, features).prepare(batch)
    running.go_on(range(8), running.blocks)
    np.testing.assert_array_equal(running.outputs, run_reference(batch, parameters, features, steps))
    kinds = len(np.unique(running.outputs.reshape(8, -1), axis=0))
    blocks, groups, groups_run = 5, 3, int(running.arrays["groups_run"][0])
    least = 8 * groups + (blocks - 1) * (groups + 7)
    if differing is None:
        assert (kinds, groups_run) == (1, least)
    else:
        assert kinds > 1
        assert least < groups_run <= least + 7 * (groups - 1)
