"""What the terminal says of a program."""

from __future__ import annotations

import shutil

import pytest

from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.reverse_split import problem as module
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.procedure import run_procedure

COMPILER = any(shutil.which(command) for command in ("cc", "gcc", "clang"))


@pytest.mark.parametrize(
    "compiled", [pytest.param(True, marks=pytest.mark.skipif(not COMPILER, reason="no C compiler")), False]
)
def test_a_search_without_a_compiler_says_what_it_lacks(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends early with a wide gap, and nothing else would tell why."""
    if not compiled:
        monkeypatch.setattr(module, "load_kernel", lambda: None)
    made = build_problem(request_from("reverse-split", input="sobel", strategy="random"))
    answer = run_procedure(made.space)
    assert answer is not None
    assert (module.WITHOUT_COMPILER in made.lines(answer)) is not compiled
