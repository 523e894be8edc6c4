"""A cost that is estimated of all candidates and known of a few: by what the estimate is off at these, it is corrected near them.

The additive correction of multi-fidelity optimisation (an additive bridge function: Alexandrov et al., Approximation and model management
in aerodynamic optimization with variable-fidelity models, Journal of Aircraft 2001), which is constant around each known candidate: by how
much candidates cost more or less than one that differs in a decision or two is estimated well, however far off both estimates are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kilotune.search.space import Assignment, Option


class CorrectedEstimate:
    """What is known of an estimate's errors: so far nothing."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, Option], int] = {}
        self._known: list[frozenset[int]] = []
        self._off: list[float] = []

    def learn(self, candidate: Assignment, estimated: float, cost: float) -> None:
        """What a candidate really costs."""
        self._known.append(self._answers(candidate))
        self._off.append(cost - estimated)

    def corrected(self, candidate: Assignment, estimated: float) -> float:
        """The estimate, and what the known candidates cost beyond theirs that answer the fewest decisions otherwise, on average."""
        if not self._off:
            return estimated
        answers = self._answers(candidate)
        apart = [len(answers ^ known) for known in self._known]
        return estimated + float(np.mean(np.array(self._off)[_least(apart)]))

    def _answers(self, candidate: Assignment) -> frozenset[int]:
        return frozenset(self._numbers.setdefault(answer, len(self._numbers)) for answer in candidate.items())


def _least(numbers: Sequence[int]) -> list[int]:
    """The places of the least."""
    least = min(numbers)
    return [place for place, number in enumerate(numbers) if number == least]
