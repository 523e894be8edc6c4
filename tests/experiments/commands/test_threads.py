"""A `tune` command computes on one thread, so that its CPU time is work and `--jobs` processes do not share cores with idle ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np  # noqa: F401  # whose BLAS is asked
import pytest
from threadpoolctl import threadpool_info

PROBE = """
import contextlib, sys
from kilotune.experiments.cli import main
assert "numpy" not in sys.modules, "its BLAS has read the environment already"
with contextlib.suppress(SystemExit):
    main(["--version"])
import numpy as np
np.ones((500, 500)) @ np.ones((500, 500))
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("Threads:")][0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc that counts threads")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: one thread whatever is asked for")
@pytest.mark.parametrize(("given", "threads"), [(None, 1), ("2", 2)])
def test_blas_has_one_thread_unless_the_user_says_otherwise(given: str | None, threads: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": given} if given else {}
    done = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) == threads


def test_and_so_do_the_tests() -> None:
    """`conftest.py` has to set it before anything imports NumPy."""
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    assert libraries
    assert {library["num_threads"] for library in libraries} == {int(os.environ["OPENBLAS_NUM_THREADS"])}
