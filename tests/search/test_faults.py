"""A full disk, and a clock that jumps: nothing reported is lost, and the study goes on."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search import work_sharing
from kilotune.search.budget import Budget
from kilotune.search.executor import Finished
from kilotune.search.result import Status
from kilotune.search.store import Store, StoreError
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow

SPACE = FlatProblem(12, 4, 1, pairs=8)
BETWEEN_S = 1e5
"""Far less than the clock jumps by, far more than a test lasts."""


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 400 KiB."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("a small file system can be mounted by root only")
        yield Path(folder)
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_ends_the_run_and_the_study_goes_on_when_there_is_room(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_sharing, "DEAD_AFTER_S", 2.0)  # its claims could not be given back: there was no room
    store = Store(str(small_disk / "studies.db"))
    study = Study.create(store, "full", SPACE, "random", 3)
    reported: list[int] = []
    with pytest.raises(StoreError, match="There is no room left"):
        study.run(InProcessExecutor(SPACE), Budget(trials=50_000), on_progress=lambda p: reported.append(p.trials))
    store.close()
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    store = Store(str(small_disk / "studies.db"))
    resumed = Study.resume(store, "full", SPACE)
    kept = len(resumed.trials())
    assert kept >= max(reported, default=0)
    resumed.run(InProcessExecutor(SPACE), Budget(trials=50))
    whole = Study(SPACE, "random", 3)
    whole.run(InProcessExecutor(SPACE), Budget(trials=kept + 50))
    assert resumed.trials() == whole.trials()
    store.close()


@pytest.mark.parametrize("jump_s", [-1e6, 1e6])
def test_a_clock_that_jumps_moves_no_budget(jump_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, chunks = time.time, itertools.count(1)

    class Jumping(InProcessExecutor):
        def results(self, timeout_s: float) -> list[Finished]:
            if next(chunks) == 3:
                monkeypatch.setattr(time, "time", lambda: real() + jump_s)
            return super().results(timeout_s)

    store = Store(str(tmp_path / "studies.db"))
    study = Study.create(store, "jumpy", SPACE, "random", 3)
    result = study.run(Jumping(SPACE), Budget(seconds=BETWEEN_S, trials=400))
    assert next(chunks) > 4  # so it jumped, and went on
    assert (result.status, result.evaluations) == (Status.BUDGET_SPENT, 400)
    assert 0.0 <= result.elapsed_s < BETWEEN_S
    assert all(0.0 <= row.elapsed_s < BETWEEN_S for row in store.trials("jumpy"))
    assert len(Study.resume(store, "jumpy", SPACE).trials()) == 400
    store.close()
