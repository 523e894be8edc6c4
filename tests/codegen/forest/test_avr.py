"""Forests in the assembler of an AVR: bit for bit what the integers say, in the bytes and cycles that were counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.forest.avr.arrangement import REACH_WORDS, arrange, overhead
from kilotune.codegen.forest.avr.program import assembled, leaves_of
from kilotune.codegen.forest.avr.tree_code import BRANCH_REACH, LEFT, RIGHT, TreeWriter, tree_lines
from kilotune.codegen.forest.costs import COSTS, ForestCosts
from kilotune.codegen.forest.emission import emit_forest
from kilotune.codegen.forest.importing import read_forest
from kilotune.codegen.forest.integers import IntegerForest, counted, feature_formats, integer_forest, leaf_formats
from kilotune.codegen.forest.plan import CODE, STORED, plan_forest
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.on_device import measure_artefact, missing_tools
from kilotune.evaluators.simulated import of_emitted
from tests.codegen.forest.random_forests import hard_samples, random_ensemble, written

UNO = find_device("uno")
needs_uno = pytest.mark.skipif(missing_tools(UNO) is not None, reason="the tools of uno are missing")


def forest_of(folder: Path, seed: int, leaf_bits: int = 8, **drawn: Any) -> tuple[IntegerForest, np.ndarray]:
    """A forest with its samples counted, and those samples."""
    forest = read_forest(written(random_ensemble(seed, **drawn), folder, f"f{seed}"))
    samples = hard_samples(seed, forest.feature_count, 0.25)
    leaves = leaf_formats(forest)["int8"]
    if leaf_bits == 16:
        leaves = replace(leaves, stored_bits=16, factor=1000.0)
    made = integer_forest(forest, feature_formats(forest, samples)[0], leaves)
    integers = made.quantise(samples)
    return counted(made, integers), integers


PROGRAMS: dict[str, tuple[dict[str, Any], tuple[float, ...]]] = {
    "all stored": ({}, (STORED,)),
    "all code": ({"classes": 10, "trees": 9, "depth": 7}, (CODE,)),
    "some of both, 16-bit weights": ({"classes": 10, "trees": 9, "depth": 7, "leaf_bits": 16}, (30, 90, STORED, CODE)),
    "more than jumps reach": ({"classes": 4, "trees": 24, "depth": 7, "features": 64}, (CODE, CODE, 20)),
    "stumps, two classes": ({"classes": 2, "trees": 5, "depth": 1}, (CODE, STORED)),
}


@needs_uno
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_simulated_uno_agrees_in_results_bytes_and_cycles(name: str, tmp_path: Path) -> None:
    drawn, least = PROGRAMS[name]
    made, integers = forest_of(tmp_path, 3, **drawn)
    plan = plan_forest(made, [least[number % len(least)] for number in range(len(made.trees))])
    assert assembled(plan)
    source = emit_forest(plan)
    assert ('"call ' in source.source) == (name == "more than jumps reach")
    artefact = of_emitted(source)
    found = measure_artefact(UNO, artefact, integers.astype(artefact.input_type))
    np.testing.assert_array_equal(found.run.outputs, made.outputs(integers))
    flash, cycles = ForestCosts(plan, COSTS["avr"], assembles=True).of(plan.least)
    assert found.sizes.flash_bytes == flash
    assert found.cycles == pytest.approx(cycles, rel=0.02)


def test_what_registers_or_loads_do_not_reach_is_left_to_the_compiler(tmp_path: Path) -> None:
    made, _ = forest_of(tmp_path, 3)
    assert assembled(plan_forest(made, [STORED] * 5))
    for number, drawn in enumerate(({"classes": 11}, {"features": 65}, {"values": True}, {"by_column": True}), 4):
        other, _ = forest_of(tmp_path, number, **drawn)
        plan = plan_forest(other, [STORED] * 5)
        assert not assembled(plan)
        assert "naked" not in emit_forest(plan).source
    wide = replace(made, features=replace(made.features, bits=16))
    assert not assembled(plan_forest(wide, [STORED] * 5))


def test_conditional_branches_go_no_further_than_they_reach(tmp_path: Path) -> None:
    made, integers = forest_of(tmp_path, 5, depth=9, trees=3)
    plan = plan_forest(made, [CODE] * 3)
    for least in (CODE, 10.0, 40.0):
        for tree in plan.trees:
            part = TreeWriter(leaves_of(plan), least).whole(tree, len(integers))
            starts = {line.at for line in part.lines}
            for line in part.lines:
                if line.target is not None:
                    assert line.target in starts
                    if line.text.startswith((LEFT, RIGHT)):
                        assert -BRANCH_REACH - 1 <= line.target - (line.at + 1) <= BRANCH_REACH
            assert len([line for line in tree_lines(part, "t") if not line.endswith(":")]) == len(part.lines)


def test_every_tree_has_its_place_within_reach() -> None:
    random = np.random.default_rng(0)
    for _ in range(60):
        sizes = random.integers(1, 900, random.integers(1, 40)).tolist()
        function, routines = int(random.integers(20, 250)), int(random.integers(60, 110))
        groups = arrange(sizes, function, routines)
        assert sorted(number for group in groups for number in group.trees) == list(range(len(sizes)))
        for place, group in enumerate(groups):
            middle = routines + (function if place == 0 else 0)
            assert max(sum(sizes[n] for n in side) for side in (group.ahead, group.behind)) + middle <= REACH_WORDS
        far = sum(len(group.trees) for group in groups[1:])
        assert overhead(groups, routines).cycles == 3 * len(sizes) + far + 2 * bool(groups[0].ahead)
