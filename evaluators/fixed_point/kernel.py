"""The compiled kernel of the batch simulator."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.evaluators.compiled_library import load_library


@dataclass(frozen=True)
class BatchKernel:
    """The loaded library and what it was built with."""

    library: ctypes.CDLL
    compiler: str
    vector_unit: str
    most_bits: int = 16
    """How many bits a variable of a program may have that it runs: 16 or 32."""

    @property
    def value(self) -> npt.DTypeLike:
        """The NumPy type of a variable's elements in the kernel's memory."""
        return np.int16 if self.most_bits == 16 else np.int32

    def opcode(self, name: str) -> int:
        """The number of what executes operations of that name. LookupError when the kernel has nothing for them."""
        number = int(self.library.kilotune_opcode(name.encode()))
        if number < 0:
            raise LookupError(f"the compiled kernel executes no {name}: kernel.c or pointwise.h has to name it")
        return number


@cache
def load_kernel() -> BatchKernel | None:
    """The kernel of programs of 8 and 16 bits; None when there is no working C compiler (the NumPy execution is used then)."""
    return _loaded("kernel.c", 16)


@cache
def load_wide_kernel() -> BatchKernel | None:
    """The kernel of programs that have 32 bits somewhere; None as of `load_kernel`."""
    return _loaded("wide_kernel.c", 32)


def _loaded(name: str, most_bits: int) -> BatchKernel | None:
    folder = Path(__file__).parent
    loaded = load_library(folder / name, [*sorted(folder.glob("*.h")), folder / "kernel.c"])
    if loaded is None:
        return None
    loaded.library.kilotune_vector_unit.restype = ctypes.c_char_p
    loaded.library.kilotune_run.restype = ctypes.c_int
    return BatchKernel(loaded.library, loaded.compiler, loaded.library.kilotune_vector_unit().decode(), most_bits)
