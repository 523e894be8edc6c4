"""Codes of weights trained with the labels: what is gained, that it is the same each time, and that it is what is emitted."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir, looped_steps
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from kilotune.search.space import Assignment
from kilotune.spaces.shiftry import trained_codes
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_codes import with_encodings
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, ROUNDED, SHORTER, TRAINED, FittedSpace
from kilotune.spaces.shiftry.format_values import ROOM, FormatValues
from kilotune.spaces.shiftry.space import ShiftrySpace
from kilotune.spaces.shiftry.trained_codes import CodeTraining, why_not_trained
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.fixed.programs import HERE
from tests.spaces.small_network import small_network

TASK = small_network(13)
SPACE = ShiftrySpace(TASK, ShiftryOptions(accuracy_drop=5.0, narrow=True, finer=True))


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained_codes, "STEPS", 600)


def candidate_of(space: ShiftrySpace, widths: dict[str, str], others: str = "int8@") -> Assignment:
    """The first option of each variable that begins like that."""
    return {
        d.name: next(str(o) for o in d.options if str(o).startswith(widths.get(d.name, others)))
        for d in space.decisions
    }


NARROW = candidate_of(SPACE, {"W": "int3@", "F": "int3@", "U": "int2@", "B": "int16@"})


def unlike(task: Task) -> Task:
    """Other labels for half of the samples, by which side of a plane they are on: what the float model was not trained for."""
    assert task.targets is not None
    labels = np.where(task.features[:, 0] > 0.0, task.targets, (task.features @ np.ones(task.features.shape[1])) > 0)
    return replace(task, targets=labels.astype(np.float64))


def accuracy(space: ShiftrySpace, batch: FixedBatch) -> float:
    return space.evaluator.measure(batch)[0]["accuracy_percent"]


def test_trained_codes_are_right_more_often_by_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """By labels that the float model does not have, so that it is seen that they are learnt, and not the float model."""
    monkeypatch.setattr(trained_codes, "STEPS", 3000)
    monkeypatch.setattr(trained_codes, "MUCH", (0.1, 0.1))
    space = ShiftrySpace(unlike(TASK), SPACE.options)
    rounded = space.lower([NARROW])
    trained = with_encodings(rounded, [CodeTraining(space).encodings(rounded)])
    assert accuracy(space, trained) > accuracy(space, rounded) + 5.0


def test_biases_of_16_bits_are_trained_too() -> None:
    space = ShiftrySpace(unlike(TASK), SPACE.options)
    rounded = space.lower([NARROW])
    column = [v.name for v in TASK.program.variables].index("B")
    training = CodeTraining(space)
    given, trained = training.given(rounded)[column], training.encodings(rounded)[column]
    assert given.width == trained.width == 16
    values, scale = TASK.parameters["B"], int(rounded.scales[0, column])
    np.testing.assert_array_equal(given.integers(values, scale), rounded.integers(0, column, values))
    assert (given.integers(values, scale) != trained.integers(values, scale)).any()


def test_only_codes_change() -> None:
    space = FittedSpace(SPACE, (TRAINED,))
    rounded, said, trained = (
        space.evaluate([given])[0].metrics for given in (NARROW, {**NARROW, CODES: ROUNDED}, {**NARROW, CODES: TRAINED})
    )
    assert rounded == said
    costs = SPACE.costs([NARROW])[0]
    assert {name: trained[name] for name in costs} == {name: rounded[name] for name in costs}
    assert trained["expected_flips"] != rounded["expected_flips"]


@needs_compiler
def test_emitted_c_has_the_trained_codes(tmp_path: Path) -> None:
    space = FittedSpace(SPACE, (FITTED, TRAINED))
    candidate = {**NARROW, CODES: TRAINED}
    batch = space.lower([candidate])
    source = emit_c(batch, TASK.parameters, space.placed(candidate).offsets)
    compiled = compile_sources([source], tmp_path).run(0, TASK.features)
    definition = Simulator(TASK.program, TASK.parameters, TASK.features, Backend.NUMPY).run(batch)[0]
    np.testing.assert_array_equal(compiled, definition)
    np.testing.assert_array_equal(Simulator(TASK.program, TASK.parameters, TASK.features).run(batch)[0], definition)


SAME = """
import numpy as np
from tests.spaces.shiftry import test_trained_codes as here
here.trained_codes.STEPS = 600
found = here.CodeTraining(here.SPACE).encodings(here.SPACE.lower([here.NARROW]))
print([found[column].given.codes.tolist() for column in sorted(found)])
"""


def test_training_is_the_same_with_other_kernels_of_numpy() -> None:
    """With those of an older processor, whose sums end in other digits, in another process."""
    found = CodeTraining(SPACE).encodings(SPACE.lower([NARROW]))
    codes = []
    for column in sorted(found):
        given = found[column].given
        assert given is not None
        codes.append(given.codes.tolist())
    for older in ({"OPENBLAS_CORETYPE": "Prescott"}, {"NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3 AVX512F AVX2 FMA3"}):
        environment = {**os.environ, **older, "OPENBLAS_NUM_THREADS": "1"}
        run = subprocess.run([sys.executable, "-c", SAME], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == str(codes)


@pytest.mark.parametrize("samples", [1, 24])
def test_samples_that_take_much_memory_run_one_after_the_other(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, rounded = CodeTraining(SPACE), SPACE.lower([NARROW])
    together = [one.given for one in whole.encodings(rounded).values()]
    assert len(whole.blocks) == 1
    read = sum(s.elements.size for step in whole.steps for s in step.sources if s.variable not in TASK.parameters)
    at_once = max(whole.steps.elements_at_once, read)
    monkeypatch.setattr(looped_steps, "BLOCK_BYTES", 8 * samples * at_once)
    pieces = CodeTraining(SPACE)
    assert max(block.stop - block.start for block in pieces.blocks) <= samples
    for one, other in zip(together, pieces.encodings(rounded).values(), strict=True):
        assert one is not None
        assert other.given is not None
        np.testing.assert_array_equal(one.codes, other.given.codes)


def test_codes_of_both_kinds_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that lowers both has each again."""
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path))
    candidates = [{**NARROW, CODES: way} for way in (FITTED, TRAINED)]
    first = FittedSpace(SPACE, (FITTED, TRAINED))
    made = [first.evaluate([one])[0].metrics for one in candidates]
    assert made[0] != made[1]
    monkeypatch.setattr(CodeTraining, "encodings", None)
    again = FittedSpace(SPACE, (FITTED, TRAINED))
    runs = [Simulator(TASK.program, TASK.parameters, TASK.features) for _ in candidates]
    for run, one in zip(runs, candidates, strict=True):
        np.testing.assert_array_equal(run.run(again.lower([one])), run.run(first.lower([one])))


