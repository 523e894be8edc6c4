"""Emitted C as a shared library: compiled by the machine's compiler, called sample by sample."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.c import CSource
from kilotune.codegen.fixed.arithmetic import quantise_features

COMPILERS = [c for c in ("gcc", "clang", "cc") if shutil.which(c)]
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="no C compiler: install gcc to compare the emitted C")
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wsign-compare", "-Wshadow", "-pedantic")
SANITISED = ("-O0", "-fsanitize=undefined", "-fno-sanitize-recover=all")
"""Shifts, signed overflow, bounds and alignment: a program stops at the first one. Without optimisation, for at -O1 gcc takes twice as
long. What its levels might change, and what they warn of, has tests of its own in test_bit_exact.py.
"""
_TYPES = {8: np.int8, 16: np.int16, 32: np.int32}


@dataclass(frozen=True)
class CompiledBatch:
    """Several emitted sources in one library."""

    library: ctypes.CDLL
    sources: Sequence[CSource]

    def run(self, index: int, features: FloatArray) -> IntArray:
        """Outputs [samples, elements of the result] of one source on float features."""
        face = self.sources[index].interface
        integers = (
            quantise_features(features, face.input_bits, face.input_scale)
            if face.input_bits
            else np.zeros((len(features), 0))
        )
        return self.run_integers(index, integers)

    def run_integers(self, index: int, samples: IntArray) -> IntArray:
        """The same on features as the program takes them [samples, features]."""
        source = self.sources[index]
        face = source.interface
        function = getattr(self.library, source.function)
        function.restype = ctypes.c_int if face.kind is ir.ResultKind.CLASS else None
        rows = []
        for sample in samples:
            result = np.zeros(face.results, dtype=_TYPES[face.result_bits])
            arguments = []
            if face.input_bits:
                x = sample.astype(_TYPES[face.input_bits])
                arguments.append(ctypes.c_void_p(x.ctypes.data))
            if face.kind is ir.ResultKind.REAL:
                arguments.append(ctypes.c_void_p(result.ctypes.data))
            label = function(*arguments)
            rows.append([label] if face.kind is ir.ResultKind.CLASS else result.astype(np.int64))
        return np.array(rows, dtype=np.int64)


def compile_sources(
    sources: Sequence[CSource], folder: Path, flags: Sequence[str] = ("-O0",), compiler: str = ""
) -> CompiledBatch:
    """Compile all sources by one call; warnings are errors."""
    for source in sources:
        (folder / f"{source.name}.h").write_text(source.header)
        (folder / f"{source.name}.c").write_text(source.source)
    library = folder / "library.so"
    files = [str(folder / f"{source.name}.c") for source in sources]
    command = [compiler or COMPILERS[0], *WARNINGS, *flags, "-shared", "-fPIC", "-o", str(library), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + "\n".join(source.source for source in sources)
    return CompiledBatch(ctypes.CDLL(str(library)), sources)
