"""The compiled search over split states."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from kilotune.evaluators.compiled_library import load_library


@cache
def load_kernel() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("splitting.c"))
    if loaded is None:
        return None
    library = loaded.library
    pointer, number, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    library.kilotune_split.argtypes = [*[number] * 6, *[pointer] * 4, long, ctypes.c_uint64, *[pointer] * 3]
    library.kilotune_split.restype = number
    return library
