"""Every space of ours is what `kilotune.testing.check_space` says a space is, and every strategy that fits it what
`check_strategy` says a strategy is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.forest.importing import read_forest
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.registry import entries
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.space import Space
from kilotune.testing import check_space, check_strategy
from tests.codegen.forest.random_forests import hard_samples, random_ensemble, written

BUNDLED = {
    "seedot": {"space": "seedot", "input": "protonn-cancer"},
    "seedot-limited": {"space": "seedot", "input": "protonn-cancer", "limits": ["flash=400"]},
    "shiftry": {"space": "shiftry", "input": "worked-example"},
    "shiftry-bonsai": {"space": "shiftry", "input": "bonsai-digits", "limits": ["flash=3KiB"]},
    "shiftry-fitted": {"space": "shiftry", "input": "worked-example", "options": {"narrow": True, "fitted": True}},
    "shiftry-pruned": {"space": "shiftry", "input": "worked-example", "options": {"front": "flash", "pruned": True}},
    "memory": {"space": "memory"},
    "reverse-split": {"space": "reverse-split", "input": "sobel"},
    "reverse-split-errors": {
        "space": "reverse-split",
        "input": "[[5, -3], [7, 1]]",
        "objective": "front",
        "options": {"error": 0.3},
    },
    "reverse-split-anywhere": {"space": "reverse-split", "input": "roberts", "options": {"anywhere": True}},
    "fpga": {"space": "fpga", "input": "worked-example"},
    "fpga-joint": {"space": "fpga", "input": "worked-example", "options": {"joint": True}},
    "cm": {"space": "cm", "input": "lenet5"},
}
OF_FILES = {"forest"}
"""Spaces without an input of their own, which have a test each below."""

BUNDLED |= {entry.space: {"space": entry.space} for entry in entries() if entry.space not in {*BUNDLED, *OF_FILES}}
"""A space of ours that is not here yet is checked with the input that it has without --input."""

SLOW = {"cm": ["procedure", "annealing"], "reverse-split": ["procedure"], "reverse-split-errors": ["procedure"]}
"""Searches that take seconds, which the tests of these spaces follow to their end."""


def bundled(name: str) -> Space:
    return build_problem(request_from(**BUNDLED[name])).space  # type: ignore[arg-type]


@pytest.mark.parametrize("name", BUNDLED)
def test_our_spaces_conform(name: str) -> None:
    check_space(bundled(name), samples=8, most=40, skip=SLOW.get(name, ()))


def test_trees_conform(tmp_path: Path) -> None:
    given = written(random_ensemble(1, trees=4, depth=4), tmp_path)
    np.savez(tmp_path / "data.npz", X=hard_samples(1, read_forest(given).feature_count, 0.25))
    request = request_from("forest", input=str(given), options={"data": str(tmp_path / "data.npz"), "label": "none"})
    check_space(build_problem(request).space, samples=8, most=40)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("memory", "local"), ("memory", "tpe"), ("shiftry", "local"), ("shiftry", "cp")],
)
def test_our_strategies_conform_on_our_spaces(name: str, strategy: str) -> None:
    check_strategy(strategy, spaces=[bundled(name)], trials=12, skip=["bound", "end", "claim"])
