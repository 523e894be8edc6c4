"""What the code of a program takes in flash besides parameters, tables and what unpacks them: an estimate from programs that were linked.

Code follows the widths of what is computed: a variable of 16 bits brings longer loads, products and divisions, and functions for them. How
much hangs on the program and its neighbours, and no count of what is emitted says it for programs that were not linked. So
some candidates of the very program are, and a plane is laid through them: so many bytes for every wide variable, which is what most of them
share, and what each differs from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray

RIDGE = 3.0
"""What a variable's distance from the others weighs, in linked programs: of 1, 3 and 10 the best on most of eight models."""


@dataclass(frozen=True)
class CodeSize:
    """Bytes of code: `base`, and for each variable of more than 8 bits what `wide` says by its name."""

    base: float
    wide: Mapping[str, float]

    def code_bytes(self, program: ir.Program, bits: IntArray) -> IntArray:
        """Bytes [candidates] of candidates of a program with `bits` [candidates, variables]; whole ones, never below 0."""
        each = np.array([self.wide.get(variable.name, 0.0) for variable in program.variables])
        code: IntArray = np.maximum(np.rint(self.base + (bits > 8) @ each), 0.0).astype(np.int64)
        return code


def fitted_code_size(names: Sequence[str], wide: IntArray, code: Sequence[float]) -> CodeSize:
    """From linked candidates: which of their variables, by `names`, have more than 8 bits, `wide` [candidates, names] of 0 and 1, and the
    bytes of `code` of each. Ridge regression; what all variables have in common is not held back."""
    design = np.hstack([np.ones((len(wide), 1)), wide.sum(axis=1, keepdims=True), wide]).astype(np.float64)
    penalty = np.diag([1e-6, 1e-6, *[RIDGE] * len(names)])
    found = np.linalg.solve(design.T @ design + penalty, design.T @ np.asarray(code, dtype=np.float64))
    whole = np.round(found, 1).tolist()
    return CodeSize(whole[0], {name: round(whole[1] + own, 1) for name, own in zip(names, whole[2:], strict=True)})
