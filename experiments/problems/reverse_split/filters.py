"""Well-known filters by name, for `tune --space reverse-split --input NAME`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.experiments.problems.family import ListedRows, ListingRequest

KernelRows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Filter:
    """Integer rows of each kernel, north to south, over a common divisor."""

    name: str
    what: str
    rows: tuple[KernelRows, ...]
    divisor: int = 1

    @property
    def kernels(self) -> KernelSet:
        return KernelSet(
            tuple(Kernel.of_rows([[Fraction(w, self.divisor) for w in row] for row in rows]) for rows in self.rows)
        )

    @property
    def size(self) -> str:
        """Such as `3x3`, or `2 of 3x3`."""
        kernel = f"{len(self.rows[0])}x{len(self.rows[0][0])}"
        return kernel if len(self.rows) == 1 else f"{len(self.rows)} of {kernel}"


def _outer(weights: tuple[int, ...]) -> KernelRows:
    return tuple(tuple(a * b for b in weights) for a in weights)


def _turned(rows: KernelRows) -> KernelRows:
    return tuple(zip(*rows, strict=True))


_SOBEL = ((1, 0, -1), (2, 0, -2), (1, 0, -1))
_PREWITT = ((1, 0, -1), (1, 0, -1), (1, 0, -1))
_ROBERTS = ((1, 0), (0, -1))
_GAUSS5 = ((0, 1, 2, 1, 0), (1, 4, 6, 4, 1), (2, 6, 10, 6, 2), (1, 4, 6, 4, 1), (0, 1, 2, 1, 0))

# First layer of AnalogNet2 (Wong, Guillard et al., "CNNs on FPSPs", https://github.com/brouwa/CNNs-on-FPSPs), at depth 2, as
# the evaluation of the compiler Cain prints it.
_ANALOGNET2 = (
    ((0, 0, 0), (-3, 1, 0), (-3, 0, 2)),
    ((-4, -1, 1), (-1, 2, 0), (1, 1, 0)),
    ((-1, 2, 0), (-1, 1, -3), (0, -3, 0)),
)

_ALL = (
    Filter("sobel", "horizontal gradient", (_SOBEL,)),
    Filter("sobel-pair", "both gradients at once", (_SOBEL, _turned(_SOBEL))),
    Filter("prewitt", "horizontal gradient", (_PREWITT,)),
    Filter("prewitt-pair", "both gradients at once", (_PREWITT, _turned(_PREWITT))),
    Filter("roberts", "diagonal gradient", (_ROBERTS,)),
    Filter("roberts-pair", "Roberts cross, both diagonals at once", (_ROBERTS, ((0, 1), (-1, 0)))),
    *(Filter(f"box{d}", f"sum of {d}x{d} pixels", (_outer((1,) * d),)) for d in range(2, 13)),
    Filter("gauss3", "binomial, /16", (_outer((1, 2, 1)),), 16),
    Filter("gauss5", "of AUKE's and Cain's evaluations, /64", (_GAUSS5,), 64),
    Filter("gauss5-binomial", "binomial, /256", (_outer((1, 4, 6, 4, 1)),), 256),
    Filter("binomial4", "binomial of even size, /64", (_outer((1, 3, 3, 1)),), 64),
    Filter("laplacian", "four neighbours", (((0, 1, 0), (1, -4, 1), (0, 1, 0)),)),
    Filter("laplacian8", "eight neighbours", (((1, 1, 1), (1, -8, 1), (1, 1, 1)),)),
    Filter("sharpen", "the image minus its Laplacian", (((0, -1, 0), (-1, 5, -1), (0, -1, 0)),)),
    Filter("analognet2", "first layer of AnalogNet2, /4", _ANALOGNET2, 4),
    Filter("identity", "the image itself", (((1,),),)),
)

FILTERS: Mapping[str, Filter] = MappingProxyType({entry.name: entry for entry in _ALL})
DEFAULT_FILTER = "sobel"


def listed(asked: ListingRequest) -> ListedRows:
    """For `tune list filters`."""
    return [
        {"name": f.name, "size": f.size, "what": f.what, "depth": f.kernels.exact_depth()} for f in FILTERS.values()
    ]
