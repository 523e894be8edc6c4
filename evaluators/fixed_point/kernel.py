"""The compiled kernel of the batch simulator: built once per machine, kept, loaded."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FLAGS = ("-O3", "-march=native", "-fwrapv", "-std=gnu11", "-shared", "-fPIC")
_SOURCES = ("kernel.c", "kernel_body.h")


@dataclass(frozen=True)
class Kernel:
    """The loaded library and what it was built with."""

    library: ctypes.CDLL
    compiler: str
    vector_unit: str


@cache
def load_kernel() -> Kernel | None:
    """The compiled kernel; None when there is no working C compiler (the NumPy execution is used then)."""
    compiler = next((c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None)
    if compiler is None:
        return None
    try:
        library = ctypes.CDLL(str(_built(compiler)))
    except (OSError, subprocess.SubprocessError):
        return None
    library.kilotune_vector_unit.restype = ctypes.c_char_p
    library.kilotune_run.restype = ctypes.c_int
    return Kernel(library, compiler, library.kilotune_vector_unit().decode())


def _built(compiler: str) -> Path:
    """The shared library, compiled unless the same sources were compiled here before."""
    folder = Path(__file__).parent
    sources = [(folder / name).read_bytes() for name in _SOURCES]
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=60).stdout
    parts = (*sources, version, " ".join(FLAGS).encode(), _processor().encode())
    name = hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]
    target = cache_folder() / f"kernel-{name}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / "kernel.so"
            command = [compiler, *FLAGS, "-o", str(built), str(folder / "kernel.c"), "-lm"]
            subprocess.run(command, capture_output=True, check=True, timeout=300)
            built.replace(target)
    return target


def cache_folder() -> Path:
    """Where compiled kernels are kept between runs: $KILOTUNE_CACHE, else the user's cache folder."""
    chosen = os.environ.get("KILOTUNE_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kilotune"


def _processor() -> str:
    """What -march=native depends on: a home folder may be shared by different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
