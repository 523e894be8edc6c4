"""Values that an earlier call has left behind are those that would be computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.looped_steps import loop_steps
from kilotune.evaluators.fixed_point import formatted, known_values, native
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.known_values import LEAST_VALUES, values_with_room, without_small_groups
from kilotune.evaluators.fixed_point.margins import MarginSums, float_contest
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from kilotune.evaluators.fixed_point.sample_blocks import LANES
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.fixed.programs import HERE, variable
from tests.evaluators.fixed_point.test_step_groups import chain, neighbours, scaled


@contextmanager
def each_group_alone(count: int = 8) -> Iterator[None]:
    """Programs keep so many values of each group, however little work it is."""
    with (
        mock.patch.object(known_values, "SMALL_WORK", 0),
        mock.patch.object(native, "values_with_room", return_value=count),
        mock.patch.object(native, "WORTH_KEEPING", 0),
        mock.patch.object(native, "lanes_of_block", return_value=LANES),
    ):
        yield


def run(made: NativeProgram, batch: FixedBatch) -> tuple[np.ndarray, list[MarginSums], int]:
    """Outputs, sums, and how many groups have run, whatever candidates that mean the same have come to."""
    running = made.prepare(batch)
    running.go_on(range(len(batch)), running.blocks)
    return running.outputs, running.margin_sums(range(len(batch))), int(running.arrays["groups_run"][0])


@needs_compiler
@given(model=random_models(), seed=st.integers(0, 2**32 - 1), count=st.sampled_from([1, 2, 8, 16]), room=st.booleans())
@settings(max_examples=60, deadline=None)
def test_calls_in_turn_compute_what_each_computes_alone(model: RandomModel, seed: int, count: int, room: bool) -> None:
    """With room for few values they are forgotten, and so are features with room for few formats: others lie there later."""
    kernel, steps, random = load_kernel(), loop_steps(model.program), np.random.default_rng(seed)
    assert kernel is not None
    features = np.repeat(model.features, 20, axis=0) * np.linspace(0.1, 1.0, 20 * len(model.features))[:, None]
    contest = float_contest(model.program, model.parameters, features, steps)[1]
    with each_group_alone(count):
        made = NativeProgram(kernel, model.program, steps, model.parameters, features, contest)
    first, second = (neighbours(model.program, random) for _ in range(2))
    with mock.patch.object(formatted, "MOST_INPUT_BYTES", 1 << 20 if room else 0):
        for batch in (first, second, first, first):
            if not made.supports(batch):
                continue
            outputs, sums, _ = run(made, batch)
            np.testing.assert_array_equal(outputs, run_reference(batch, model.parameters, features, steps))
            if contest is not None:
                assert sums == run_reference_contest(batch, model.parameters, features, steps, contest)[1]


INPUTS = 32
CHAIN = chain(INPUTS)


def chained() -> tuple[NativeProgram, np.ndarray, dict[str, np.ndarray]]:
    """A chain of three groups on multiples of a sixteenth, in two blocks."""
    kernel, random = load_kernel(), np.random.default_rng(0)
    assert kernel is not None
    features = random.integers(0, 16, (100, INPUTS)) / 16.0
    parameters = {"W": random.uniform(0.01, 0.06, (3, INPUTS)), "V": random.uniform(-1, 1, (6, 3))}
    with each_group_alone():
        return NativeProgram(kernel, CHAIN, loop_steps(CHAIN), parameters, features), features, parameters


@needs_compiler
def test_nothing_runs_that_has_been_asked_for_again() -> None:
    """All eight scales of the input come to the same, so that what reads the first product is known once one of them has run."""
    made, features, parameters = chained()
    batch = scaled(CHAIN, 8)
    expected = run_reference(batch, parameters, features, loop_steps(CHAIN))
    assert len(np.unique(expected.reshape(8, -1), axis=0)) == 1
    blocks, scales, readers = 2, 8, 2
    for groups_run in (blocks * (scales + readers), 0):
        outputs, _, ran = run(made, batch)
        np.testing.assert_array_equal(outputs, expected)
        assert ran == groups_run


@needs_compiler
def test_what_is_quickly_computed_is_kept_when_it_is_asked_for_again() -> None:
    """The second group and the third one run once more than their values are new."""
    made, _, _ = chained()
    blocks, groups = 2, 3
    assert [run(made, scaled(CHAIN, 1))[2] for _ in range(3)] == [blocks * groups, blocks * (groups - 1), 0]


@needs_compiler
def test_margins_are_summed_again_where_others_have_been_summed_meanwhile() -> None:
    """The label is where it was left; the sums are those of the candidate between, whose scores were known."""
    kernel, random = load_kernel(), np.random.default_rng(0)
    assert kernel is not None
    names, roles = ("X", "V", "a", "s", "label"), (ir.Role.INPUT, ir.Role.PARAMETER, *[ir.Role.TEMPORARY] * 3)
    variables = tuple(map(variable, names, ((1, 1), (2, 1), (1, 1), (2, 1), ()), roles))
    x, v, a, scores, label = map(ir.whole, variables)
    body = (ir.Relu(a, HERE, x), ir.MatMul(scores, HERE, v, a), ir.ArgMax(label, HERE, scores))
    program = ir.Program("labels", variables, body, label, ir.ResultKind.CLASS)
    features, parameters = random.integers(1, 16, (100, 1)) / 16.0, {"V": np.array([[0.5], [0.25]])}
    steps = loop_steps(program)
    contest = float_contest(program, parameters, features, steps)[1]
    assert contest is not None
    with each_group_alone():
        made = NativeProgram(kernel, program, steps, parameters, features, contest)
    # the input has three scales, of which the first one is met before the second; both give the same `a`
    first, between, batch = (
        ShiftryLowering(program, {}).lower(np.full((len(scales), 5), 16), scales)
        for scales in ([[6, 14, 5, 8, 0]], [[7, 14, 5, 9, 0]], [[6, 14, 5, 10, 0], [7, 14, 5, 9, 0], [8, 14, 5, 10, 0]])
    )
    expected = run_reference_contest(batch, parameters, features, steps, contest)
    assert expected[1][0] == expected[1][2] != expected[1][1]
    for asked in (first, between, between, batch):
        found = run(made, asked)
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]


@needs_compiler
def test_each_rounding_has_values_of_its_own() -> None:
    made, features, parameters = chained()
    for rounding in (*Rounding, *Rounding):
        batch = ShiftryLowering(CHAIN, {}, rounding).lower([[16, 8, 8, 8, 8, 8]], [[13, 6, 6, 3, 3, 2]])
        outputs = run(made, batch)[0]
        np.testing.assert_array_equal(outputs, run_reference(batch, parameters, features, loop_steps(CHAIN)))


@needs_compiler
def test_what_a_call_that_was_abandoned_may_still_write_to_is_not_used_again() -> None:
    made, features, parameters = chained()
    batch = scaled(CHAIN, 8)
    left = []

    def abandoned(*_: object) -> int:
        left.append(made._known_values._memories)
        raise KeyboardInterrupt

    run(made, batch)
    assert made._known_values._memories
    with (
        mock.patch.object(native, "QUICK_TERMS", -1),
        mock.patch.object(native, "interruptible", abandoned),
        pytest.raises(KeyboardInterrupt),
    ):
        run(made, batch)
    assert left == [{}]
    outputs, _, groups_run = run(made, batch)
    assert groups_run > 0
    np.testing.assert_array_equal(outputs, run_reference(batch, parameters, features, loop_steps(CHAIN)))


@needs_compiler
@pytest.mark.parametrize(("least", "kept"), [(0, 32), (1000, 0)])
def test_values_are_kept_where_they_are_much_work(least: int, kept: int) -> None:
    kernel, steps = load_kernel(), loop_steps(CHAIN)
    assert kernel is not None
    parameters = {"W": np.ones((3, INPUTS)), "V": np.ones((6, 3))}
    with mock.patch.object(native, "WORTH_KEEPING", least):
        made = NativeProgram(kernel, CHAIN, steps, parameters, np.ones((100, INPUTS)))
    assert made._known_values.count == kept


def test_values_are_kept_where_there_is_room_for_some() -> None:
    with mock.patch.object(known_values, "MOST_VALUE_BYTES", 1000):
        assert [values_with_room(size) for size in (0, 1, 100, 125, 126)] == [32, 32, 10, LEAST_VALUES, 0]


def test_little_work_belongs_to_what_comes_after_it() -> None:
    assert without_small_groups([0, 1, 2, 3, 4, 5], [100, 10, 90, 99, 5]) == [0, 1, 3, 5]
    assert without_small_groups([0, 2], [1, 1]) == [0, 2]
