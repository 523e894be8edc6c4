"""Rows that are remembered are those that lowering finds, whoever had them before."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed import known_rows, shiftry
from kilotune.codegen.fixed.known_rows import SCALE_AT_ZERO, VariableFormats, packed_formats, unpacked_formats
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from tests.abandoned import abandoned_everywhere
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.fixed.programs import HERE, program, shiftry_section_3, variable


def by_definition(rules: ShiftryLowering, bits: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and scales of candidates, all operations lowered one after the other."""
    reached, rows = scales, []
    for row in range(len(rules.operations)):
        made, reached = rules.lower_operation(
            row, VariableFormats(bits, scales, reached), np.zeros(len(bits), dtype=np.int64)
        )
        rows.append(made)
    return np.stack(rows, axis=1), reached


def same(left: FixedBatch, right: FixedBatch) -> bool:
    names = ("bits", "scales", "rows", "encoded")
    equal = all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)
    return equal and left.functions == right.functions


@given(model=random_models(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_rows_are_those_of_the_definition_however_many_are_kept(model: RandomModel, seed: int) -> None:
    random, count = np.random.default_rng(seed), len(model.program.variables)
    rules = ShiftryLowering(model.program, {0: 3.0})
    for most, looked_up in ((known_rows.MOST_KNOWN, 9), (0, 9), (known_rows.MOST_KNOWN, 8)):
        with mock.patch.multiple(known_rows, MOST_KNOWN=most, MOST_LOOKED_UP=looked_up):
            for _ in range(3):  # later ones meet what earlier ones have left
                bits = random.choice([8, 16, 32] if seed % 2 else [8, 16], (9, count))
                scales = bits - 3 + random.integers(-3, 4, (9, count))
                batch = rules.lower(bits, scales)
                rows, reached = by_definition(rules, bits, scales)
                assert np.array_equal(batch.rows, rows)
                assert np.array_equal(batch.scales, reached)
                assert np.array_equal(batch.bits, bits)
                assert batch.rows.flags.c_contiguous


def test_an_operation_is_lowered_once_for_the_same_formats() -> None:
    rules = ShiftryLowering(shiftry_section_3()[0], {})
    bits, scales = np.full((3, 9), 16), np.full((3, 9), 12)
    scales[1, -1] = 11  # of the last result: only its own operation has to be lowered again
    lowered: list[int] = []

    def counted(
        self: ShiftryLowering, row: int, formats: VariableFormats, sums: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        lowered.extend([row] * len(sums))
        return shiftry._OneOperation(self, row, formats, sums).run()

    with mock.patch.object(ShiftryLowering, "lower_operation", counted):
        first = rules.lower(bits, scales)
        assert lowered == [0, 1, 2, 3, 3]
        assert same(rules.lower(bits, scales), first)
        assert lowered == [0, 1, 2, 3, 3]


def test_of_large_batches_nothing_is_kept() -> None:
    """Their rows are computed together in less time than they would be looked up, and there may be many of them."""
    rules, many = ShiftryLowering(shiftry_section_3()[0], {}), known_rows.MOST_LOOKED_UP + 1
    bits = np.full((many, 9), 16)
    with mock.patch.object(
        ShiftryLowering, "lower_operation", autospec=True, side_effect=ShiftryLowering.lower_operation
    ) as lower:
        large = rules.lower(bits, bits - 4)
        assert lower.call_count == 4
        assert same(rules.lower(bits[:1], bits[:1] - 4), large.one(0))
        assert lower.call_count == 8


@pytest.mark.parametrize("looked_up", [2, 1])
def test_widths_of_sums_are_told_apart(monkeypatch: pytest.MonkeyPatch, looked_up: int) -> None:
    monkeypatch.setattr(known_rows, "MOST_LOOKED_UP", looked_up)
    rules = ShiftryLowering(shiftry_section_3()[0], {})
    bits, scales = np.full((2, 9), 8), np.full((2, 9), 5)
    usual = rules.lower(bits, scales)
    sums = np.array([[0, 0, 0, 0], [32, 0, 0, 0]])
    asked = rules.lower(bits, scales, sum_bits=sums)
    assert asked.rows[:, 0, 1].tolist() == [16, 32]
    assert np.array_equal(asked.rows[0], usual.rows[0])
    assert same(rules.lower(bits, scales), usual)


def test_an_operation_of_a_single_variable() -> None:
    filled = program("filled", [variable("y", (1, 1))], (), "y")
    filled = ir.Program(
        filled.name, filled.variables, (ir.Fill(filled.result, HERE, 0.75),), filled.result, filled.result_kind
    )
    batch = ShiftryLowering(filled, {}).lower([[8], [16], [8]], [[7], [14], [3]])
    assert batch.rows[:, 0, 7].tolist() == [96, 12288, 6]
    assert batch.scales[:, 0].tolist() == [7, 14, 3]


def test_formats_as_numbers() -> None:
    scales = np.array([[-1075, 0, SCALE_AT_ZERO - 1, 1 - SCALE_AT_ZERO]])
    formats = VariableFormats(np.array([[1, 8, 16, 32]]), scales, scales[:, ::-1])
    found = unpacked_formats(packed_formats(formats))
    assert [found.bits.tolist(), found.wanted.tolist()] == [[[1, 8, 16, 32]], scales.tolist()]
    assert found.scales.tolist() == scales[:, ::-1].tolist()
    with pytest.raises(OverflowError, match="digits"):
        packed_formats(VariableFormats(formats.bits, scales, scales - 1))


def test_what_travels_to_another_process_lowers_alike() -> None:
    rules = ShiftryLowering(shiftry_section_3()[0], {})
    bits, scales = np.full((2, 9), 16), np.array([[12] * 9, [9] * 9])
    first = rules.lower(bits, scales)
    assert same(pickle.loads(pickle.dumps(rules)).lower(bits, scales), first)


@pytest.mark.parametrize("most", [known_rows.MOST_KNOWN, 0])
def test_a_call_that_was_abandoned_anywhere_leaves_no_wrong_rows(most: int) -> None:
    """After a search has been abandoned, its space lowers what is delivered."""
    program = shiftry_section_3()[0]
    choices = [np.full((3, 9), 16), np.full((3, 9), 8)]
    choices[0][1:, 5], choices[1][1, 5:] = 8, 16
    expected = [ShiftryLowering(program, {}).lower(bits, bits - 4) for bits in choices]
    made: list[ShiftryLowering] = []

    def begin() -> Callable[[], FixedBatch]:
        made.append(ShiftryLowering(program, {}))
        made[-1].lower(choices[0][:1], choices[0][:1] - 4)
        return lambda: made[-1].lower(choices[0], choices[0] - 4)

    with mock.patch.object(known_rows, "MOST_KNOWN", most):
        for _ in abandoned_everywhere(known_rows, begin):
            for bits, batch in zip(reversed(choices), reversed(expected), strict=True):
                assert same(made[-1].lower(bits, bits - 4), batch)
    assert len(made) > 100
