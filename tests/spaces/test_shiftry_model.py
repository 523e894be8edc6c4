"""The CP-SAT model and the state bounds count what the evaluator counts."""

from __future__ import annotations

import contextlib
import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.sequential_rounding import sequential_roundings
from kilotune.search.space import Assignment, SolveLimit, Trial
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace
from kilotune.spaces.shiftry.surrogate import fit_surrogate

from .small_network import small_network

TASK = small_network()
SPACE = ShiftrySpace(TASK, ShiftryOptions(accuracy_drop=5.0))
NARROW = ShiftrySpace(TASK, ShiftryOptions(accuracy_drop=5.0, narrow=True))
WIDTHS = {"plain": {}, "narrow": {"narrow": True}, "wide": {"wide": True}}


def random_candidates(space: ShiftrySpace, count: int, seed: int) -> list[Assignment]:
    rng = np.random.default_rng(seed)
    return [{d.name: d.options[rng.integers(len(d.options))] for d in space.decisions} for _ in range(count)]


def trials_of(space: ShiftrySpace, candidates: list[Assignment]) -> list[Trial]:
    return [Trial(i, c, m) for i, (c, m) in enumerate(zip(candidates, space.evaluate(candidates), strict=True))]


def test_the_hidden_state_and_every_temporary_can_be_demoted() -> None:
    names = {d.name for d in SPACE.decisions}
    assert names == {"X", "W", "U", "B", "F", "a", "b", "c", "d", "H", "e", "scores"}
    (measured,) = SPACE.evaluate([{d.name: next(o for o in d.options if "int8" in str(o)) for d in SPACE.decisions}])
    assert measured.metrics["demoted"] == len(names)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(0, 12), st.booleans(), st.sampled_from(sorted(WIDTHS)))
def test_no_completion_beats_the_bound(seed: int, decided: int, limited: bool, widths: str) -> None:
    options = ShiftryOptions(flash_limit_bytes=150, ram_limit_bytes=30) if limited else ShiftryOptions()
    options = dataclasses.replace(options, **WIDTHS[widths])
    space = ShiftrySpace(TASK, options)
    candidates = random_candidates(space, 30, seed)
    state = space.start()
    for decision in space.decisions[:decided]:
        state = state.take(candidates[0][decision.name])
    completions = [{**candidate, **state.assignment} for candidate in candidates]
    bound = state.bound()
    for measurement in space.evaluate(completions):
        feasible = all(c.violation(measurement.metrics) == 0 for c in space.constraints)
        if bound == math.inf:
            assert not feasible
        else:
            assert space.objectives[0].loss(measurement.metrics) >= bound


def test_bounds_grow_along_a_path() -> None:
    state = SPACE.start()
    before = state.bound()
    for decision in SPACE.decisions:
        state = state.take(decision.options[0])
        assert state.bound() >= before
        before = state.bound()
    (measured,) = SPACE.evaluate([state.assignment])
    assert before <= measured.metrics["memory_bytes"]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("seed", range(5))
def test_the_model_knows_the_memory_of_every_candidate(seed: int, widths: str) -> None:
    """Excluding nothing but one candidate's memory: with limits just at, and just below it, the model (dis)allows it."""
    drawn = ShiftrySpace(TASK, ShiftryOptions(accuracy_drop=5.0, **WIDTHS[widths]))
    (candidate,) = random_candidates(drawn, 1, seed)
    metrics = drawn.evaluate([candidate])[0].metrics
    for slack, allowed in ((0, True), (-1, False)):
        limits = ShiftryOptions(
            flash_limit_bytes=int(metrics["flash_bytes"]) + slack,
            ram_limit_bytes=int(metrics["ram_bytes"]),
            **WIDTHS[widths],
        )
        space = ShiftrySpace(TASK, limits)
        answer = space.model([]).solve(5, [], seed, SolveLimit(5.0))
        assert not (allowed and answer.exhausted)
        measured = space.evaluate(list(answer.candidates))
        feasible = [all(c.violation(m.metrics) == 0 for c in space.constraints) for m in measured]
        assert feasible == ([False] if answer.exhausted else [True] * len(feasible))  # exhausted: the nearest is shown


def test_the_models_bound_is_the_least_memory() -> None:
    least = {d.name: next(o for o in d.options if "int8" in str(o)) for d in SPACE.decisions}
    answer = SPACE.model([]).solve(3, [], 0, SolveLimit(5.0))
    assert answer.bound == SPACE.evaluate([least])[0].metrics["memory_bytes"] == SPACE.start().bound()


def test_excluded_candidates_do_not_come_back() -> None:
    first = SPACE.model([]).solve(4, [], 0, SolveLimit(5.0)).candidates
    again = SPACE.model([]).solve(4, list(first), 0, SolveLimit(5.0)).candidates
    assert len(first) == len(again) == 4
    assert not [candidate for candidate in again if candidate in first]


