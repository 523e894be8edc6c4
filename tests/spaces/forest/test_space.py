"""The decisions about a forest, and whether its costs are those of the program."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.forest.emission import emit_forest
from kilotune.codegen.forest.importing import read_forest
from kilotune.codegen.forest.plan import STORED
from kilotune.codegen.forest.records import stored_branches
from kilotune.search.space import Assignment
from kilotune.spaces.forest.space import FEATURES, LEAVES, SHARES, ForestOptions, ForestSpace, ForestTask, code_of
from tests.codegen.forest.random_forests import hard_samples, random_ensemble, written


def space_of(folder: Path, seed: int = 1, options: ForestOptions | None = None, **drawn: int) -> ForestSpace:
    forest = read_forest(written(random_ensemble(seed, **{"trees": 6, "depth": 6, **drawn}), folder))
    return ForestSpace(
        ForestTask(forest, hard_samples(seed, forest.feature_count, 0.25), None), options or ForestOptions()
    )


def run(space: ForestSpace) -> list[Assignment]:
    """The procedure's candidates."""
    steps, candidates = space.procedure(), list[Assignment]()
    batch = next(steps)
    while True:
        candidates += batch
        trials = [
            type("T", (), {"assignment": c, "metrics": m.metrics})()
            for c, m in zip(batch, space.evaluate(batch), strict=True)
        ]
        try:
            batch = steps.send(trials)
        except StopIteration:
            return candidates


def test_bytes_of_arrays_are_those_of_the_program(tmp_path: Path) -> None:
    for kind in ({}, {"trees": 8, "depth": 9}, {"trees": 2}):
        space = space_of(tmp_path, **kind)
        for leaves in space.written:
            for share in ("none", "1/2", "1/8", "all"):
                chosen = {decision.name: share for decision in space.decisions[2:]}
                candidate = {FEATURES: next(iter(space.given)), LEAVES: leaves, **chosen}
                known = space.costs_of(candidate).counts(space.least(candidate))[2]
                assert known == emit_forest(space.plan(candidate)).flash_bytes


@pytest.mark.parametrize("processor", ["avr", "cortex"])
def test_more_code_is_faster_and_larger(processor: str, tmp_path: Path) -> None:
    space = space_of(tmp_path, options=ForestOptions(processor=processor))
    tables = {FEATURES: "grid8", LEAVES: "int8"} | {code_of(n): "none" for n in range(6)}
    all_code = {**tables, **{decision.name: "all" for decision in space.decisions[2:]}}
    small, fast = (space.metrics(candidate) for candidate in (tables, all_code))
    assert fast["cycles"] < small["cycles"]
    assert fast["flash_bytes"] > small["flash_bytes"]


def test_rarer_comparisons_are_code_the_further_the_options_go(tmp_path: Path) -> None:
    shares = list(SHARES.values())
    assert shares == sorted(shares, reverse=True)
    assert [name for name, share in SHARES.items() if share == 0.25] == ["1/4"]
    space = space_of(tmp_path)
    tables = {decision.name: decision.options[0] for decision in space.decisions}
    quarter = {**tables, code_of(0): "1/4"}
    shape = space.costs_of(quarter).plan.trees[0]
    least = space.least(quarter)
    assert least == [len(space.task.features) / 4] + [STORED] * 5
    stored = stored_branches(shape, least[0])
    assert stored
    assert all(branch.samples < least[0] for branch in stored)


@pytest.mark.parametrize("limit", [None, 2400.0])
def test_the_procedure_spends_the_flash_that_it_may(limit: float | None, tmp_path: Path) -> None:
    limits = {} if limit is None else {"flash_bytes": limit}
    space = space_of(tmp_path, options=ForestOptions("cycles", limits))
    answer = space.metrics(run(space)[-1])
    assert limit is None or answer["flash_bytes"] <= limit
    others = np.random.default_rng(1)
    for _ in range(200):
        drawn = {
            decision.name: decision.options[others.integers(len(decision.options))] for decision in space.decisions
        }
        found = space.metrics(drawn)
        if all(c.violation(found) == 0 for c in space.constraints):
            assert found["cycles"] >= answer["cycles"] * (0.97 if limit else 1.0)


def test_a_candidate_that_changes_a_class_is_not_feasible(tmp_path: Path) -> None:
    space = space_of(tmp_path, trees=12, depth=8)
    assert any(c.metric == "disagreements" and c.limit == 0 for c in space.constraints)
    task = space.task
    candidate = {decision.name: decision.options[0] for decision in space.decisions}
    forest = space.plan(candidate).forest
    wrong = int((forest.outputs(forest.quantise(task.features))[:, 0] != task.forest.labels(task.features)).sum())
    assert space.metrics(candidate)["disagreements"] == wrong


def test_other_thresholds_are_another_problem(tmp_path: Path) -> None:
    first, again, other = space_of(tmp_path), space_of(tmp_path), space_of(tmp_path, seed=2)
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_other_targets_are_another_space(tmp_path: Path) -> None:
    """Their accuracy is another, so neither may use what the other one measured."""
    given = space_of(tmp_path).task
    spaces = [ForestSpace(dataclasses.replace(given, targets=t)) for t in (None, np.zeros(len(given.features)))]
    spaces.append(ForestSpace(dataclasses.replace(given, targets=np.ones(len(given.features)))))
    assert len({space.fingerprint for space in spaces}) == 3
