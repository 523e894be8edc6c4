"""The sums of normal tails of `fidelity.py`, by the compiled kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from kilotune.codegen.arrays import Int32Array
from kilotune.evaluators.fixed_point.fidelity import (
    LAST,
    SHIFTS,
    STEPS,
    TINY,
    LeastSpread,
    MarginErrors,
    inverse,
    normal_tails,
)
from kilotune.evaluators.fixed_point.formatted import address_of
from kilotune.evaluators.fixed_point.kernel import BatchKernel


def native_tail_sums(kernel: BatchKernel, margins: Int32Array, errors: Sequence[MarginErrors]) -> list[int]:
    """As `fidelity.tail_sums`."""
    biases = np.array([bias for bias, _ in errors])
    inverses = np.array([inverse(sigma) for _, sigma in errors])
    sums, table = np.empty(len(errors), dtype=np.int64), normal_tails()
    margins = np.ascontiguousarray(margins)
    kernel.library().kilotune_tail_sums(
        ctypes.c_int32(len(errors)),
        ctypes.c_int64(len(margins)),
        *(ctypes.c_void_p(address_of(array)) for array in (margins, biases, inverses, table)),
        ctypes.c_int32(LAST),
        ctypes.c_void_p(address_of(sums)),
    )
    return sums.tolist()


def native_least_tail_sums(kernel: BatchKernel, margins: Int32Array, spreads: Sequence[LeastSpread]) -> list[int]:
    """As `fidelity.least_tail_sums`."""
    sums, shifts = np.empty(len(spreads), dtype=np.int64), np.array(SHIFTS)
    margins, rows = np.ascontiguousarray(margins), np.array(spreads, dtype=np.float64)
    kernel.library().kilotune_least_tail_sums(
        ctypes.c_int32(len(spreads)),
        ctypes.c_int64(len(margins)),
        ctypes.c_void_p(margins.ctypes.data),
        ctypes.c_void_p(rows.ctypes.data),
        ctypes.c_int32(len(shifts)),
        ctypes.c_void_p(shifts.ctypes.data),
        ctypes.c_double(STEPS),
        ctypes.c_double(TINY),
        ctypes.c_void_p(normal_tails().ctypes.data),
        ctypes.c_int32(LAST),
        ctypes.c_void_p(sums.ctypes.data),
    )
    return sums.tolist()
