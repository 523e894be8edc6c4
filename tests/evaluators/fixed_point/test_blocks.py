"""Samples run in blocks, so that memory does not grow with them, and what comes out is what all of them together give."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import dataset, ir, looped_steps
from kilotune.codegen.array_files import BLOCK_ELEMENTS
from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import load_dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from kilotune.codegen.looped_steps import loop_steps, sample_blocks
from kilotune.codegen.profile import Profile, profile
from kilotune.evaluators.fixed_point import compiled_steps, formatted, measuring, native
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.margins import Contest, float_contest
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Task
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from kilotune.experiments.models.catalogue import model_path
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, shiftry_batches
from tests.codegen.fixed.programs import HERE, variable


@contextmanager
def blocks_of(size_bytes: int) -> Iterator[None]:
    with mock.patch.object(looped_steps, "BLOCK_BYTES", size_bytes):
        yield


def model(name: str) -> Bundle:
    return load_bundle(model_path(name))


def contested(bundle: Bundle) -> tuple[np.ndarray, Contest]:
    assert bundle.train is not None
    run, contest = float_contest(bundle.program, bundle.parameters, bundle.train.features, loop_steps(bundle.program))
    assert contest is not None
    return run.outputs, contest


def profiled(bundle: Bundle) -> Profile:
    assert bundle.train is not None
    return profile(bundle.program, bundle.parameters, bundle.train.features)[0]


def test_bundled_models_run_in_one_piece() -> None:
    """So their profiles are, to the last bit, what they have always been: the sums of a matrix product depend on its size."""
    for name in ("lenet-digits", "fastgrnn32-digits"):
        bundle = model(name)
        assert bundle.train is not None
        assert len(list(sample_blocks(loop_steps(bundle.program).elements_at_once, len(bundle.train.features)))) == 1


def test_blocks_are_all_samples_once_and_about_equal() -> None:
    program = model("lenet-digits").program
    with blocks_of(1 << 19):
        blocks = [range(100)[block] for block in sample_blocks(loop_steps(program).elements_at_once, 100)]
    assert [sample for block in blocks for sample in block] == list(range(100))
    sizes = {len(block) for block in blocks}
    assert len(blocks) > 3
    assert max(sizes) - min(sizes) <= len(blocks)
    assert [*sample_blocks(loop_steps(program).elements_at_once, 0)] == []


@pytest.mark.parametrize("name", ["protonn-cancer", "bonsai-digits"])
def test_the_float_program_and_its_margins(name: str) -> None:
    bundle = model(name)
    outputs, contest = contested(bundle)
    whole = profiled(bundle)
    with blocks_of(1 << 14):
        in_blocks, same = contested(bundle)
        seen = profiled(bundle)
    np.testing.assert_array_equal(in_blocks, outputs)
    np.testing.assert_array_equal(same.leaders, contest.leaders)
    np.testing.assert_array_equal(same.rivals, contest.rivals)
    np.testing.assert_allclose(same.margins, contest.margins, rtol=1e-9, atol=1e-12)
    for name in whole.minimum:
        found, expected = (
            (seen.minimum[name], seen.maximum[name]),
            (whole.minimum[name], whole.maximum[name]),
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert seen.exponents.keys() == whole.exponents.keys()
    for row, values in whole.exponents.items():
        np.testing.assert_allclose(seen.exponents[row], values, rtol=1e-9, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(random_models(), st.data())
def test_integers_are_the_same_to_the_last_bit(random: object, data: st.DataObject) -> None:
    program, parameters, features = random.program, random.parameters, random.features  # type: ignore[attr-defined]
    steps = loop_steps(program)
    batch = data.draw(shiftry_batches(program))
    contest = float_contest(program, parameters, features, steps)[1]
    expected = run_reference(batch, parameters, features, steps)
    sums = None if contest is None else run_reference_contest(batch, parameters, features, steps, contest)[1]
    with blocks_of(1):
        np.testing.assert_array_equal(run_reference(batch, parameters, features, steps), expected)
        if contest is not None:
            assert run_reference_contest(batch, parameters, features, steps, contest)[1] == sums


@needs_compiler
@settings(max_examples=20, deadline=None)
@given(random_models(), st.data())
def test_the_kernel_reads_features_that_were_laid_out_in_pieces_and_forgotten(
    random: object, data: st.DataObject
) -> None:
    program, parameters = random.program, random.parameters  # type: ignore[attr-defined]
    features = np.repeat(random.features, 30, axis=0)  # type: ignore[attr-defined]
    steps = loop_steps(program)
    kernel = load_kernel()
    assert kernel is not None
    with mock.patch.object(formatted, "QUANTISED_TOGETHER", 1), mock.patch.object(formatted, "MOST_INPUT_BYTES", 0):
        made = NativeProgram(kernel, program, steps, parameters, features)
        for _ in range(3):
            batch = data.draw(shiftry_batches(program))
            if made.supports(batch):
                expected = run_reference(batch, parameters, features, steps)
                np.testing.assert_array_equal(made.run(batch), expected)


def test_a_batch_that_is_too_large_is_measured_in_parts() -> None:
    bundle = model("protonn-cancer")
    assert bundle.train is not None
    targets = np.asarray(bundle.train.targets, dtype=np.float64)
    space = ShiftrySpace(Task(bundle.program, bundle.parameters, bundle.train.features, targets))
    first = {decision.name: decision.options[0] for decision in space.decisions}
    batch = [{**first, decision.name: option} for decision in space.decisions for option in decision.options]
    whole = space.evaluate(batch)
    with (
        mock.patch.object(measuring, "MOST_MEASURED_BYTES", 1),
        mock.patch.object(
            FixedPointEvaluator, "measure", autospec=True, side_effect=FixedPointEvaluator.measure
        ) as calls,
    ):
        assert space.evaluate(batch) == whole
    assert calls.call_count > len(batch)


def peak_bytes() -> int:
    return tracemalloc.get_traced_memory()[1]


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_a_profile_does_not_keep_every_value_of_every_sample(traced: None) -> None:
    """Together they take 50 MB."""
    bundle = model("lenet-digits")
    tracemalloc.reset_peak()
    with blocks_of(1 << 20):
        profiled(bundle)
    assert peak_bytes() < 12 << 20


@pytest.mark.parametrize(("suffix", "rows"), [("npy", 200_000), ("csv", 20_000)])
def test_a_table_of_samples_is_there_once(suffix: str, rows: int, traced: None, tmp_path: Path) -> None:
    features, block_bytes = 40, 8 * BLOCK_ELEMENTS
    table = np.random.default_rng(0).integers(0, 3, (rows, features + 1)).astype(np.float32)
    path = tmp_path / f"train.{suffix}"
    if suffix == "npy":
        np.save(path, table)
    else:
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in table.astype(int).tolist()))
    expected = table[:, 1:].astype(np.float64), table[:, 0].astype(np.int64)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    made = load_dataset(path, features, 3)
    whole_bytes = 8 * rows * (features + 1)
    assert peak_bytes() - before < 1.4 * whole_bytes + min(2 * block_bytes, whole_bytes)
    np.testing.assert_array_equal(made.features, expected[0])
    np.testing.assert_array_equal(made.targets, expected[1])


def test_too_many_samples_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.npy"
    np.save(path, np.zeros((5, 3)))
    with (
        mock.patch.object(dataset, "MOST_SAMPLES", 4),
        pytest.raises(InputError, match="expected at most 4 samples, found 5"),
    ):
        load_dataset(path, 2, 3)
    with mock.patch.object(dataset, "MOST_SAMPLES", 5):
        assert len(load_dataset(path, 2, 3).features) == 5


@needs_compiler
@given(model=random_models(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_temporaries_that_share_places_compute_what_they_do_apart(model: RandomModel, data: st.DataObject) -> None:
    batch, kernel, steps = data.draw(shiftry_batches(model.program)), load_kernel(), loop_steps(model.program)
    assert kernel is not None
    apart = NativeProgram(kernel, model.program, steps, model.parameters, model.features)
    with mock.patch.object(native, "MOST_STORAGE_BYTES", 0):
        together = NativeProgram(kernel, model.program, steps, model.parameters, model.features)
        taken = native.block_storage(steps)
    if apart.supports(batch):
        np.testing.assert_array_equal(together.run(batch), apart.run(batch))
    assert taken[2]
    assert taken[1] <= native.block_storage(steps)[1]


def test_a_program_of_many_layers_holds_two_of_them() -> None:
    names = ["X", *(f"v{k}" for k in range(20))]
    made = [variable(name, (100,), ir.Role.INPUT if name == "X" else ir.Role.TEMPORARY) for name in names]
    body = tuple(ir.Relu(ir.whole(b), HERE, ir.whole(a)) for a, b in pairwise(made))
    program = ir.Program("layers", tuple(made), body, ir.whole(made[-1]), ir.ResultKind.REAL)
    assert native.block_storage(loop_steps(program))[1:] == (2000, False)
    with mock.patch.object(native, "MOST_STORAGE_BYTES", 0):
        assert native.block_storage(loop_steps(program))[1:] == (200, True)


LOOPED_WEIGHTS = """
let X = (6, 1) in [-1.0, 1.0] in
let W = (4, 3, 2, 2) in [-1.0, 1.0] in
let h = init([2, 1], 0.1) in
let out = init([4, 6], 0.0) in
let done = loop(i = [0:4], out) (
  let layer = W[i] in
  let inside = loop(j = [0:3], out) (
    let given = X[2*j:+2][0:+1] in
    let out[i:+1][2*j:+2] = reshape(layer[j] * given, (1, 2), (1, 2)) in
    out
  ) in
  out
) in
argmax(out)
"""


@needs_compiler
@pytest.mark.parametrize("most_packed", [1 << 20, 4])
def test_weights_and_labels_that_move_with_loops(most_packed: int) -> None:
    """Weights of every round are packed, or read one by one where they are too many."""
    program = elaborate(parse(LOOPED_WEIGHTS, "looped.sd"), "looped")
    rng = np.random.default_rng(0)
    parameters, features = {"W": rng.uniform(-1, 1, (4, 3, 2, 2))}, rng.uniform(-1, 1, (100, 6))
    kernel, steps = load_kernel(), loop_steps(program)
    assert kernel is not None
    contest = float_contest(program, parameters, features, steps)[1]
    assert contest is not None
    with mock.patch.object(compiled_steps, "MOST_PACKED", most_packed):
        made = NativeProgram(kernel, program, steps, parameters, features, contest)
    assert (made.pack_count == 12) == (most_packed > 4)
    bits = np.full((2, len(program.variables)), 16)
    bits[1] = 8
    batch = ShiftryLowering(program, {}).lower(bits, bits - 3)
    outputs, sums = made.run_contest(batch)
    expected = run_reference_contest(batch, parameters, features, steps, contest)
    np.testing.assert_array_equal(outputs, expected[0])
    assert sums == expected[1]
    assert len(np.unique(outputs)) > 5
