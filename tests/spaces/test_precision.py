"""What leads where: expected flips under limits, memory before them without, half per cents in seedot; the papers' procedures as ever."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.front import Ranking
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Measurement, Space
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace, rounded_flips_percent
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace

BUNDLE = load_bundle(resolve_model("protonn-cancer"))
TASK = task_of(BUNDLE, BUNDLE.train)
NUMERICAL = load_bundle(resolve_model("mlp-diabetes"))
ROOM = 1 << 20


def shiftry(**options: object) -> ShiftrySpace:
    return ShiftrySpace(TASK, ShiftryOptions(**options))  # type: ignore[arg-type]


def best_of(space: Space, candidates: list[Assignment]) -> dict[str, float]:
    ranking = Ranking.of(space)
    return dict(min(space.evaluate(candidates), key=ranking.rank).metrics)


def test_bytes_under_a_limit_are_used_for_what_disagreements_do_not_see() -> None:
    space = shiftry(flash_limit_bytes=ROOM)
    wide: Assignment = {d.name: d.options[0] for d in space.decisions}
    narrow = {**wide, "W": next(o for d in space.decisions if d.name == "W" for o in d.options if "int8" in str(o))}
    metrics = [m.metrics for m in space.evaluate([wide, narrow])]
    assert [m["disagreements"] for m in metrics] == [0, 0]
    assert metrics[0]["expected_flips"] < metrics[1]["expected_flips"]
    assert best_of(space, [narrow, wide])["memory_bytes"] == metrics[0]["memory_bytes"] > metrics[1]["memory_bytes"]
    assert best_of(shiftry(), [narrow, wide])["memory_bytes"] == metrics[1]["memory_bytes"]


def test_what_flips_nothing_is_told_apart_by_its_margins() -> None:
    space = shiftry(flash_limit_bytes=ROOM)
    wide: Assignment = {d.name: d.options[0] for d in space.decisions}
    narrow = {**wide, "Z": next(o for d in space.decisions if d.name == "Z" for o in d.options if "int8" in str(o))}
    metrics = [m.metrics for m in space.evaluate([narrow, wide])]
    assert [m["expected_flips"] for m in metrics] == [0.0, 0.0]
    assert 10 * metrics[1]["margin_error"] < metrics[0]["margin_error"]
    assert metrics[0]["memory_bytes"] < metrics[1]["memory_bytes"]
    assert best_of(space, [narrow, wide]) == metrics[1]
    assert "margin_error" not in space_metrics(shiftry(), wide)


def space_metrics(space: ShiftrySpace, candidate: Assignment) -> dict[str, float]:
    return dict(space.evaluate([candidate])[0].metrics)


def test_the_paper_evaluates_as_it_did() -> None:
    """Of candidates with as many disagreements its procedure takes the first, whatever their expected flips."""
    space = shiftry()
    answer = run_procedure(space)
    assert answer is not None
    space.evaluator.measure = scrambled(space)  # type: ignore[method-assign]
    again = run_procedure(space)
    assert again is not None
    assert again.assignment == answer.assignment


def scrambled(space: ShiftrySpace):  # type: ignore[no-untyped-def]
    """The evaluator with the order of expected flips turned round."""
    measure = space.evaluator.measure
    return lambda batch: [{**m, "expected_flips": -m["expected_flips"]} for m in measure(batch)]


@pytest.mark.parametrize(("space", "first"), [(ShiftrySpace, "memory_bytes"), (SeeDotSpace, "expected_error")])
def test_numerical_programs_are_ranked_by_their_expected_error(space: type, first: str) -> None:
    made = space(task_of(NUMERICAL, NUMERICAL.train))
    assert made.objectives[0].metric == first
    assert "expected_error" in [objective.metric for objective in made.objectives[:2]]
    found = made.evaluate([{d.name: d.options[0] for d in made.decisions}] if first == "memory_bytes" else WIDE)
    assert 0 < found[0].metrics["expected_error"] < found[0].metrics["precision_loss"]


WIDE: list[Assignment] = [{"bitwidth": 16, "maxscale": 8, "table_index_bits": 6, "coverage": 0.9}]


def test_half_per_cents() -> None:
    found = rounded_flips_percent(400, {"expected_flips": np.array([0.0, 0.99, 1.01, 2.9, 3.1, 400.0])})
    np.testing.assert_array_equal(found, [0.0, 0.0, 0.5, 0.5, 1.0, 100.0])


def test_seedot_pays_32_bits_only_where_they_are_paid_for() -> None:
    candidates: list[Assignment] = [
        {"bitwidth": bits, "maxscale": scale, "table_index_bits": 6, "coverage": 0.9}
        for bits, scale in ((16, 7), (32, 16))
    ]
    bytes_of = [m.metrics["memory_bytes"] for m in SeeDotSpace(TASK).evaluate(candidates)]
    flips = [m.metrics["expected_flips"] for m in SeeDotSpace(TASK).evaluate(candidates)]
    assert bytes_of[0] < bytes_of[1]
    assert 1.0 > flips[0] > flips[1]  # less than a sample
    assert best_of(SeeDotSpace(TASK), candidates)["memory_bytes"] == bytes_of[0]
    limited = SeeDotSpace(TASK, SeeDotOptions(flash_limit_bytes=ROOM))
    assert best_of(limited, candidates)["memory_bytes"] == bytes_of[1]


def test_seedots_paper_takes_the_best_training_accuracy() -> None:
    space = SeeDotSpace(TASK, SeeDotOptions(bitwidths=(16,)))
    answer = run_procedure(space)
    assert answer is not None
    candidates: list[Assignment] = [
        {"bitwidth": 16, "maxscale": scale, "table_index_bits": 6, "coverage": 0.9} for scale in range(16)
    ]
    most = max(m.metrics["accuracy_percent"] for m in space.evaluate(candidates))
    assert answer.metrics["accuracy_percent"] == most


def test_seedot_measures_coarse_to_fine_and_answers_as_the_papers_loops_do() -> None:
    """Every width has been met when a quarter of the maxscales are measured; of equal programs the first of the loops is the answer."""
    space = SeeDotSpace(TASK)
    measured: list[Assignment] = []

    def equal(batch: Sequence[Assignment]) -> list[Measurement]:
        measured.extend(batch)
        same = {"accuracy_percent": 90.0, "disagreements": 0.0, "memory_bytes": 1.0}
        return [Measurement({**same, "accuracy_percent": 80.0 if one["bitwidth"] == 8 else 90.0}) for one in batch]

    answer = run_procedure(space, equal)
    assert answer is not None
    assert (answer.assignment["bitwidth"], answer.assignment["maxscale"]) == (16, 0)
    tried = [(one["bitwidth"], one["maxscale"]) for one in measured[:-1]]
    assert sorted(tried) == [(bits, scale) for bits in (8, 16, 32) for scale in range(bits)]
    assert tried[:6] == [(16, 8), (16, 4), (16, 12), (16, 0), (8, 4), (8, 0)]
    assert {bits for bits, _ in tried[: tried.index((32, 16))]} == {16, 8}
    assert tried[tried.index((32, 16)) :][:8] == [(32, s) for s in (16, 12, 20, 8, 24, 4, 28, 0)]


def test_seedot_takes_the_least_memory_within_a_permitted_drop() -> None:
    strict = SeeDotSpace(TASK, SeeDotOptions(permitted_drop=0.0))
    lax = SeeDotSpace(TASK, SeeDotOptions(permitted_drop=60.0))
    candidates: list[Assignment] = [
        {"bitwidth": bits, "maxscale": scale, "table_index_bits": 6, "coverage": 0.9}
        for bits in (8, 16)
        for scale in range(bits)
    ]
    found = SeeDotSpace(TASK).evaluate(candidates)
    for space, drop in ((strict, 0.0), (lax, 60.0)):
        least = space.evaluator.float_metrics["accuracy_percent"] - drop
        kept = [m.metrics["memory_bytes"] for m in found if m.metrics["accuracy_percent"] >= least]
        assert best_of(space, candidates)["memory_bytes"] == min(kept)
        for measured, candidate in zip(found, candidates, strict=True):
            state = space.start().take(candidate["bitwidth"])
            assert state.bound() <= measured.metrics["memory_bytes"]
    assert strict.fingerprint != lax.fingerprint != SeeDotSpace(TASK).fingerprint
