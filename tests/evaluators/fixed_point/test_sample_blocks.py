"""Which programs run more samples at once, and that it changes nothing but how long they take."""

from __future__ import annotations

import shlex
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.looped_steps import loop_steps
from kilotune.evaluators.compiled_library import find_compiler
from kilotune.evaluators.fixed_point import native
from kilotune.evaluators.fixed_point.kernel import load_kernel, load_wide_kernel
from kilotune.evaluators.fixed_point.margins import float_contest
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference_contest
from kilotune.evaluators.fixed_point.sample_blocks import (
    LANES,
    MANY_LANES,
    MOST_CACHED_BYTES,
    WORTH_RACING,
    filled,
    lanes_of_block,
)
from kilotune.experiments.models.catalogue import model_path
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, shiftry_batches

FIT = MOST_CACHED_BYTES // (2 * MANY_LANES)
"""Values of 16 bits that just fit."""


@pytest.mark.parametrize(
    ("samples", "values", "value_bytes", "work", "most_lanes", "lanes"),
    [
        (1200, FIT, 2, 1000, 128, MANY_LANES),
        (1200, FIT + 1, 2, 1000, 128, LANES),
        (1200, FIT // 2 + 1, 4, 1000, 128, LANES),
        (1200, FIT, 2, 1000, 64, LANES),
        (1200, 100, 2, WORTH_RACING // 1200 + 1, 128, LANES),
        (1200, 100, 2, WORTH_RACING // 1200, 128, MANY_LANES),
        (64, 100, 2, 1000, 128, LANES),
        (65, 100, 2, 1000, 128, MANY_LANES),
        (129, 100, 2, 1000, 128, LANES),
    ],
)
def test_few_values_and_enough_samples_make_larger_blocks(
    samples: int, values: int, value_bytes: int, work: int, most_lanes: int, lanes: int
) -> None:
    assert lanes_of_block(samples, values, value_bytes, work, most_lanes) == lanes


@given(st.integers(1, 10_000))
def test_no_more_than_a_tenth_of_the_samples_is_lost(samples: int) -> None:
    lanes = lanes_of_block(samples, 1, 2, 1, 128)
    assert 0 <= filled(samples, lanes) - samples < lanes
    assert filled(samples, lanes) <= 1.1 * filled(samples, LANES)


@needs_compiler
@pytest.mark.parametrize("name", ["protonn-digits", "fastgrnn32-digits", "bonsai-digits", "lenet-digits"])
def test_bundled_models_have_the_larger_blocks_where_vectors_are_long(name: str) -> None:
    bundle, kernel, wide = load_bundle(model_path(name)), load_kernel(), load_wide_kernel()
    assert bundle.train is not None
    assert kernel is not None
    assert wide is not None
    data = bundle.program, loop_steps(bundle.program), bundle.parameters, bundle.train.features
    assert NativeProgram(kernel, *data).lanes == (MANY_LANES if kernel.most_lanes >= MANY_LANES else LANES)
    assert NativeProgram(wide, *data).lanes == LANES


@needs_compiler
@given(model=random_models(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_blocks_of_any_size_give_the_same_outputs_and_sums(model: RandomModel, data: st.DataObject) -> None:
    batch, kernel, steps = data.draw(shiftry_batches(model.program)), load_kernel(), loop_steps(model.program)
    assert kernel is not None
    features = np.concatenate([model.features * share for share in np.linspace(0.1, 1, 150 // len(model.features) + 1)])
    contest = float_contest(model.program, model.parameters, features, steps)[1]
    made = []
    for lanes in (LANES, MANY_LANES):
        with mock.patch.object(native, "lanes_of_block", return_value=lanes):
            made.append(NativeProgram(kernel, model.program, steps, model.parameters, features, contest))
    assert [one.blocks for one in made] == [-(-len(features) // lanes) for lanes in (LANES, MANY_LANES)]
    if not made[0].supports(batch):
        return
    (few, sums), (many, same) = (one.run_contest(batch) for one in made)
    np.testing.assert_array_equal(few, many)
    assert sums == same
    if contest is not None:
        expected = run_reference_contest(batch, model.parameters, features, steps, contest)
        np.testing.assert_array_equal(many, expected[0])
        assert same == expected[1]


REFUSING = """#!/bin/sh
case "$*" in *{refused}*) echo "internal compiler error" >&2; exit 1;; esac
exec {compiler} "$@"
"""


@needs_compiler
@pytest.mark.parametrize(("refused", "made"), [(f"-DLANES={MANY_LANES}", True), (f"-DLANES={LANES}", False)])
def test_a_compiler_that_fails_at_large_blocks_makes_small_ones(
    refused: str, made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "refusing"
    compiler.write_text(REFUSING.format(refused=refused, compiler=shlex.join(find_compiler() or ())))
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", f"{compiler} -O0")
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "cache"))
    kernel = load_kernel.__wrapped__()
    assert (kernel is not None) == made
    if kernel is None:
        return
    assert kernel.most_lanes == LANES
    bundle = load_bundle(model_path("protonn-cancer"))
    assert bundle.train is not None
    native = NativeProgram(kernel, bundle.program, loop_steps(bundle.program), bundle.parameters, bundle.train.features)
    count = len(bundle.program.variables)
    outputs = native.run(ShiftryLowering(bundle.program, {0: 4.0}).lower([[16] * count], [[11] * count]))
    assert outputs.shape == (1, len(bundle.train.features), 1)