def test_codes_of_both_kinds_are_decisions() -> None:
    for ways in ((FITTED,), (TRAINED,), (FITTED, TRAINED)):
        space = FittedSpace(SPACE, ways)
        state = space.start()
        for decision in SPACE.decisions:
            state = state.take(decision.options[0])
        assert state.decision is not None
        assert state.decision.options == (ROUNDED, *ways, *(SHORTER if TRAINED in ways else ()))
        measured = SPACE.evaluate([NARROW])[0]
        finished = space.finished(NARROW, measured)
        assert (finished is None) == (FITTED not in ways)
    plain = [FittedSpace(SPACE, ways).fingerprint for ways in ((FITTED,), (TRAINED,), (FITTED, TRAINED))]
    assert len(set(plain)) == 3
    with pytest.raises(ValueError, match="one at a time"):
        FittedSpace(SPACE, (TRAINED,)).lower([{**NARROW, CODES: TRAINED}, NARROW])


def test_values_that_leave_their_format_are_clipped_and_pushed_back() -> None:
    """In 8 bits at scale 4 the range is -8 to 7.9375: beyond a share of it a push away, beyond itself no gradient."""
    batch = SPACE.lower([NARROW])
    names = [v.name for v in batch.program.variables]
    place = names.index("scores")
    bits, scales = batch.bits.copy(), batch.scales.copy()
    bits[0, place], scales[0, place] = 8, 4
    values = FormatValues(replace(batch, bits=bits, scales=scales), samples=5)
    steps = [step for step in CodeTraining(SPACE).steps if step.operation.out.variable == "scores"]
    computed = np.array([[0.03, -0.1], [7.1, 7.5], [9.0, -8.6]])
    values.begin()
    held = values.stored(steps[0], computed)
    np.testing.assert_array_equal(held, [[0.0, -0.125], [7.125, 7.5], [7.9375, -8.0]])
    passed = values.passed_on(0, np.ones((3, 2)))
    push = 1.0 / (8.0 * 5)
    assert pytest.approx(7.2) == ROOM * 8.0
    np.testing.assert_allclose(passed, [[1.0, 1.0], [1.0, 1.0 + push], [push, -push]])
    values.begin()
    inside = computed[:2] / 2
    values.stored(steps[0], inside)
    np.testing.assert_array_equal(values.passed_on(0, inside), inside)