def test_the_surrogate_learns_which_option_overflows() -> None:
    trials = trials_of(SPACE, random_candidates(SPACE, 300, 7))
    surrogate = fit_surrogate(SPACE.decisions, trials, "disagreements", 1.0)
    predicted = [
        surrogate.offset
        + sum(costs[t.assignment[d.name]] for d, costs in zip(SPACE.decisions, surrogate.costs, strict=True))
        for t in trials
    ]
    measured = [math.log1p(t.measurement.metrics["disagreements"]) for t in trials]
    assert np.corrcoef(predicted, measured)[0, 1] > 0.6
    untaught = fit_surrogate(SPACE.decisions, [], "disagreements", 1.0)
    scores = next(i for i, d in enumerate(SPACE.decisions) if d.name == "scores")
    assert surrogate.costs[scores] != untaught.costs[scores]


def test_parameters_alone_may_be_narrow() -> None:
    narrow = {d.name for d in NARROW.decisions if any(parse_format(str(o)).bits < 8 for o in d.options)}
    assert narrow == {"W", "U", "B", "F"}
    for before, now in zip(SPACE.decisions, NARROW.decisions, strict=True):
        assert now.options[: len(before.options)] == before.options


def test_the_papers_procedure_knows_no_narrow_parameters() -> None:
    """It answers the same in both spaces: what it proposes, it proposes by the widths of the paper."""
    answers = []
    for space in (SPACE, NARROW):
        procedure, trials = space.procedure(), []
        batch = next(procedure)
        with contextlib.suppress(StopIteration):
            while True:
                trials.append([dict(candidate) for candidate in batch])
                batch = procedure.send(trials_of(space, list(batch)))
        answers.append(trials)
    assert answers[0] == answers[1]


def test_narrow_parameters_are_nearest_codes_at_their_scale() -> None:
    """F is a factor, so its codes are the integers; B is added, so they stand for integers at the full scale of 8 bits."""
    chosen = {}
    for decision in NARROW.decisions:
        wanted = "int3@" if decision.name in "FB" else "int8@"
        chosen[decision.name] = next(str(o) for o in decision.options if str(o).startswith(wanted))
    batch = NARROW.lower([chosen])
    columns = {v.name: i for i, v in enumerate(TASK.program.variables)}
    for name, shift in (("F", 0), ("B", 5)):
        scale, values = parse_format(chosen[name]).scale, TASK.parameters[name]
        codes = np.clip(np.floor(values * 2.0**scale + 0.5), -4, 3).astype(np.int64)
        np.testing.assert_array_equal(batch.integers(0, columns[name], values), codes << shift)
        assert (batch.stored_bits[0, columns[name]], batch.bits[0, columns[name]]) == (3, 8)


def test_products_weights_may_be_rounded_sequentially() -> None:
    """In 8 bits and fewer, beside each format as it was; the paper's procedure does not see them."""
    space = ShiftrySpace(TASK, ShiftryOptions(accuracy_drop=5.0, narrow=True, truer=True))
    offered = {d.name: [str(o) for o in d.options] for d in space.decisions}
    plain = {d.name: [str(o) for o in d.options] for d in NARROW.decisions}
    for name, options in offered.items():
        added = [f"{o} sequential" for o in plain[name] if parse_format(o).bits <= 8]
        assert options == plain[name] + (added if name in {"W", "U", "F"} else [])
    chosen = {name: options[0] for name, options in offered.items()}
    chosen |= {name: next(o for o in offered[name] if o.startswith("int2@") and "seq" in o) for name in "WUF"}
    nearest = {name: option.removesuffix(" sequential") for name, option in chosen.items()}
    rounded, not_rounded = (m.metrics for m in space.evaluate([chosen, nearest]))
    assert rounded["flash_bytes"] == not_rounded["flash_bytes"]
    roundings = sequential_roundings(TASK.program, TASK.parameters, TASK.features)
    batch = space.lower([chosen, nearest])
    for name in "WUF":
        column, values = space.task.program.variables.index(space.task.program.variable(name)), TASK.parameters[name]
        form = parse_format(nearest[name])
        expected = [ParameterEncoding(2, 0, rounding).codes(values, form.scale) for rounding in (roundings[name], None)]
        np.testing.assert_array_equal([batch.integers(i, column, values) for i in (0, 1)], expected)
    procedure = space.procedure()
    proposed, batch = [], next(procedure)
    with contextlib.suppress(StopIteration):
        while True:
            proposed += [str(option) for candidate in batch for option in candidate.values()]
            batch = procedure.send(trials_of(space, list(batch)))
    assert not [option for option in proposed if "sequential" in option]


def test_permitted_flips_are_a_limit_beside_the_accuracy() -> None:
    space = ShiftrySpace(TASK, ShiftryOptions(accuracy_drop=5.0, permitted_flips=0.5))
    assert [c.metric for c in space.constraints] == ["accuracy_percent", "expected_flips"]
    assert space.constraints[1].violation({"expected_flips": 0.75}) == 0.25
    assert space.fingerprint != SPACE.fingerprint
