"""Our own C, compiled where it may be kept, and loaded also where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilotune.evaluators import compiled_library
from kilotune.evaluators.compiled_library import load_library

SOURCE = "int kilotune_answer(void) { return 42; }\n"


def test_a_cache_folder_that_cannot_be_written_keeps_no_library_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "answer.c").write_text(SOURCE)
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "file" / "cache"))
    loaded = load_library(tmp_path / "answer.c")
    assert loaded is not None
    assert loaded.library.kilotune_answer() == 42


def test_annealing_without_a_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from kilotune.experiments.cm_problem import build_problem
    from kilotune.experiments.request import TuneRequest
    from kilotune.spaces.cm import annealing

    monkeypatch.setattr(compiled_library, "_compiler", lambda: None)
    monkeypatch.setattr(annealing, "load_kernel", lambda: None)
    space = build_problem(TuneRequest("cm", "resnet20", "anneal", 0, {})).space
    with pytest.raises(ValueError, match=r"needs a C compiler .*--strategy local"):
        next(space.anneal(0))
