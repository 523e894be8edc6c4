"""How wide each sum of products is, as decisions: what they mean, and that everything else of a candidate stays what it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Accumulator
from kilotune.codegen.fixed.table import Column
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.program_decisions import ROUNDING, SUM_BITS, SUMS_OF
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.small_network import small_network

TASK = small_network(13)
ANY = ShiftrySpace(TASK, ShiftryOptions(any_accumulator=True, any_rounding=True))
SUMS = [decision.name for decision in ANY.decisions if decision.name.startswith(SUMS_OF)]
PRODUCTS = {
    row: o.out.variable
    for row, o in enumerate(ir.operations(TASK.program.body))
    if isinstance(o, ir.MatMul | ir.Conv2D)
}


def random_candidates(count: int) -> list[Assignment]:
    rng = np.random.default_rng(5)
    return [{d.name: d.options[rng.integers(len(d.options))] for d in ANY.decisions} for _ in range(count)]


def formats_of(candidate: Assignment) -> Assignment:
    return {name: option for name, option in candidate.items() if name not in SUMS}


def test_sums_that_are_all_decided_alike_are_those_of_a_space_with_that_accumulator() -> None:
    for option, accumulator in (("auto", Accumulator.DOUBLE), ("16", Accumulator.NARROW)):
        alone = ShiftrySpace(TASK, replace(ANY.options, any_accumulator=False, accumulator=accumulator))
        candidates = [{**one, **dict.fromkeys(SUMS, option)} for one in random_candidates(12)]
        expected = alone.evaluate([formats_of(one) for one in candidates])
        assert [m.metrics for m in ANY.evaluate(candidates)] == [m.metrics for m in expected]


def test_each_sum_has_the_width_that_was_decided_for_it_and_no_other_row_changes() -> None:
    assert {SUMS_OF + name for name in PRODUCTS.values()} == set(SUMS)
    assert len(SUMS) > 1
    for candidate in random_candidates(20):
        batch = ANY.lower([candidate])
        auto = ANY.lower([{**candidate, **dict.fromkeys(SUMS, "auto")}])
        assert batch.rows[0, list(PRODUCTS), Column.ACC_BITS].tolist() == [
            SUM_BITS[str(candidate[SUMS_OF + name])] or auto.rows[0, row, Column.ACC_BITS]
            for row, name in PRODUCTS.items()
        ]
        others = [row for row in range(batch.rows.shape[1]) if row not in PRODUCTS]
        assert np.array_equal(batch.bits, auto.bits)
        assert np.array_equal(batch.rows[:, others, Column.ACC_BITS], auto.rows[:, others, Column.ACC_BITS])


def test_memory_is_the_formats_alone_and_the_papers_procedure_keeps_its_widths() -> None:
    candidates = random_candidates(10)
    autos = [{**one, **dict.fromkeys(SUMS, "auto")} for one in candidates]
    for mine, theirs in zip(ANY.costs(candidates), ANY.costs(autos), strict=True):
        assert (mine["flash_bytes"], mine["ram_bytes"]) == (theirs["flash_bytes"], theirs["ram_bytes"])
    found = run_procedure(ANY)
    papers = run_procedure(ShiftrySpace(TASK, ShiftryOptions()))
    assert found is not None
    assert papers is not None
    first = {d.name: d.options[0] for d in ANY.decisions if d.name in (*SUMS, ROUNDING)}
    assert found.assignment == {**papers.assignment, **first}
