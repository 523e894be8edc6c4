"""Margins are those of the float program's two best classes, and the kernel sums what the definition sums."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import loop_steps
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.margins import UNIT_BITS, Contest, MarginSums, contest_of, float_contest
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches

HERE = ir.Location("margins.sd", 1, 1)
SAMPLES = 70
"""More than a block, and no multiple of it."""


def contest_in(model: RandomModel) -> Contest | None:
    return float_contest(model.program, model.parameters, model.features, loop_steps(model.program))[1]


def deciding(scores: ir.View, label: ir.View, signs: bool) -> ir.Operation:
    return ir.Sign(label, HERE, scores) if signs else ir.ArgMax(label, HERE, scores)


def scoring(count: int, signs: bool = False, loops: int = 0) -> ir.Program:
    """The label of `count` features; with loops, the decision is taken again and again and the scores are negated after each."""
    given, scores = ir.Variable("X", (count,), ir.Role.INPUT, HERE), ir.Variable("s", (count,), ir.Role.TEMPORARY, HERE)
    label = ir.Variable("label", (), ir.Role.TEMPORARY, HERE)
    read = ir.Copy(ir.whole(scores), HERE, ir.whole(given))
    body: tuple[ir.Statement, ...] = (deciding(ir.whole(scores), ir.whole(label), signs),)
    if loops:
        body = (ir.Loop("i", 0, loops, (*body, ir.Negate(ir.whole(scores), HERE, ir.whole(scores))), HERE),)
    return ir.Program("scoring", (given, scores, label), (read, *body), ir.whole(label), ir.ResultKind.CLASS)


def contest_of_scores(scores: np.ndarray, signs: bool = False) -> Contest | None:
    """Of scores [classes, samples]."""
    steps = tuple(loop_steps(scoring(len(scores), signs)))
    return contest_of(steps[-1], len(steps) - 1, scores, scores.shape[1])


def test_the_best_class_leads_and_the_second_best_is_its_rival() -> None:
    contest = contest_of_scores(np.array([[1.0, 3.0, -5.0], [4.0, 0.5, -5.0], [3.0, 2.0, -7.0]]))
    assert contest is not None
    np.testing.assert_array_equal(contest.leaders, [1, 0, 0])  # of equals the first, as ArgMax has it
    np.testing.assert_array_equal(contest.rivals, [2, 2, 1])
    np.testing.assert_array_equal(contest.margins, [1.0, 1.0, 0.0])


def test_the_rival_of_a_sign_is_zero() -> None:
    contest = contest_of_scores(np.array([[2.0, -0.5, 0.0]]), signs=True)
    assert contest is not None
    np.testing.assert_array_equal(contest.leaders, [0, -1, -1])
    np.testing.assert_array_equal(contest.rivals, [-1, 0, 0])
    np.testing.assert_array_equal(contest.margins, [2.0, 0.5, 0.0])
    assert contest.sums(np.array([[-3, -4, 5]])).margins == -3 + 4 - 5


def test_nothing_contests_an_argmax_of_one_score_or_a_number() -> None:
    assert contest_of_scores(np.array([[1.0, 2.0]])) is None
    numerical = dataclasses.replace(scoring(2), result_kind=ir.ResultKind.REAL)
    assert float_contest(numerical, {}, np.ones((1, 2)), loop_steps(numerical))[1] is None


@pytest.mark.parametrize("loops", [0, 1, 2])
def test_scores_are_read_when_the_last_decision_is_taken(loops: int) -> None:
    """What a loop writes over them afterwards does not count."""
    program, features = scoring(3, loops=loops), np.array([[1.0, 5.0, 2.0]])
    contest = contest_in(RandomModel(program, {}, features))
    assert contest is not None
    negated = loops == 2
    assert (contest.leaders[0], contest.rivals[0]) == ((0, 2) if negated else (1, 2))
    assert contest.margins[0] == (1.0 if negated else 3.0)


@pytest.mark.parametrize("largest", [1e-30, 0.75, 1.0, 3.9, 1e30])
def test_units_keep_all_digits_that_there_are(largest: float) -> None:
    margins = np.array([0.0, largest / 3, largest, np.inf, np.nan])
    contest = Contest(0, "s", np.zeros(5, dtype=np.int32), np.ones(5, dtype=np.int32), margins)
    assert (1 << UNIT_BITS - 1) <= contest.units[2] < 1 << UNIT_BITS
    np.testing.assert_allclose(np.ldexp(contest.units[:3].astype(float), -contest.scale), margins[:3], rtol=2e-7)
    assert set(contest.units[3:].tolist()) == {(1 << UNIT_BITS) - 1}
    assert contest.ascending.tolist() == sorted(contest.units.tolist())


def test_flips_are_expected_by_quantiles_of_the_unseen_margins() -> None:
    """As many as there are samples, in the samples' unit; what is wider than every sample's margin is as wide as it can be."""
    nobody = np.zeros(4, dtype=np.int32)
    unseen = np.array([0.5, np.nan, 0.0, 9.0, 0.25, 0.125, 0.0625, 1.0])
    contest = Contest(0, "s", nobody, nobody + 1, np.array([0.75, 0.5, 0.875, 0.999]), unseen)
    assert contest.scale == 24
    pairs = [(0.0 + 0.0625) / 2, (0.125 + 0.25) / 2]
    assert contest.ascending[:2].tolist() == [int(np.ldexp(middle, 24)) for middle in pairs]
    assert contest.ascending[2] == round((2**23 + (1 << UNIT_BITS) - 1) / 2)
    assert contest.ascending[3] == (1 << UNIT_BITS) - 1
    assert contest.unit_sums == dataclasses.replace(contest, unseen=None).unit_sums


@pytest.mark.parametrize("inputs", [3, 1024])
def test_any_number_of_unseen_margins_of_one_distribution_expects_what_the_samples_do(inputs: int) -> None:
    margins = (np.arange(300) + 0.5) / 300
    nobody = np.zeros(300, dtype=np.int32)
    contest = Contest(0, "s", nobody, nobody + 1, margins, (np.arange(inputs) + 0.5) / inputs)
    assert np.abs(contest.ascending - np.sort(contest.units)).max() <= (1 << UNIT_BITS) / (2 * inputs) + 1


def test_no_margins_at_all_have_a_unit() -> None:
    contest = Contest(0, "s", np.zeros(2, dtype=np.int32), np.ones(2, dtype=np.int32), np.zeros(2))
    assert (contest.scale, contest.units.tolist()) == (0, [0, 0])


def test_sums_of_32_bit_scores_do_not_overflow() -> None:
    scores = np.array([[2**31 - 1] * 4, [-(2**31)] * 4])
    contest = Contest(0, "s", np.zeros(4, dtype=np.int32), np.ones(4, dtype=np.int32), np.full(4, 0.999))
    margin = 2**32 - 1
    assert contest.sums(scores) == MarginSums(4 * margin, 4 * margin**2, 4 * margin * int(contest.units[0]))


def brute_force(model: RandomModel, batch: object, contest: Contest) -> list[MarginSums]:
    """By programs that return the scores themselves: the deciding operation is taken away, and with it its row."""
    operation = model.program.body[-1]
    assert isinstance(operation, ir.ArgMax | ir.Sign)
    program = dataclasses.replace(
        model.program, body=model.program.body[:-1], result=operation.a, result_kind=ir.ResultKind.REAL
    )
    bare = dataclasses.replace(batch, program=program, rows=batch.rows[:, :-1].copy())  # type: ignore[type-var, attr-defined]
    floats = run_float(program, model.parameters, model.features).outputs
    found = run_reference(bare, model.parameters, model.features)
    sums = []
    for outputs in found.tolist():
        margins = []
        for sample, scores in zip(floats.tolist(), outputs, strict=True):
            ranked = sorted(range(len(sample)), key=lambda k: (-sample[k], k))
            signed = scores[0] if sample[0] > 0 else -scores[0]
            margins.append(signed if len(sample) == 1 else scores[ranked[0]] - scores[ranked[1]])
        units = contest.units.tolist()
        products = sum(m * unit for m, unit in zip(margins, units, strict=True))
        sums.append(MarginSums(sum(margins), sum(m * m for m in margins), products))
    return sums


@needs_compiler
@given(data=st.data(), model=random_models(classifies=True))
@settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None, deadline=None)
def test_kernel_definition_and_brute_force_sum_the_same(data: st.DataObject, model: RandomModel) -> None:
    spread = np.random.default_rng(0).normal(size=(SAMPLES, model.features.shape[1]))
    model = dataclasses.replace(model, features=spread)
    steps = loop_steps(model.program)
    with np.errstate(all="ignore"):
        contest = contest_in(model)
        assert contest is not None
        finite = bool(np.isfinite(contest.margins).all())
    kernel = load_kernel()
    assert kernel is not None
    native = NativeProgram(kernel, model.program, steps, model.parameters, model.features, contest)
    for batch in (data.draw(shiftry_batches(model.program, 3)), data.draw(seedot_batches(model.program))):
        outputs, sums = run_reference_contest(batch, model.parameters, model.features, steps, contest)
        np.testing.assert_array_equal(outputs, run_reference(batch, model.parameters, model.features, steps))
        if native.supports(batch):
            assert native.run_contest(batch)[1] == sums
            np.testing.assert_array_equal(native.run_contest(batch)[0], outputs)
        if finite:
            assert sums == brute_force(model, batch, contest)
