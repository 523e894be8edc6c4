"""What sparse matrices take and do: non-zeros are stored and multiplied, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column
from kilotune.evaluators.fixed_point import measuring
from kilotune.evaluators.fixed_point.measuring import Task
from tests.codegen.fixed.programs import HERE, program, variable

ROWS = np.array([[0.0, 0.5, 0.0, 0.0, 0.25, 0.0, 0.0, -0.5], [0.0] * 8, [0.0, 0.0, 0.75, 0.0, 0.0, 0.0, 0.0, 0.0]])
"""Three, no and one value that is not zero."""


def product(sparse: bool, rounds: int = 1) -> ir.Program:
    """y = A |*| X, as often as that."""
    stored = ir.Variable("A", ROWS.shape, ir.Role.PARAMETER, HERE, sparse=sparse)
    variables = [variable("X", (8, 1), ir.Role.INPUT), stored, variable("y", (3, 1))]
    v = {x.name: ir.whole(x) for x in variables}
    body: tuple[ir.Statement, ...] = (ir.MatMul(v["y"], HERE, v["A"], v["X"], sparse=True),)
    return program("sparse", variables, body if rounds == 1 else (ir.Loop("t", 0, rounds, body, HERE),), "y")


@pytest.mark.parametrize("rounds", [1, 5])
def test_products_and_sums_of_non_zeros_are_counted(rounds: int) -> None:
    """Three values of a row are three products and two sums, of one no sum, of none nothing."""
    for sparse, (multiplies, adds) in ((True, (4, 2)), (False, (24, 21))):
        made = product(sparse, rounds)
        batch = ShiftryLowering(made, {}).lower([[16] * 3, [8] * 3], [[14] * 3, [6] * 3])
        counts = Footprint(made, {"A": ROWS}).operation_counts(batch)
        assert counts["multiplies_32"].tolist() == [rounds * multiplies, 0]
        assert counts["multiplies_16"].tolist() == [0, rounds * multiplies]
        assert counts["adds_32"].tolist() == [rounds * adds, 0]
        assert sum(int(count.sum()) for count in counts.values()) == 2 * rounds * (multiplies + adds)


@pytest.mark.parametrize("width", [16, 8, 4, 2])
@pytest.mark.parametrize("values", [ROWS, np.zeros_like(ROWS)], ids=["some", "none"])
def test_the_flash_of_sparse_matrices_is_that_of_the_emitted_arrays(values: np.ndarray, width: int) -> None:
    made, bits = product(True), max(width, 8)
    codes = (ParameterEncoding(width),) if width < 8 else ()
    encoded = np.array([[-1, 0, -1]], dtype=np.int32) if codes else None
    batch = ShiftryLowering(made, {}).lower([[16, bits, 16]], [[14, 1, 14]], encoded, codes)
    claimed = int(Footprint(made, {"A": values}).flash_bytes(batch.stored_bits)[0])
    assert emit_c(batch, {"A": values}).constant_bytes["A"] == claimed


def test_studies_of_programs_without_sparse_matrices_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they have measured still holds; products of sparse matrices were counted otherwise."""

    def fingerprint(sparse: bool) -> str:
        return Task(product(sparse), {"A": ROWS}, np.zeros((2, 8)), None).fingerprint

    dense, sparse = fingerprint(False), fingerprint(True)
    monkeypatch.setattr(measuring, "NON_ZEROS_COUNTED", 0)
    assert fingerprint(False) == dense
    assert fingerprint(True) != sparse


def test_tables_are_those_of_the_batch_whatever_batches_came_before() -> None:
    """Of two functions with the same table one stands in flash; of other functions, or rounded otherwise, other tables do."""
    variables = [variable("X", (2, 1), ir.Role.INPUT), variable("y", (2, 1)), variable("z", (2, 1))]
    v = {x.name: ir.whole(x) for x in variables}
    made = program("tables", variables, (ir.Exp(v["y"], HERE, v["X"]), ir.Exp(v["z"], HERE, v["y"])), "z")
    footprint = Footprint(made, {})
    widths = [[8, 8, 8], [16, 8, 8], [8, 16, 8], [16, 16, 8]]
    batches = [
        replace(ShiftryLowering(made, largest).lower(widths, [[4, 4, 4]] * 4), rounding=rounding)
        for largest in ({}, {0: 4.0, 1: 2.0})
        for rounding in (Rounding.TOWARD_ZERO, Rounding.NEAREST)
    ]
    same_functions = [replace(batches[0], rounding=rounding) for rounding in Rounding]
    for batch in (*batches, *same_functions, *batches):
        for one in range(4):
            used = {int(number) for number in batch.rows[one, :, Column.FUNCTION]}
            arrays = {
                (f.bits, a) for f in map(batch.functions.__getitem__, used) for a in f.stored_arrays(batch.rounding)
            }
            expected = sum(len(array) * bits // 8 for bits, array in arrays)
            assert footprint.table_bytes(batch)[one] == footprint.table_bytes(batch.one(one))[0] == expected


def test_tables_that_one_way_of_rounding_makes_equal_are_two_by_another() -> None:
    """Of 5 and of 4 half is 2 toward zero, and 3 and 2 to the nearest: batches of both ways may come in turns."""
    variables = [variable("X", (2, 1), ir.Role.INPUT), variable("y", (2, 1)), variable("z", (2, 1))]
    v = {x.name: ir.whole(x) for x in variables}
    made = program("tables", variables, (ir.Exp(v["y"], HERE, v["X"]), ir.Exp(v["z"], HERE, v["y"])), "z")
    one = Exponential(16, 0, 0, 1, 0, 1, coarse=(8, 2), coarse_shift=0, fine=(5,), fine_operand_shift=1)
    lowered = ShiftryLowering(made, {}).lower([[16] * 3], [[4] * 3])
    rows = lowered.rows.copy()
    rows[:, :, Column.FUNCTION] = [0, 1]
    batch = replace(lowered, rows=rows, functions=(one, replace(one, fine=(4,))))
    footprint = Footprint(made, {})
    for rounding, stored_bytes in ((Rounding.TOWARD_ZERO, 6), (Rounding.NEAREST, 8), (Rounding.TOWARD_ZERO, 6)):
        assert footprint.table_bytes(replace(batch, rounding=rounding)).tolist() == [stored_bytes]
