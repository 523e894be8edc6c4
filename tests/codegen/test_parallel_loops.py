"""Rounds that run at once give what they give one after the other, and loops whose rounds need one another are left alone."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings

from kilotune.codegen import ir, parallel_loops
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from kilotune.codegen.looped_steps import LoopedSteps, RepeatedSteps, loop_steps
from kilotune.codegen.parallel_loops import wide_steps, with_rounds_at_once
from kilotune.codegen.profile import profile
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.fixed.programs import HERE, variable

PATCHES = """
let X = (72, 1) in [-1.0, 1.0] in
let W = (3, 2) in [-1.0, 1.0] in
let U = (3, 3) in [-1.0, 1.0] in
let V = (5, 3, 3) in [-1.0, 1.0] in
let image = reshape(X, (6, 6, 2), (1, 2)) in
let pooled = init([3, 4, 9], 0.0) in
let ended = init([1, 1], 0.0) in
let endedRow = init([1, 1], 0.0) in
let rows = loop(top = [0:3], ended) (
  let row = loop(left = [1:4], endedRow) (
    let patch = reshape(image[top:+3][left:+2][0:+2], (3, 2, 2), (1, 2, 3)) in
    let states = init([3, 3], 0.0) in
    let done = loop(line = [0:3], states) (
      let h = init([3, 1], 0.0) in
      let states[0:+3][line:+1] = loop(at = [0:2], h) (
        let pixel = reshape(patch[line:+1][at:+1][0:+2], (2, 1), (1, 2, 3)) in
        let chosen = V[line] in
        let h = tanh((W * pixel) + (chosen * h) + (states * h)) in
        h
      ) in
      states
    ) in
    let pooled[top:+1][left:+1][0:+9] = reshape(states, (1, 1, 9), (2, 1)) in
    let endedRow[0:+1][0:+1] = done[2:+1][1:+1] in
    endedRow
  ) in
  let ended[0:+1][0:+1] = row[0:+1][0:+1] in
  ended
) in
let answer = init([1, 109], 0.0) in
let answer[0:+1][0:+108] = reshape(pooled, (1, 108), (1, 2, 3)) in
let answer[0:+1][108:+1] = ended in
answer
"""


def patches() -> tuple[ir.Program, dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    parameters = {name: rng.uniform(-1, 1, shape) for name, shape in (("W", (3, 2)), ("U", (3, 3)), ("V", (5, 3, 3)))}
    return elaborate(parse(PATCHES, "patches.sd"), "patches"), parameters, rng.uniform(-1, 1, (5, 72))


def test_patches_of_an_image_run_at_once() -> None:
    program, parameters, features = patches()
    steps = loop_steps(program)
    wide = wide_steps(steps)
    assert len(wide) < len(steps) / 4
    one_by_one = run_float(program, parameters, features, steps=steps).outputs
    assert np.ptp(one_by_one) > 0.1
    np.testing.assert_allclose(run_float(program, parameters, features, steps=wide).outputs, one_by_one, rtol=1e-12)


def test_profiles_are_the_same() -> None:
    program, parameters, features = patches()
    plain, _ = profile(program, parameters, features)
    with mock.patch.object(parallel_loops, "MANY_STEPS", 1):
        wide, _ = profile(program, parameters, features)
    assert plain.minimum == pytest.approx(wide.minimum)
    assert plain.maximum == pytest.approx(wide.maximum)


@given(random_models())
@settings(max_examples=150, deadline=None)
def test_any_program_computes_what_it_did(model: RandomModel) -> None:
    steps = loop_steps(model.program)
    with np.errstate(all="ignore"):
        plain = run_float(model.program, model.parameters, model.features, steps=steps).outputs
        wide = run_float(model.program, model.parameters, model.features, steps=wide_steps(steps)).outputs
    np.testing.assert_allclose(wide, plain, rtol=1e-9, atol=1e-12)


X, A, B, OUT = (
    variable("X", (6,), ir.Role.INPUT),
    variable("a", (1,)),
    variable("b", (6,)),
    variable("out", (6,)),
)


def at(name: str, constant: int = 0, **factors: int) -> ir.View:
    return ir.View(name, (1,), (1,), ir.Affine(constant, tuple(sorted(factors.items()))))


def looped(
    *body: ir.Statement, before: tuple[ir.Statement, ...] = (), after: tuple[ir.Statement, ...] = ()
) -> LoopedSteps:
    filled = (ir.Fill(ir.whole(A), HERE, 0.5), ir.Fill(ir.whole(B), HERE, 0.25), ir.Fill(ir.whole(OUT), HERE, 0.0))
    loop = ir.Loop("i", 0, 3, body, HERE)
    program = ir.Program("p", (X, A, B, OUT), (*filled, *before, loop, *after), ir.whole(OUT), ir.ResultKind.REAL)
    return loop_steps(program)


def rounds_at_once(steps: LoopedSteps) -> bool:
    """Whether none are left one after the other; what comes out is compared in any case."""
    wide = wide_steps(steps)
    features = np.arange(12.0).reshape(2, 6) - 5
    plain = run_float(steps.program, {}, features, steps=steps).outputs
    np.testing.assert_array_equal(run_float(steps.program, {}, features, steps=wide).outputs, plain)
    return not any(isinstance(part, RepeatedSteps) for part in wide.body)


READ, WRITE = at("X", i=1), at("out", i=1)


def test_what_each_round_writes_first_is_its_own() -> None:
    assert rounds_at_once(looped(ir.Relu(at("a"), HERE, READ), ir.Add(WRITE, HERE, at("a"), READ)))


def test_what_the_round_before_has_left_is_not() -> None:
    assert not rounds_at_once(looped(ir.Add(WRITE, HERE, at("a"), READ), ir.Relu(at("a"), HERE, READ)))
    assert not rounds_at_once(looped(ir.Add(at("a"), HERE, at("a"), READ), ir.Copy(WRITE, HERE, at("a"))))
    assert not rounds_at_once(looped(ir.Copy(at("b", i=1), HERE, READ), ir.Copy(WRITE, HERE, at("b"))))


def test_what_is_read_behind_the_loop_is_of_the_last_round() -> None:
    """An element that one operation alone writes may be read there; two operations would need to stay together."""
    behind = (ir.Copy(at("out", 5), HERE, at("a")),)
    assert rounds_at_once(looped(ir.Copy(at("a"), HERE, READ), after=behind))
    assert not rounds_at_once(looped(ir.Copy(at("a"), HERE, READ), ir.Copy(WRITE, HERE, at("a")), after=behind))


def test_rounds_that_write_the_same_elements_in_inner_loops_keep_their_order() -> None:
    def inner(written: ir.View) -> ir.Loop:
        return ir.Loop("j", 0, 2, (ir.Copy(written, HERE, at("X", i=1, j=2)),), HERE)

    assert not rounds_at_once(looped(inner(at("out", i=1, j=1))))
    assert rounds_at_once(looped(inner(at("out", i=2, j=1))))
    assert rounds_at_once(looped(inner(at("out", i=1, j=3))))


def test_nothing_is_copied_that_has_no_room() -> None:
    steps = looped(ir.Relu(at("a"), HERE, READ), ir.Add(WRITE, HERE, at("a"), READ))
    with mock.patch.object(parallel_loops, "MOST_ELEMENTS", 2):
        assert len(wide_steps(steps)) == len(steps)


def test_too_many_steps_in_sequence_are_refused() -> None:
    steps = looped(ir.Add(at("a"), HERE, at("a"), READ))
    said = pytest.raises(InputError, match="at most 5 operations that need one another, found 6")
    with mock.patch.multiple(parallel_loops, MANY_STEPS=2, MOST_IN_SEQUENCE=5), said:
        with_rounds_at_once(steps)


def test_rounds_that_write_a_variable_by_several_operations() -> None:
    """Together they write other elements in each round; not where one of them moves on faster, or writes what the next round's writes."""
    even, odd = at("out", i=2), at("out", 1, i=2)
    assert rounds_at_once(looped(ir.Relu(even, HERE, READ), ir.Copy(odd, HERE, READ)))
    assert not rounds_at_once(looped(ir.Relu(even, HERE, READ), ir.Copy(at("out", 1, i=1), HERE, READ)))
    assert not rounds_at_once(looped(ir.Relu(WRITE, HERE, READ), ir.Copy(at("out", 1, i=1), HERE, READ)))
    assert not rounds_at_once(looped(ir.Relu(even, HERE, READ), ir.Copy(odd, HERE, at("out", i=2))))
