"""Steps in loops execute what a program executes that is written down step by step, and say of it what that says."""

from __future__ import annotations

import dataclasses
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir, looped_steps
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.hazards import find_hazard
from kilotune.codegen.in_place import (
    ELEMENT_BYTES,
    WriteOrder,
    _goes_backward,
    _keeps_apart,
    _visits,
    _write_order,
    write_orders,
)
from kilotune.codegen.looped_steps import grid_of, loop_steps
from kilotune.codegen.parallel_loops import float_steps
from kilotune.codegen.straight_line import GridAxes, OperationInstance
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.fixed.programs import HERE, variable
from tests.codegen.unrolled import executions, unrolled


def same(a: OperationInstance, b: OperationInstance) -> bool:
    return (
        a.operation is b.operation
        and a.row == b.row
        and np.array_equal(a.out, b.out)
        and all(
            x.variable == y.variable and x.literal == y.literal and np.array_equal(x.elements, y.elements)
            for x, y in zip(a.sources, b.sources, strict=True)
        )
    )


@given(random_models())
@settings(max_examples=150, deadline=None)
def test_loops_execute_what_is_written_down_without_them(model: RandomModel) -> None:
    steps, all_steps = loop_steps(model.program), unrolled(model.program)
    assert len(steps) == len(all_steps)
    assert all(map(same, steps, all_steps))
    assert all(map(same, reversed(steps), reversed(all_steps)))
    for step in steps:  # numbers that are said to be consecutive are
        for consecutive, elements in (
            (step.consecutive, step.out),
            *((source.consecutive, source.elements) for source in step.sources),
        ):
            assert not consecutive or (np.diff(elements.reshape(-1)) == 1).all()


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-3, 40)), min_size=1, max_size=4), st.integers(0, 5))
def test_element_numbers_in_a_grid_are_those_of_the_grid(axes: list[tuple[int, int]], changed: int) -> None:
    """Whatever is found describes the numbers, and of numbers that are no longer in a grid nothing is found."""
    numbers = np.zeros((), dtype=np.int32)
    for count, step in axes:
        numbers = (numbers[..., None] + np.arange(count, dtype=np.int32) * step).astype(np.int32)
    numbers += 1 - numbers.min()
    with mock.patch.object(looped_steps, "LEAST_IN_GRID", 2):
        found = grid_of(numbers)
        assert (found is None) == (numbers.size < 2)
        if found is not None:
            assert np.array_equal(in_the_grid(found, int(numbers.flat[0])), numbers.reshape(-1))
        other = numbers.reshape(-1).copy()
        other[changed % other.size] += 1
        found = grid_of(other)
        assert found is None or np.array_equal(in_the_grid(found, int(other[0])), other)


def in_the_grid(grid: GridAxes, first: int) -> IntArray:
    numbers = np.full((), first)
    for count, step in grid:
        numbers = numbers[..., None] + step * np.arange(count)
    return numbers.reshape(-1)


@given(random_models())
@settings(max_examples=100, deadline=None)
def test_the_corners_of_loops_bind_in_place_operators_as_all_rounds_do(model: RandomModel) -> None:
    program = model.program
    temporaries = {v.name for v in program.variables if v.role is ir.Role.TEMPORARY}
    every: dict[tuple[int, str], list[WriteOrder]] = {}
    for execution in executions(program):
        row, operation = execution[0].row, execution[0].operation
        if not _keeps_apart(program, operation):
            for name, *order in _visits(execution):
                if name in temporaries and name != operation.out.variable:
                    both = _goes_backward(operation, temporaries)
                    every.setdefault((row, name), []).append(_write_order(*order, backward=both))
    found = write_orders(loop_steps(program))
    assert found.keys() == every.keys()
    for key, orders in every.items():
        whole = _all_of(orders)
        back = [order.backward for order in orders if order.backward is not None]
        whole = dataclasses.replace(whole, backward=_all_of(back) if back else None)
        for a in ELEMENT_BYTES:
            for b in ELEMENT_BYTES:
                assert found[key].forbidden(a, b) == whole.forbidden(a, b)
                assert found[key].forbidden_forward(a, b) == whole.forbidden_forward(a, b)


