"""Call a function that is wrong on purpose: `python -m tests.sanitized.wrong FILE`."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from kilotune.evaluators.compiled_library import load_library

loaded = load_library(Path(sys.argv[1]))
if loaded is None:
    sys.exit("It does not compile.")
allocated = loaded.library  # numbers of the heap, where the sanitizer knows what lies beside them
heap = ctypes.CDLL(None)
heap.malloc.restype = ctypes.c_void_p
allocated.kilotune_wrong(ctypes.c_void_p(heap.malloc(16)), 4)
