"""The compiled kernel of the batch simulator."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kilotune.evaluators.compiled_library import load_library


@dataclass(frozen=True)
class BatchKernel:
    """The loaded library and what it was built with."""

    library: ctypes.CDLL
    compiler: str
    vector_unit: str

    def opcode(self, name: str) -> int:
        """The number of what executes operations of that name. LookupError when the kernel has nothing for them."""
        number = int(self.library.kilotune_opcode(name.encode()))
        if number < 0:
            raise LookupError(f"the compiled kernel executes no {name}: kernel.c or pointwise.h has to name it")
        return number


@cache
def load_kernel() -> BatchKernel | None:
    """The kernel; None when there is no working C compiler (the NumPy execution is used then)."""
    folder = Path(__file__).parent
    loaded = load_library(folder / "kernel.c", sorted(folder.glob("*.h")))
    if loaded is None:
        return None
    loaded.library.kilotune_vector_unit.restype = ctypes.c_char_p
    loaded.library.kilotune_run.restype = ctypes.c_int
    return BatchKernel(loaded.library, loaded.compiler, loaded.library.kilotune_vector_unit().decode())