def test_samples_are_nearer_to_themselves_where_much_noise_loses_training_accuracy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which of the two is taken is seen by training with either alone, when no single codes are moved afterwards."""
    monkeypatch.setattr(trained_codes, "descended", lambda formats, batch, encodings, most_runs: encodings)
    rounded, training = SPACE.lower([NARROW]), CodeTraining(SPACE)

    def right(much: tuple[float, float], little: tuple[float, float]) -> float:
        monkeypatch.setattr(trained_codes, "MUCH", much)
        monkeypatch.setattr(trained_codes, "LITTLE", little)
        return accuracy(SPACE, with_encodings(rounded, [training.encodings(rounded)]))

    far, near = (3.0, 3.0), (0.0, 0.1)
    alone = [right(noise, noise) for noise in (far, near)]
    assert alone[0] < alone[1] < 100.0
    assert right(far, near) == right(near, far) == alone[1]
    float_metrics = {**SPACE.evaluator.float_metrics, "accuracy_percent": alone[0]}
    monkeypatch.setattr(type(SPACE.evaluator), "float_metrics", float_metrics)
    assert right(far, near) == alone[0], "as right as the float model is right enough"


def test_what_is_too_large_keeps_its_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded, training = SPACE.lower([NARROW]), CodeTraining(SPACE)
    multiplies = sum(n for name, n in SPACE.costs([NARROW])[0].items() if name.startswith("multiplies"))
    for steps, is_trained in ((trained_codes.LEAST_STEPS - 1, False), (trained_codes.LEAST_STEPS, True)):
        monkeypatch.setattr(trained_codes, "MOST_PRODUCTS", (steps + 0.5) * trained_codes.BATCH * multiplies)
        batches = [with_encodings(rounded, [given]) for given in (training.encodings(rounded), training.given(rounded))]
        found, kept = (SPACE.evaluator.measure(batch)[0]["expected_flips"] for batch in batches)
        assert (found != kept) == is_trained


def test_what_cannot_be_trained_says_why() -> None:
    assert why_not_trained(TASK) is None
    assert TASK.targets is not None
    result = replace(TASK.program, body=TASK.program.body[:-1], result=ir.whole(TASK.program.variable("scores")))
    numbers = replace(TASK, program=replace(result, result_kind=ir.ResultKind.REAL))
    assert "no class" in str(why_not_trained(numbers))
    assert "no labels" in str(why_not_trained(replace(TASK, targets=None)))
    assert "numbers of its 3 scores" in str(why_not_trained(replace(TASK, targets=TASK.targets + 2.0)))
    assert "not of two classes" in str(why_not_trained(replace(TASK, targets=np.ones_like(TASK.targets))))
    rows = ir.NormaliseL2(ir.whole(TASK.program.variable("e")), HERE, ir.whole(TASK.program.variable("e")))
    body = (*TASK.program.body[:-2], rows, *TASK.program.body[-2:])
    assert "derivative" in str(why_not_trained(replace(TASK, program=replace(TASK.program, body=body))))
    with pytest.raises(ValueError, match="--trained: expected a model whose codes can be trained, found small: its"):
        FittedSpace(ShiftrySpace(replace(TASK, targets=None), SPACE.options), (TRAINED,))


@pytest.mark.parametrize(("most", "taken"), [(41.0, 41), (1e9, 600)])
def test_programs_of_many_operations_are_trained_in_fewer_steps(
    most: float, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is on the operations of all steps."""
    rounded, training = SPACE.lower([NARROW]), CodeTraining(SPACE)
    monkeypatch.setattr(trained_codes, "MOST_OPERATIONS", most * len(training.steps))
    monkeypatch.setattr(trained_codes, "LEAST_STEPS", 10)
    monkeypatch.setattr(trained_codes, "LITTLE", trained_codes.MUCH)
    counted = []
    summed = trained_codes.summed_gradients
    monkeypatch.setattr(
        trained_codes,
        "summed_gradients",
        lambda *given: counted.append(1) or summed(*given),  # type: ignore[func-returns-value]
    )
    monkeypatch.setattr(type(SPACE.evaluator), "float_metrics", {"accuracy_percent": 0.0})
    training.encodings(rounded)
    assert len(counted) == taken


def test_programs_of_too_many_operations_are_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    executed = len(CodeTraining(SPACE).steps)
    monkeypatch.setattr(trained_codes, "MOST_EXECUTED", executed)
    assert why_not_trained(TASK) is None
    monkeypatch.setattr(trained_codes, "MOST_EXECUTED", executed - 1)
    assert (
        why_not_trained(TASK) == f"it executes {executed} operations a sample, and at most {executed - 1} are trained"
    )
