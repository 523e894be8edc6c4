"""Codes of weights fitted to the whole program: what they are, what they gain, and that they are what is emitted."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.looped_steps import loop_steps
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.margins import float_contest
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.evaluators.fixed_point.similar_inputs import similar_inputs
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment
from kilotune.search.study import Study
from kilotune.spaces.shiftry import fitted_codes
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_codes import CodeFitting, CodeMove, Weight, moved, with_encodings
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, ROUNDED, FittedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.spaces.small_network import small_network

TASK = small_network(13)  # of two classes; most others have one
SPACE = ShiftrySpace(TASK, ShiftryOptions(accuracy_drop=5.0, narrow=True, finer=True))


def narrow_candidate(space: ShiftrySpace = SPACE) -> Assignment:
    """Weights of W and F in 3 bits, of U by rows in 4, B and all else in 8."""
    wanted = {"W": "int3@", "F": "int3@", "U": "int4@"}
    by_rows = {"U"}

    def chosen(name: str, options: list[str]) -> str:
        fitting = [o for o in options if o.startswith(wanted.get(name, "int8@"))]
        return min(fitting, key=lambda o: ("by rows" in o) != (name in by_rows))

    return {d.name: chosen(d.name, [str(o) for o in d.options]) for d in space.decisions}


def on_inputs(features: FloatArray) -> FixedPointEvaluator:
    """An evaluator of its own, which measures errors of margins."""
    return SPACE.evaluator.on(replace(TASK, features=features, targets=np.zeros(len(features))), margin_errors=True)


def on_fitting_inputs() -> FixedPointEvaluator:
    """On the inputs that codes are fitted to: the samples, and of twice as many inputs like them as are taken those closest to another
    class."""
    count = 4 * len(TASK.features)
    made = similar_inputs(TASK.features, 2 * count)
    steps = loop_steps(TASK.program)
    contest = float_contest(TASK.program, TASK.parameters, made, steps)[1]
    assert contest is not None
    closest = sorted(range(len(made)), key=contest.margins.__getitem__)[:count]
    return on_inputs(np.concatenate([TASK.features, made[closest]]))


def fitted_batch(fitting: CodeFitting) -> FixedBatch:
    rounded = SPACE.lower([narrow_candidate()])
    return with_encodings(rounded, [fitting.encodings(rounded)])


def codes_of(batch: FixedBatch) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Column, codes, and the codes below and above the values, of all encoded parameters of a single candidate."""
    for column, variable in enumerate(TASK.program.variables):
        encoding = batch.encoding(0, column)
        if encoding is not None:
            values, scale = TASK.parameters[variable.name], int(batch.scales[0, column])
            yield column, encoding.codes(values, scale), *encoding.around(values, scale)


