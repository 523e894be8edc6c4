"""The compiled kernel of the batch simulator: a library for each rounding and size of blocks, compiled when it is first
asked for."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.fixed_point.sample_blocks import LANES, MANY_LANES

_ROUNDINGS = {Rounding.TOWARD_ZERO: 0, Rounding.FLOOR: 1, Rounding.NEAREST: 2}
USUAL = Rounding.TOWARD_ZERO
"""The papers' rounding, whose library is there as soon as the kernel is."""


@dataclass
class BatchKernel:
    """The libraries that are loaded, by rounding and samples of a block, and what they were built with."""

    source: str
    compiler: str
    vector_unit: str
    most_bits: int = 16
    """How many bits a variable of a program may have that it runs: 16 or 32."""
    most_lanes: int = LANES
    """The largest blocks of samples that are fast with this vector unit, and that the compiler makes."""
    _libraries: dict[tuple[Rounding, int], ctypes.CDLL] = field(default_factory=dict, repr=False)

    @property
    def value(self) -> npt.DTypeLike:
        """The NumPy type of a variable's elements in the kernel's memory."""
        return np.int16 if self.most_bits == 16 else np.int32

    def library(self, rounding: Rounding = USUAL, lanes: int = LANES) -> ctypes.CDLL:
        """The library that divides so, with so many samples in a block. RuntimeError when the compiler has gone since the kernel was
        loaded."""
        known = self._libraries.get((rounding, lanes))
        if known is None:
            loaded = _compiled(self.source, rounding, lanes)
            if loaded is None:
                raise RuntimeError(
                    f"{self.source} is compiled again for another rounding or size of blocks, and {self.compiler} no longer does it"
                )
            known = self._libraries[rounding, lanes] = loaded[0]
        return known

    def opcode(self, name: str) -> int:
        """The number of what executes operations of that name. LookupError when the kernel has nothing for them."""
        number = int(self.library().kilotune_opcode(name.encode()))
        if number < 0:
            raise LookupError(f"the compiled kernel executes no {name}: kernel.c or pointwise.h has to name it")
        return number


@cache
def load_kernel() -> BatchKernel | None:
    """The kernel of programs of 8 and 16 bits; None when there is no working C compiler (the NumPy execution is used then)."""
    kernel = _loaded("kernel.c", 16)
    if kernel is not None:
        load_roundings(kernel, (USUAL,))
    return kernel


@cache
def load_wide_kernel() -> BatchKernel | None:
    """The kernel of programs that have 32 bits somewhere; None as of `load_kernel`."""
    return _loaded("wide_kernel.c", 32)


def load_all_roundings() -> None:
    """The libraries of all roundings of programs of 8 and 16 bits, where there is a compiler: at once where they have to be built."""
    kernel = load_kernel()
    if kernel is not None:
        load_roundings(kernel, tuple(Rounding))


def load_roundings(kernel: BatchKernel, roundings: Sequence[Rounding]) -> None:
    """The libraries of these roundings, with all blocks that programs have, so that no search waits for a compiler. Programs have no large
    blocks where the compiler fails at these. RuntimeError where it fails at the others."""
    wanted = itertools.product(roundings, [lanes for lanes in (LANES, MANY_LANES) if lanes <= kernel.most_lanes])
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda one: _is_made(kernel, *one), wanted))
    if not all(made):
        kernel.most_lanes = LANES


def _is_made(kernel: BatchKernel, rounding: Rounding, lanes: int) -> bool:
    try:
        kernel.library(rounding, lanes)
    except RuntimeError:
        if lanes == LANES:
            raise
        return False
    return True


def _loaded(name: str, most_bits: int) -> BatchKernel | None:
    loaded = _compiled(name, USUAL, LANES)
    if loaded is None:
        return None
    library, compiler = loaded
    return BatchKernel(
        name,
        compiler,
        library.kilotune_vector_unit().decode(),
        most_bits,
        int(library.kilotune_most_lanes()),
        {(USUAL, LANES): library},
    )


def _compiled(name: str, rounding: Rounding, lanes: int) -> tuple[ctypes.CDLL, str] | None:
    macros = (f"KERNEL_ROUNDING={_ROUNDINGS[rounding]}", f"LANES={lanes}")
    loaded = load_library(Path(__file__).with_name(name), macros=macros)
    if loaded is None:
        return None
    loaded.library.kilotune_vector_unit.restype = ctypes.c_char_p
    loaded.library.kilotune_run.restype = ctypes.c_int
    loaded.library.kilotune_memory_bytes.restype = ctypes.c_int64
    return loaded.library, loaded.compiler
