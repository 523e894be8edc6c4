"""What is decided of a program besides the formats of its variables: how it divides, and how wide its sums of products are.

Rounding is one decision of the whole program. Sums are decided one by one, since what they need differs: a long sum of 8-bit products may
overflow 16 bits, while a short one of 16-bit weights loses nothing there that its result would keep, and an 8-bit processor adds it in half
the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.search.space import Assignment, Decision, Option

ROUNDING = "rounding of divisions"
"""The decision on how a program divides. No variable has a name with spaces."""

SUMS_OF = "bits of the sums of "
"""What the name of the decision on the width of sums begins with; the variable that they become follows."""

SUM_BITS: Mapping[str, int] = {"auto": 0, "16": 16, "32": 32}
"""Options of that decision. The first is twice the wider operand, as the papers have it."""


@dataclass(frozen=True)
class ProgramDecisions:
    """The decisions of `program` beside those on formats: on its rounding, which begins with `rounding`, where `any_rounding`, and on its
    sums where `any_accumulator`."""

    program: ir.Program
    rounding: Rounding
    any_rounding: bool
    any_accumulator: bool

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """All of them; they come after the formats."""
        sums = [Decision(name, tuple(SUM_BITS)) for name in dict.fromkeys(self._sums.values())]
        return (*([self._rounding_decision()] if self.any_rounding else []), *(sums if self.any_accumulator else []))

    def _rounding_decision(self) -> Decision:
        others = [rounding for rounding in Rounding if rounding is not self.rounding]
        return Decision(ROUNDING, tuple(rounding.value for rounding in (self.rounding, *others)))

    @cached_property
    def _sums(self) -> dict[int, str]:
        """By operation, the decision on the width of its sums."""
        operations = enumerate(ir.operations(self.program.body))
        return {row: SUMS_OF + o.out.variable for row, o in operations if isinstance(o, ir.MatMul | ir.Conv2D)}

    def rounding_of(self, chosen: Option | None) -> Rounding:
        """How a program divides, by its answer to `ROUNDING`; None where that is not asked."""
        return self.rounding if chosen is None else Rounding(chosen)

    def sum_bits(self, batch: Sequence[Assignment]) -> IntArray | None:
        """The width of the sums of every operation [candidates, operations], as `ShiftryLowering.lower` takes it; None where that is not
        asked."""
        if not self.any_accumulator:
            return None
        widths = np.zeros((len(batch), sum(1 for _ in ir.operations(self.program.body))), dtype=np.int64)
        for row, name in self._sums.items():
            widths[:, row] = [SUM_BITS[str(candidate[name])] for candidate in batch]
        return widths
