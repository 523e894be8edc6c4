"""Well-known filters, as the tests of reverse splitting need them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kilotune.codegen.scamp.kernel import ApproximatedSet, Kernel, KernelSet

Rows = Sequence[Sequence[int]]

SOBEL = ((1, 0, -1), (2, 0, -2), (1, 0, -1))
GAUSS3 = ((1, 2, 1), (2, 4, 2), (1, 2, 1))
LAPLACIAN = ((0, 1, 0), (1, -4, 1), (0, 1, 0))


def box(side: int) -> Rows:
    """All weights one."""
    return [[1] * side] * side


def kernels(*pictures: Rows, divisor: int = 1) -> ApproximatedSet:
    """At the least depth that is exact."""
    exact = KernelSet(tuple(Kernel.of_rows([[Fraction(w, divisor) for w in row] for row in rows]) for rows in pictures))
    depth = exact.exact_depth()
    assert depth is not None
    return exact.approximate(depth)
