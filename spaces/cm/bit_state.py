"""Partial mappings of a network whose bits are open: bits first, then what a mapping of the network decides that they make."""

from __future__ import annotations

import math

from kilotune.search.space import Assignment, Decision, Option, State, answered
from kilotune.spaces.cm.bit_candidates import ACCURACY, BitCandidates


class BitsState:
    """The answers so far: bits first, then those of a mapping of the network that they make."""

    def __init__(
        self, space: BitCandidates, answers: tuple[tuple[str, Option], ...] = (), inner: State | None = None
    ) -> None:
        self.space, self._answers, self._inner = space, answers, inner

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        return dict(self._answers)

    @property
    def decision(self) -> Decision | None:
        """The next bits, or the next question about a mapping; None also where no network has these bits."""
        if len(self._answers) < len(self.space.bit_decisions):
            return self.space.bit_decisions[len(self._answers)]
        return None if self._inner is None else self._inner.decision

    def take(self, option: Option) -> BitsState:
        """Answer the next decision."""
        decision = answered(self.decision, option)
        answers = (*self._answers, (decision.name, option))
        if self._inner is not None:
            return BitsState(self.space, answers, self._inner.take(option))
        inner = None
        if len(answers) == len(self.space.bit_decisions):
            try:
                inner = self.space.at(dict(answers)).start()
            except ValueError:
                inner = None
        return BitsState(self.space, answers, inner)

    def bound(self) -> float:
        """No completion beats it in the leading objective; of accuracy on noisy cells nothing is known."""
        if self.space.question.objective == ACCURACY:
            return 0.0
        if self._inner is not None:
            return self._inner.bound()
        return math.inf if self.decision is None else self.space.least_objective
