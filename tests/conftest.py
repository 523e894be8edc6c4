"""What holds for all tests."""

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest_plugins = ("tests.browser",)

# Examples are not timed: these machines are shared, and a slow moment is no mistake. They are the same in every run, so that what passes
# before a change passes after it unless the change is to blame; `make explore` draws new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Tests start hundreds of interpreters. Where no bytecode may be stored, each of them compiles all that it imports: two thirds of
# the time of a command.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# NumPy's BLAS would start a thread for each core in each process of pytest-xdist, and one that finds no core free waits by turning: a
# product of small matrices took a hundred times its CPU seconds. It reads this when NumPy is imported, which is after here. `tune` sets
# the same for its commands (tests/experiments/commands/test_threads.py).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts what runs in its background with Ctrl-C ignored, and processes inherit that; some tests send it to theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Half a million objects that stay until the end (modules, tests, parameters) are made without looking for dead ones among them,
    and are passed over from then on: a third of what collecting takes, in every process of pytest-xdist.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
