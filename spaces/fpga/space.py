"""The decision problem of a fixed-point program on an FPGA (SeeDot Section 6): unroll factors, processing elements, multipliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatState
from kilotune.search.space import Assignment, CandidateModel, Procedure, Trial
from kilotune.spaces.fpga.candidates import SEMANTICS, HardwareCandidates
from kilotune.spaces.fpga.choices import QUARTER, HardwareChoices, Way
from kilotune.spaces.fpga.hints import greedy_hints


class FpgaSpace(HardwareCandidates):
    """How each operation of a program is done in hardware: flat decisions."""

    name = "fpga"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the program, the board and the goal."""
        batch, board = self.program.batch, self.board
        content = (batch.program, batch.rows, batch.bits, batch.scales, self.program.parameters)
        return fingerprint(self.name, SEMANTICS, *content, board.family, board.gates, self.goal)

    def size(self) -> int:
        """Number of candidates."""
        return math.prod(len(decision.options) for decision in self.decisions)

    def start(self) -> FlatState:
        """Nothing decided."""
        return FlatState(self.decisions, self.bound_of)

    def bound_of(self, decided: Assignment) -> float:
        """A loss that no completion undercuts. Of no decisions 0: a study asks that before it begins, and the tables of parts that say more
        take seconds, which are the search's."""
        return self.least.loss(decided) if decided else 0.0

    def procedure(self) -> Procedure:
        """The paper's hints: the largest unroll factor that fits, in program order; a quarter of a sparse matrix' columns is given to
        idle elements. Multiplications take multipliers, everything is pipelined, and memories have a read port."""
        ranking = self.ranking
        rows = range(len(self.choices.operations))
        ways = [[way for way in self.choices.ways(row) if _papers(way, row, self.choices)] for row in rows]
        hints = greedy_hints(ways, lambda tried: self.choices.answers(dict(enumerate(tried)), True, 1))
        fits: bool | None = None
        while True:
            try:
                asked = next(hints) if fits is None else hints.send(fits)
            except StopIteration as found:
                yield [self.choices.answers(dict(enumerate(found.value)), True, 1)]
                return
            trials = yield [asked]
            fits = ranking.violation(trials[0].measurement) == 0.0

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """A knapsack of ways, one for each operation; see `spaces.fpga.model`."""
        from kilotune.spaces.fpga.model import KnapsackModel  # OR-tools takes a second to import

        return KnapsackModel(self, trials)


def _papers(way: Way, row: int, choices: HardwareChoices) -> bool:
    """Whether the paper's compiler would do an operation so."""
    if choices.multipliers and way.soft:
        return False
    if row in choices.nonzeros:
        return way.lanes == 1 if not way.shared else way.shared == QUARTER
    return True