def test_no_single_move_betters_fitted_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every move by itself, measured by an evaluator that has fitted nothing. Some have left both sides of their weights."""
    monkeypatch.setattr(fitted_codes, "MOST_SWEEPS", 50)
    rounded, fitting = SPACE.lower([narrow_candidate()]), CodeFitting(SPACE)
    encodings = fitting.encodings(rounded)
    fitted, evaluator = with_encodings(rounded, [encodings]), on_fitting_inputs()
    loss, before = (evaluator.measure(batch)[0]["margin_error"] for batch in (fitted, rounded))
    assert loss < before
    others, beyond = [], 0
    for column, codes, below, above in codes_of(fitted):
        beyond += np.count_nonzero((codes != below) & (codes != above))
        values, scale = TASK.parameters[TASK.program.variables[column].name], int(fitted.scales[0, column])
        for place, code in enumerate(codes.reshape(-1).tolist()):
            near = {*encodings[column].beside(code, values, scale)} - {code}
            others += [moved(encodings, [CodeMove(Weight(column, place), other)]) for other in sorted(near)]
    losses = [metrics["margin_error"] for metrics in evaluator.measure(with_encodings(rounded, others))]
    assert min(losses) >= loss
    assert beyond > 0


def test_fitted_margins_are_truer_on_inputs_that_codes_were_not_fitted_to() -> None:
    """And fewer classes change there. Codes that are fitted to the flips to be expected leave half of the error, 0.39 of the changes."""
    rounded, fitting = SPACE.lower([narrow_candidate()]), CodeFitting(SPACE)
    fitted, unseen = (
        with_encodings(rounded, [fitting.encodings(rounded)]),
        on_inputs(similar_inputs(TASK.features, 4000, seed=7)),
    )
    before, after = (unseen.measure(batch)[0] for batch in (rounded, fitted))
    assert after["margin_error"] < 0.4 * before["margin_error"]
    assert after["disagreements"] < 0.35 * before["disagreements"]


def test_codes_stay_on_either_side_of_their_weights_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """With so few sweeps that the second of each kind is not asked for, a code is at most one from there."""
    monkeypatch.setattr(fitted_codes, "MOST_SWEEPS", 1)
    rounded, fitting = SPACE.lower([narrow_candidate()]), CodeFitting(SPACE)
    first = {column: codes for column, codes, _, _ in codes_of(with_encodings(rounded, [fitting.given(rounded)]))}
    for column, codes, below, above in codes_of(with_encodings(rounded, [fitting.encodings(rounded)])):
        lowest, highest = np.minimum(below, first[column]), np.maximum(above, first[column])
        assert ((codes >= lowest - 1) & (codes <= highest + 1)).all()


def test_fitting_is_the_same_each_time_and_wherever_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it ends after half of the weights, which hangs on their order."""
    here, there = CodeFitting(SPACE), pickle.loads(pickle.dumps(CodeFitting(SPACE)))
    rounded = SPACE.lower([narrow_candidate()])
    for most in (fitted_codes.MOST_PRODUCTS, 20 * here._products(rounded)):
        monkeypatch.setattr(fitted_codes, "MEASURED_TOGETHER", 2)
        monkeypatch.setattr(fitted_codes, "MOST_PRODUCTS", most)
        one, again, other = fitted_batch(here), fitted_batch(here), fitted_batch(there)
        pairs = zip(codes_of(one), codes_of(with_encodings(rounded, [here.given(rounded)])), strict=True)
        assert any((codes != first).any() for (_, codes, *_), (_, first, *_) in pairs)
        for batch in (again, other):
            for (_, codes, _, _), (_, same, _, _) in zip(codes_of(one), codes_of(batch), strict=True):
                np.testing.assert_array_equal(codes, same)


def test_a_fit_that_may_measure_little_keeps_the_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted_codes, "MOST_PRODUCTS", 1.0)
    rounded = SPACE.lower([narrow_candidate()])
    kept = fitted_batch(CodeFitting(SPACE))
    np.testing.assert_array_equal(
        Simulator(TASK.program, TASK.parameters, TASK.features).run(rounded),
        Simulator(TASK.program, TASK.parameters, TASK.features).run(kept),
    )


@needs_compiler
def test_emitted_c_has_the_fitted_codes(tmp_path: Path) -> None:
    """The host's program and the NumPy definition compute the same, and others than those of rounded codes."""
    space = FittedSpace(SPACE)
    candidate = {**narrow_candidate(), CODES: FITTED}
    batch, rounded = space.lower([candidate]), SPACE.lower([narrow_candidate()])
    source = emit_c(batch, TASK.parameters, space.placed(candidate).offsets)
    compiled = compile_sources([source], tmp_path).run(0, TASK.features)
    definition = Simulator(TASK.program, TASK.parameters, TASK.features, Backend.NUMPY).run(batch)[0]
    np.testing.assert_array_equal(compiled, definition)
    np.testing.assert_array_equal(Simulator(TASK.program, TASK.parameters, TASK.features).run(batch)[0], definition)
    assert any(
        (codes != before).any()
        for (_, codes, _, _), (_, before, _, _) in zip(codes_of(batch), codes_of(rounded), strict=False)
    )