def _all_of(orders: list[WriteOrder]) -> WriteOrder:
    below = {pair for order in orders for pair in order.below}
    above = {pair for order in orders for pair in order.above}
    return WriteOrder(tuple(below), tuple(above))


A = variable("a", (9,))


def moving(read: ir.Affine, written: ir.Affine) -> ir.Program:
    """Three elements of a variable go to places of the same one, with i from 0 to 2."""
    copy = ir.Copy(ir.View("a", (3,), (1,), written), HERE, ir.View("a", (3,), (1,), read))
    body = (ir.Fill(ir.whole(A), HERE, 0.0), ir.Loop("i", 0, 3, (copy,), HERE))
    return ir.Program("moving", (A,), body, ir.whole(A), ir.ResultKind.REAL)


def test_hazards_of_any_round_are_found() -> None:
    """Only in round 2 does the copy write what it has still to read: it reads from 2, 3, 4 on and writes from 0, 2, 4 or 1, 3, 5 on."""
    index = (("i", 1),)
    fast = (("i", 2),)
    assert find_hazard(loop_steps(moving(ir.Affine(2, index), ir.Affine(0, fast)))) is None
    assert find_hazard(loop_steps(moving(ir.Affine(2, index), ir.Affine(1, fast)))) is not None
    assert find_hazard(loop_steps(moving(ir.Affine(6), ir.Affine(0, index)))) is None


def test_a_temporary_is_held_from_the_part_that_writes_it_to_the_last_that_reads_it() -> None:
    names = {name: variable(name, (4,)) for name in "abc"}
    a, b, c = (ir.whole(names[name]) for name in "abc")
    body = (
        ir.Fill(a, HERE, 1.0),
        ir.Loop("i", 0, 2, (ir.Relu(b, HERE, a),), HERE),
        ir.Relu(c, HERE, b),
    )
    steps = loop_steps(ir.Program("held", tuple(names.values()), body, c, ir.ResultKind.REAL))
    assert [(set(first), set(last)) for first, last in steps.temporaries] == [
        ({"a"}, set()),
        ({"b"}, {"a"}),
        ({"c"}, {"b"}),
    ]
    assert steps.elements_at_once == 4 + 4 + (4 + 2 * 4)
    assert steps.elements_in_all == 12 + (4 + 2 * 4)


def test_the_last_round_binds_what_the_first_does_not() -> None:
    """Three places of `a` go to three of `b`, further on by two in every round, while reading goes on by one."""
    b = variable("b", (9,))
    relu = ir.Relu(
        ir.View("b", (3,), (1,), ir.Affine(0, (("i", 2),))), HERE, ir.View("a", (3,), (1,), ir.Affine(0, (("i", 1),)))
    )
    body = (ir.Fill(ir.whole(A), HERE, 0.0), ir.Loop("i", 0, 3, (relu,), HERE))
    order = write_orders(loop_steps(ir.Program("moving", (A, b), body, ir.whole(b), ir.ResultKind.REAL)))[1, "a"]
    # from below round 2 binds, which reads 3 when 4 has been written, and 5 places are done: 3 - 5; from above round 0, which reads as far
    # as place 2 when the lowest that is written is 0: 3 - 0
    assert order.forbidden(1, 1) == (-2, 3)


@given(random_models())
@settings(max_examples=60, deadline=None)
def test_values_in_grids_are_those_one_by_one(model: RandomModel) -> None:
    """With grids of two numbers and more, and without any: the same floats but for the last digit, as NumPy adds what lies apart in
    another order, and every grid that a step has is that of its numbers."""
    found = []
    for least in (2, 1 << 30):
        with mock.patch.object(looped_steps, "LEAST_IN_GRID", least):
            steps = float_steps(model.program)
        found.append(run_float(model.program, model.parameters, model.features, steps=steps).outputs)
        for step in steps:
            for grid, elements in ((step.grid, step.out), *((source.grid, source.elements) for source in step.sources)):
                assert grid is None or np.array_equal(in_the_grid(grid, int(elements.flat[0])), elements.reshape(-1))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)
