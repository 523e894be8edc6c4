"""The compiled part of the placement strategies: built once per machine with the C compiler that is there, if any."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC")
_SOURCE = "placing.c"


@cache
def load_kernel() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler (plain Python is used then)."""
    compiler = next((c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None)
    if compiler is None:
        return None
    try:
        library = ctypes.CDLL(str(_built(compiler)))
    except (OSError, subprocess.SubprocessError):
        return None
    pointer, int32, int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    library.kilotune_place_in_order.argtypes = [int32, *[pointer] * 5, int32, pointer]
    library.kilotune_place_in_order.restype = ctypes.c_int
    library.kilotune_search.argtypes = [int32, int32, *[pointer] * 5, int64, int64, pointer, pointer, pointer]
    library.kilotune_search.restype = ctypes.c_int
    return library


def _built(compiler: str) -> Path:
    """The shared library, compiled unless the same source was compiled here before."""
    source = Path(__file__).with_name(_SOURCE)
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=60).stdout
    name = hashlib.sha256(b"\0".join((source.read_bytes(), version, " ".join(FLAGS).encode()))).hexdigest()[:20]
    target = cache_folder() / f"placing-{name}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / "placing.so"
            command = [compiler, *FLAGS, "-o", str(built), str(source)]
            subprocess.run(command, capture_output=True, check=True, timeout=300)
            built.replace(target)
    return target


def cache_folder() -> Path:
    """Where compiled kernels are kept between runs: $KILOTUNE_CACHE, else the user's cache folder."""
    chosen = os.environ.get("KILOTUNE_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kilotune"
