"""The compiled part of the placement strategies."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from kilotune.evaluators.compiled_library import load_library

UNLIMITED_NS = (1 << 63) - 1
"""No clock for a search."""


@cache
def load_ejection() -> ctypes.CDLL | None:
    """The local search of large placements; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("ejecting.c"))
    if loaded is None:
        return None
    library = loaded.library
    pointer, int32, int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    library.kilotune_neighbours.argtypes = [int32, *[pointer] * 4]
    library.kilotune_neighbours.restype = None
    library.kilotune_eject.argtypes = [int32, *[pointer] * 5, *[int64] * 3, *[pointer] * 4]
    library.kilotune_eject.restype = ctypes.c_int
    return library


@cache
def load_kernel() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler (plain Python is used then)."""
    loaded = load_library(Path(__file__).with_name("placing.c"))
    if loaded is None:
        return None
    library = loaded.library
    pointer, int32, int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    library.kilotune_place_in_order.argtypes = [int32, *[pointer] * 5, int32, pointer, pointer]
    library.kilotune_place_in_order.restype = ctypes.c_int
    library.kilotune_search.argtypes = [int32, int32, *[pointer] * 5, *[int64] * 3, *[pointer] * 4]
    library.kilotune_search.restype = ctypes.c_int
    return library
