"""A candidate that means what another one meant does not run again, and nobody can tell by what comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.looped_steps import loop_steps
from kilotune.evaluators.fixed_point import formatted, known_runs
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.known_runs import KnownRuns, row_keys
from kilotune.evaluators.fixed_point.margins import float_contest
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from kilotune.evaluators.fixed_point.running_batch import RunningBatch
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, shiftry_batches
from tests.codegen.fixed.programs import HERE, variable


def runs_of(*numbers: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.array(numbers)[:, None, None]
    return np.repeat(values, 5, axis=1).astype(np.int16), np.repeat(values, 3, axis=1)


def test_the_oldest_runs_go_where_there_is_no_room() -> None:
    runs, size = KnownRuns(), 1 + 10 + 24
    with mock.patch.object(known_runs, "MOST_KNOWN_BYTES", 3 * size):
        runs.add([b"0", b"1", b"1"], *runs_of(0, 1, -1))
        runs.add([b"2", b"3", b"4", b"4"], *runs_of(2, 3, 4, -1))
        found = runs.find([b"4", b"0", b"2", b"1", b"3"])
        assert {place: int(run.outputs[0, 0]) for place, run in found.items()} == {0: 4, 2: 2, 4: 3}
        assert int(found[2].margin_sums[0, 0]) == 2
        runs.add([b"x"], np.zeros((1, 3 * size, 1), dtype=np.int16), np.zeros((1, 3, 1), dtype=np.int64))
        assert len(runs.find([b"2", b"3", b"4", b"x"])) == 3


def test_keys_are_all_columns_of_a_row() -> None:
    first, second = np.arange(12, dtype=np.int32).reshape(2, 3, 2), np.array([[7], [1 << 40]])
    keys = row_keys(b"end", first, second)
    assert keys == [bytes(first[i]) + bytes(second[i]) + b"end" for i in range(2)]
    assert row_keys(b"", first[:0], second[:0]) == []


@needs_compiler
@given(model=random_models(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_what_has_run_before_comes_out_again(model: RandomModel, data: st.DataObject) -> None:
    kernel, steps = load_kernel(), loop_steps(model.program)
    assert kernel is not None
    contest = float_contest(model.program, model.parameters, model.features, steps)[1]
    made = NativeProgram(kernel, model.program, steps, model.parameters, model.features, contest)
    batches = [data.draw(shiftry_batches(model.program)) for _ in range(2)]
    with mock.patch.object(formatted, "MOST_INPUT_BYTES", data.draw(st.sampled_from([0, 1 << 20]))):
        for batch in (*batches, *batches):
            if not made.supports(batch):
                continue
            outputs, sums = made.run_contest(batch)
            np.testing.assert_array_equal(outputs, run_reference(batch, model.parameters, model.features, steps))
            if contest is not None:
                assert sums == run_reference_contest(batch, model.parameters, model.features, steps, contest)[1]
            outputs[:] = 99  # it is the caller's


X, W, A = variable("X", (1, 4), ir.Role.INPUT), variable("W", (1, 4), ir.Role.PARAMETER), variable("a", (1, 4))
SUM = ir.Add(ir.whole(A), HERE, ir.whole(X), ir.whole(W))


@needs_compiler
def test_only_what_is_not_known_runs() -> None:
    program = ir.Program("steps", (X, W, A), (SUM,), ir.whole(A), ir.ResultKind.REAL)
    kernel, features = load_kernel(), np.linspace(-1, 1, 400).reshape(100, 4)
    assert kernel is not None
    made = NativeProgram(kernel, program, loop_steps(program), {"W": np.linspace(0, 1, 4)}, features)
    first, asked = ShiftryLowering(program, {}).lower([[16, 16, 16]], [[13, 13, 13]]), []
    go_on = RunningBatch.go_on

    def noted(self: RunningBatch, candidates: Sequence[int], end_block: int) -> None:
        asked.append(list(candidates))
        go_on(self, candidates, end_block)

    others: list[dict[str, Any]] = [
        {},
        {"scales": first.scales - np.array([[1, 0, 0]], dtype=np.int32)},
        {"scales": first.scales - np.array([[0, 1, 0]], dtype=np.int32)},
        {"bits": first.bits - np.array([[8, 0, 0]], dtype=np.int32)},
        {"rows": first.rows + 1},
        {"rounding": Rounding.FLOOR},
    ]
    with mock.patch.object(RunningBatch, "go_on", noted):
        for other in others:
            made.run(dataclasses.replace(first, **other))
        made.run(first)
    assert asked == [[0]] * len(others) + [[]]
