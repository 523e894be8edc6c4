"""What a study may begin with, whatever its strategy: a cheap candidate, what a short search of the space's own finds, then the paper's
own procedure. So its best is never worse than the paper's answer once that has been measured.

The candidates are trials like any others: they are stored, cost budget, and a resumed study proposes them again. A comparison
does without, for its strategies would all owe their first good candidate to the procedure.

A procedure may ask a solver that answers in a second or not at all. So one of its thoughts has half of the time that is left, and the
strategy has the rest: a search that never began would have nothing to show but what the procedure proposes first. A short search has
less than that, and the procedure its turn where it is given up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from kilotune.search.abandoning import abandonable
from kilotune.search.front import Rank
from kilotune.search.racing import NamesHurdle
from kilotune.search.space import Assignment, Clock, HasFallback, HasProcedure, HasShortSearch, Space, Trial
from kilotune.search.strategy import UNKNOWN_BOUND, ClockAware, Outcome, SteppedStrategy, Steps, Strategy, TimeAware

THOUGHT_SHARE = 0.5
"""How much of the time that is left one thought of the procedure has."""


SHORT_SHARE = 0.4
"""How much of it a short search has."""


class WarmStart:
    """The fallback of a space that has one, what its short search finds, and its procedure."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space) -> None:
        self._space = space
        self._clock: Clock = time.monotonic
        self._seconds_left = math.inf
        self.at_procedure = False
        """Whether what is proposed now is the procedure's."""

    def allow(self, seconds: float) -> None:
        self._seconds_left = seconds

    def count_by(self, clock: Clock) -> None:
        self._clock = clock

    def steps(self) -> Steps:
        fallback = self._space.fallback() if isinstance(self._space, HasFallback) else None
        if fallback is not None:
            yield [fallback]
        found = self._short_search(self._space) if isinstance(self._space, HasShortSearch) else None
        if found is not None:
            yield [found]
        if isinstance(self._space, HasProcedure):
            self.at_procedure = True
            yield from self._space.procedure()
        return Outcome.FINISHED

    def _short_search(self, space: HasShortSearch) -> Assignment | None:
        """What it finds; None where it takes too long."""
        if math.isinf(self._seconds_left):
            return space.short_search()
        end_s, found = self._clock() + SHORT_SHARE * self._seconds_left, None
        with abandonable(lambda: self._clock() >= end_s) as searching:
            found = space.short_search()
        return None if searching.abandoned else found


class WarmStartedStrategy:
    """A warm start, then a strategy, which hears of its own proposals only.

    `procedure`: the trial of the procedure's answer; None until the procedure has ended, and where there is none. `given_up`: it took too
    long over a thought, and will not end.
    """

    def __init__(self, space: Space, strategy: Strategy) -> None:
        self._warm_start = WarmStart(space)
        self._stepped = SteppedStrategy(self._warm_start)
        self._has_procedure = isinstance(space, HasProcedure)
        self._strategy = strategy
        self._named = strategy if isinstance(strategy, NamesHurdle) else None
        self._last: Trial | None = None
        self._clock: Clock = time.monotonic
        self._seconds_left = math.inf
        self.procedure: Trial | None = None
        self.given_up = False

    @property
    def outcome(self) -> Outcome | None:
        return None if self._opens else self._strategy.outcome

    @property
    def procedure_ended(self) -> bool:
        """Whether there is a procedure, and it came to its end, with an answer or without."""
        return self._has_procedure and not self._opens and not self.given_up

    @property
    def bound(self) -> float:
        return self._strategy.bound

    @property
    def hurdle(self) -> Rank | None:
        """That of the strategy; what comes before it is measured whole."""
        return None if self._opens or self._named is None else self._named.hurdle

    def allow(self, seconds: float) -> None:
        self._seconds_left = seconds
        self._stepped.allow(seconds)
        if isinstance(self._strategy, TimeAware):
            self._strategy.allow(seconds)

    def count_by(self, clock: Clock) -> None:
        self._clock = clock
        self._stepped.count_by(clock)
        if isinstance(self._strategy, ClockAware):
            self._strategy.count_by(clock)

    def propose(self, count: int) -> list[Assignment]:
        if self._opens:
            proposals = self._opening(count)
            if self._opens:
                return proposals
            self.procedure = self._last if self.procedure_ended else None
        return self._strategy.propose(count)

    def _opening(self, count: int) -> list[Assignment]:
        """What the warm start proposes; nothing where it thinks for too long, and then never again."""
        if math.isinf(self._seconds_left):
            return self._stepped.propose(count)
        end_s = self._clock() + THOUGHT_SHARE * self._seconds_left
        proposals = list[Assignment]()
        with abandonable(lambda: self._clock() >= end_s) as thinking:
            proposals = self._stepped.propose(count)
        self.given_up = thinking.abandoned
        return [] if thinking.abandoned else proposals

    def learn(self, trials: Sequence[Trial]) -> None:
        if self._opens:
            if trials and self._warm_start.at_procedure:  # a procedure may come to no answer; the fallback is not its
                self._last = trials[-1]
            self._stepped.learn(trials)
        else:
            self._strategy.learn(trials)

    @property
    def _opens(self) -> bool:
        return self._stepped.outcome is None and not self.given_up
