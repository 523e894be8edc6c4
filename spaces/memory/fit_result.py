"""What a search for a placement within a capacity answers, whichever implementation was asked."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kilotune.codegen.arrays import IntArray


class FitStatus(enum.IntEnum):
    """Answers to one question. The numbers are those of placing.c."""

    FITS = 0
    FAILS = 1
    STOPPED = 2
    NO_MEMORY = 3


@dataclass(frozen=True)
class FitResult:
    """`offsets` is meaningful for FITS, `least_peak` (bytes, which every placement reaches) for FAILS.

    `blame`, shape (sections,): how often something did not fit there.
    """

    status: FitStatus
    offsets: IntArray
    least_peak: int
    nodes: int
    blame: IntArray
