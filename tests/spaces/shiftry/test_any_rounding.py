"""How a program divides, as one more decision: what it means, and that everything else of a candidate stays what it was."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.fresh_inputs import FreshInputs
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, SolveLimit
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, FittedSpace
from kilotune.spaces.shiftry.program_decisions import ROUNDING
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.small_network import small_network

TASK = small_network(13)  # of two classes; most others have one
OPTIONS = ShiftryOptions(accuracy_drop=5.0, narrow=True)
ANY = ShiftrySpace(TASK, replace(OPTIONS, any_rounding=True))
ALONE = {rounding: ShiftrySpace(TASK, replace(OPTIONS, rounding=rounding)) for rounding in Rounding}


def random_candidates(count: int, seed: int = 0) -> list[Assignment]:
    rng = np.random.default_rng(seed)
    return [{d.name: d.options[rng.integers(len(d.options))] for d in ANY.decisions} for _ in range(count)]


def formats_of(candidate: Assignment) -> Assignment:
    return {name: option for name, option in candidate.items() if name != ROUNDING}


def test_a_batch_of_several_roundings_measures_each_as_a_space_of_that_rounding_does() -> None:
    candidates = random_candidates(60)
    measured, costs = ANY.evaluate(candidates), ANY.costs(candidates)
    seen = set()
    for candidate, measurement, cost in zip(candidates, measured, costs, strict=True):
        alone = ALONE[Rounding(candidate[ROUNDING])]
        assert measurement.metrics == alone.evaluate([formats_of(candidate)])[0].metrics
        assert cost == alone.costs([formats_of(candidate)])[0]
        assert ANY.lower([candidate]).rounding is Rounding(candidate[ROUNDING])
        seen.add(candidate[ROUNDING])
    assert seen == {rounding.value for rounding in Rounding}
    same = [{**candidates[0], ROUNDING: rounding.value} for rounding in Rounding]
    assert len({tuple(sorted(m.metrics.items())) for m in ANY.evaluate(same)}) > 1, "roundings make no difference here"
    assert ANY.evaluate([]) == []
    with pytest.raises(ValueError, match="expected one rounding"):
        ANY.lower(same)


def test_candidates_of_all_roundings_are_lowered_together() -> None:
    """Their rows are the same, and all at once takes less time than each kind alone."""
    lowered = ShiftryLowering.lower_formats
    with mock.patch.object(ShiftryLowering, "lower_formats", autospec=True, side_effect=lowered) as lower:
        ANY.evaluate(random_candidates(60))
        ANY.costs(random_candidates(60))
    assert [len(call.args[1]) for call in lower.call_args_list] == [60, 60]


def test_the_papers_procedure_answers_as_it_does_without_the_decision() -> None:
    found, papers = run_procedure(ANY), run_procedure(ALONE[Rounding.TOWARD_ZERO])
    assert found is not None
    assert papers is not None
    assert found.assignment == {**papers.assignment, ROUNDING: Rounding.TOWARD_ZERO.value}


def test_a_search_finds_what_another_rounding_makes_more_precise() -> None:
    """The best precision within a limit on memory, of few trials."""

    def flips(any_rounding: bool) -> tuple[float, object]:
        limits = ShiftryOptions(flash_limit_bytes=612, ram_limit_bytes=13)
        space = ShiftrySpace(TASK, replace(limits, any_rounding=any_rounding))
        best = Study(space, "refine", seed=1).run(InProcessExecutor(space), Budget(trials=600)).best
        assert best is not None
        return best.metrics["expected_flips"], best.assignment.get(ROUNDING)

    (alone, _), (found, rounding) = flips(False), flips(True)
    assert found < 0.5 * alone
    assert rounding != Rounding.TOWARD_ZERO.value


def test_the_model_proposes_roundings_and_knows_the_memory_of_every_candidate() -> None:
    (candidate,) = random_candidates(1)
    metrics = ANY.evaluate([candidate])[0].metrics
    for slack, allowed in ((0, True), (-1, False)):
        limits = {
            "flash_limit_bytes": int(metrics["flash_bytes"]) + slack,
            "ram_limit_bytes": int(metrics["ram_bytes"]),
        }
        space = ShiftrySpace(TASK, replace(ANY.options, **limits))
        answer = space.model([]).solve(3, [], 0, SolveLimit(2.0))
        assert not (allowed and answer.exhausted)
        for measured in [] if answer.exhausted else space.evaluate(list(answer.candidates)):
            assert all(c.violation(measured.metrics) == 0 for c in space.constraints)
    (first,) = ANY.model([]).solve(1, [], 0, SolveLimit(2.0)).candidates
    assert first not in ANY.model([]).solve(2, [first], 0, SolveLimit(2.0)).candidates


def test_codes_are_fitted_to_a_program_that_rounds_as_it_was_decided() -> None:
    space = FittedSpace(ANY)
    for candidate in random_candidates(3, 5):
        fitted = space.lower([{**candidate, CODES: FITTED}])
        assert fitted.rounding is Rounding(candidate[ROUNDING])
        metrics = space.evaluate([{**candidate, CODES: FITTED}])[0].metrics
        on_samples = ANY.evaluator.measure(fitted)[0]["expected_flips"]
        assert metrics["expected_flips"] == max(on_samples, *FreshInputs(ANY.evaluator).expected_flips(fitted))
