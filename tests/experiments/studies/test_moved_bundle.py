"""A study is its content's, not its folder's: begun in one folder, it goes on in another, with the first one's measurements."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kilotune.experiments.models as bundled
from kilotune.experiments.soak.server import PROGRAMS, TemporaryServer
from kilotune.search.store import Store
from tests import commands
from tests.kept_libraries import with_libraries

pytestmark = pytest.mark.slow

MODEL = "lenet-digits"
COPIES = 6
"""Of its training samples: what is measured within a millisecond is not worth keeping."""


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store that both folders reach."""
    if request.param == "sqlite":
        yield str(tmp_path / "studies.db")
        return
    if PROGRAMS is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    with tempfile.TemporaryDirectory() as folder:  # another user must reach it, so none of pytest's
        server = TemporaryServer(Path(folder))
        server.start()
        yield server.url
        server.stop()


def tune(folder: Path, cache: Path, *arguments: str) -> str:
    """What the command prints, run in `folder`, with its cache of measurements below `cache`."""
    done = commands.tune(folder, {**os.environ, "XDG_CACHE_HOME": str(cache)}, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def measurements(folder: Path, cache: Path) -> int:
    """How many the cache holds."""
    found = re.search(r"(\d+) measurement", tune(folder, cache, "cache"))
    assert found is not None
    return int(found.group(1))


def test_a_study_goes_on_in_another_folder_and_shares_its_measurements(storage: str, tmp_path: Path) -> None:
    source = Path(bundled.__file__).parent / MODEL
    cache, first, second = tmp_path / "cache", tmp_path / "first", tmp_path / "second" / "deeper"
    with_libraries(cache / "kilotune")
    for folder, name in ((first, "model"), (second, "renamed")):
        folder.mkdir(parents=True)
        shutil.copytree(source, folder / name)
        few = np.load(source / "train.npz")
        np.savez(folder / name / "train.npz", **{key: np.concatenate([few[key]] * COPIES) for key in few.files})
    common = ("--space", "shiftry", "--strategy", "local", "--stop", "never", "--no-output", "--storage", storage)

    tune(first, cache, *common, "--input", "model", "--study", "moved", "--budget", "12trials")
    shutil.rmtree(first / "model")  # whoever goes on must not need it
    tune(second, cache, *common, "--input", "renamed", "--study", "moved", "--budget", "8trials")
    known = measurements(second, cache)
    tune(second, cache, *common, "--input", "renamed", "--study", "undisturbed", "--budget", "20trials")
    assert measurements(second, cache) == known == 20  # nothing had to be measured again

    store = Store(storage)
    rows = {
        study: [(row.number, row.candidate, row.metrics) for row in store.trials(study)]
        for study in ("moved", "undisturbed")
    }
    store.close()
    assert rows["moved"] == rows["undisturbed"]
    assert len(rows["moved"]) == 20
