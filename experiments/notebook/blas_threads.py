"""One thread for NumPy's BLAS while a search runs in the user's Python, as the command has, which asks before NumPy is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

ASKED_FOR_BY = "OPENBLAS_NUM_THREADS"


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While it is entered, in this process and in those that are started: matrices are small, and further threads only wait for one
    another, ten times as long where the cores have other work. Whoever sets `OPENBLAS_NUM_THREADS` has as many as that says."""
    if ASKED_FOR_BY in os.environ:
        yield
        return
    os.environ[ASKED_FOR_BY] = "1"  # which the BLAS of this process does not read again
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        os.environ.pop(ASKED_FOR_BY, None)
