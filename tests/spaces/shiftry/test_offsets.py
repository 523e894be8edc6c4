"""Scales of 16-bit variables other than the data-driven ones: what they mean, and that everything else stays what it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kilotune.codegen import ir
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.simulator import Backend
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.small_network import of_many_samples, small_network

TASK = of_many_samples(small_network(5))
OPTIONS = ShiftryOptions(accuracy_drop=5.0)
PLAIN, OFFSETS = ShiftrySpace(TASK, OPTIONS), ShiftrySpace(TASK, replace(OPTIONS, offsets=True))


def test_every_variable_has_scales_around_the_datas_behind_the_papers_formats() -> None:
    for plain, decision in zip(PLAIN.decisions, OFFSETS.decisions, strict=True):
        papers = len(plain.options)
        assert decision.options[:papers] == plain.options
        forms = [parse_format(str(option)) for option in decision.options]
        if TASK.program.variable(decision.name).role is ir.Role.INPUT:  # which has all of them in the paper
            assert decision.options == plain.options
        else:
            assert [(form.bits, form.scale - forms[0].scale) for form in forms[papers:]] == [
                (16, -1),
                (16, 1),
                (16, -2),
                (16, 2),
            ]


def test_the_papers_formats_are_the_core_and_its_procedure_answers_as_before() -> None:
    assert OFFSETS.core() == {decision.name: list(decision.options) for decision in PLAIN.decisions}
    assert PLAIN.core() is None
    found, papers = run_procedure(OFFSETS), run_procedure(PLAIN)
    assert found is not None
    assert papers is not None
    assert found.assignment == papers.assignment
    assert found.metrics == papers.metrics


def test_a_scale_is_what_the_program_computes_with_and_both_executions_agree() -> None:
    rng = np.random.default_rng(0)
    candidates = [{d.name: d.options[rng.integers(len(d.options))] for d in OFFSETS.decisions} for _ in range(80)]
    batch = OFFSETS.lower(candidates)
    columns = {variable.name: column for column, variable in enumerate(TASK.program.variables)}
    for row, candidate in enumerate(candidates):
        for name in ("X", "H"):  # no rule of the lowering lowers the scale of an input, or of what is written twice
            form = parse_format(str(candidate[name]))
            assert (batch.bits[row, columns[name]], batch.scales[row, columns[name]]) == (form.bits, form.scale)
    defined = ShiftrySpace(TASK, OFFSETS.options, Backend.NUMPY)
    assert [m.metrics for m in OFFSETS.evaluate(candidates)] == [m.metrics for m in defined.evaluate(candidates)]


def test_a_search_finds_more_precise_programs_of_the_same_size() -> None:
    def flips(offsets: bool) -> tuple[float, float]:
        options = ShiftryOptions(flash_limit_bytes=700, offsets=offsets)
        space = ShiftrySpace(TASK, options)
        best = Study(space, "refine", seed=2).run(InProcessExecutor(space), Budget(trials=900)).best
        assert best is not None
        assert best.metrics["flash_bytes"] <= 700
        return best.metrics["expected_flips"], best.metrics["margin_error"]

    without, within = flips(False), flips(True)
    assert within < without, (within, without)