def test_only_precision_changes() -> None:
    space, candidate = FittedSpace(SPACE), narrow_candidate()
    rounded, said, fitted = (
        space.evaluate([given])[0].metrics
        for given in (candidate, {**candidate, CODES: ROUNDED}, {**candidate, CODES: FITTED})
    )
    assert rounded == said
    costs = SPACE.costs([candidate])[0]
    assert {name: fitted[name] for name in costs} == {name: rounded[name] for name in costs}
    assert fitted["expected_flips"] < rounded["expected_flips"]


def test_a_limit_that_codes_cannot_change_is_not_worth_a_fit() -> None:
    small = {d.name: next(o for o in d.options if str(o).startswith("int8@")) for d in SPACE.decisions}
    large = {d.name: d.options[0] for d in SPACE.decisions}
    most = int(SPACE.costs([small])[0]["flash_bytes"])
    limited = FittedSpace(ShiftrySpace(TASK, ShiftryOptions(flash_limit_bytes=most, narrow=True, finer=True)))
    measured = limited.evaluate([small, large])
    assert limited.finished(small, measured[0]) == {**small, CODES: FITTED}
    assert limited.finished(large, measured[1]) is None
    known = replace(measured[1], metrics={**measured[1].metrics, "flash_bytes": most})  # better than the space knows it
    assert limited.finished(large, known) == {**large, CODES: FITTED}


def test_refine_fits_few_candidates_and_ends_no_worse() -> None:
    plain = ShiftrySpace(TASK, ShiftryOptions(accuracy_drop=5.0))
    ranks = []
    for space in (plain, FittedSpace(plain)):
        study = Study(space, "refine", 1)
        study.run(InProcessExecutor(space), Budget(trials=500))
        ranks.append(study.front.best_rank)
        chosen = [trial.assignment.get(CODES) for trial in study.trials()]
    assert ranks[1] <= ranks[0]
    assert set(chosen) == {None, FITTED}
    assert chosen.count(FITTED) < len(chosen) // 20


def test_similar_inputs_are_near_samples_or_between_two() -> None:
    features = TASK.features
    made = similar_inputs(features, 60)
    np.testing.assert_array_equal(made, similar_inputs(features, 60))
    assert made.shape == (60, features.shape[1])
    between = made[30:]
    pairs = [(a, b) for a in range(len(features)) for b in range(len(features)) if a != b]
    first, second = features[[a for a, _ in pairs]], features[[b for _, b in pairs]]
    lengths = np.linalg.norm(first - second, axis=1)
    for row in between:
        excess = np.linalg.norm(row - first, axis=1) + np.linalg.norm(row - second, axis=1) - lengths
        assert excess.min() < 1e-9
    assert len(similar_inputs(features[:1], 5)) == 5


def test_codes_are_kept_by_the_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that lowers the candidate fits nothing; one that measures it does, as if nobody had; what is damaged counts for
    nothing."""
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path))
    candidate = {**narrow_candidate(), CODES: FITTED}
    first = FittedSpace(SPACE)
    measured = first.evaluate([candidate])

    def never(*_: object) -> None:
        raise AssertionError("fitted again")

    with monkeypatch.context() as patched:
        patched.setattr(CodeFitting, "encodings", never)
        again = FittedSpace(SPACE)
        codes = [array for _, array, _, _ in codes_of(first.lower([candidate]))]
        for before, (_, same, _, _) in zip(codes, codes_of(again.lower([candidate])), strict=True):
            np.testing.assert_array_equal(before, same)
        assert again.evaluate([candidate]) == measured
        with pytest.raises(AssertionError, match="again"):
            FittedSpace(SPACE).evaluate([candidate])
    for content in (b"", b"no bytes of ours", zlib.compress(bytes(8))):
        monkeypatch.setattr(EvaluationCache, "artefact", lambda *_, content=content: content)
        for before, (_, same, _, _) in zip(codes, codes_of(FittedSpace(SPACE).lower([candidate])), strict=True):
            np.testing.assert_array_equal(before, same)
