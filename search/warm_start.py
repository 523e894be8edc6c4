"""What a study may begin with, whatever its strategy: a cheap candidate, what a short search of the space's own finds, then the paper's
own procedure. So its best is never worse than the paper's answer once that has been measured.

The candidates are trials like any others: they are stored, cost budget, and a resumed study proposes them again. A comparison
does without, for its strategies would all owe their first good candidate to the procedure.

A procedure may ask a solver that answers in a second or not at all. So one of its thoughts has half of the time that is left, and the
strategy has the rest: a search that never began would have nothing to show but what the procedure proposes first. A short search has
less than that, and the procedure its turn where it is given up. A study keeps how far the procedure came. What ended once is thought
again when it is resumed, however long that takes; a thought that was given up only where there is more time for it now, and then the
budget counts it. A short search has its turn whenever a study is resumed.

What a procedure proposes may itself take seconds to measure, which nothing limits but the budget. So where a space says that its procedure
takes long, the strategy has a share of the time before it, behind the fallback.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from kilotune.search.abandoning import abandonable
from kilotune.search.front import Rank
from kilotune.search.racing import NamesHurdle, asks_again
from kilotune.search.space import (
    Assignment,
    Clock,
    HasFallback,
    HasProcedure,
    HasShortSearch,
    Space,
    Trial,
    answers_always,
    procedure_takes_long,
)
from kilotune.search.strategy import UNKNOWN_BOUND, ClockAware, Outcome, SteppedStrategy, Steps, Strategy, TimeAware

THOUGHT_SHARE = 0.5
"""How much of the time that is left one thought of the procedure has."""

SHORT_SHARE = 0.4
"""How much of it a short search has."""

SEARCH_SHARE = 0.5
"""How much of it the strategy has before a procedure that takes long."""


@dataclass(frozen=True)
class GivenUp:
    """The thought at which a procedure was given up: how many candidates had been proposed before it, that of a short search not
    counted, which there is or is not by how busy the machine was; and how many seconds it had."""

    proposed: int
    seconds: float


@dataclass(frozen=True)
class ProcedureBefore:
    """What earlier runs of a study have left to know of the procedure: whether it ended, or where it was given up."""

    ended: bool = False
    given_up: GivenUp | None = None

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> ProcedureBefore:
        """What `as_json` wrote; an empty object is that of a study without an earlier run. ValueError "expected X, found Y" for others."""
        given_up, ended = (
            (kept.get("given_up"), kept.get("ended", False)) if isinstance(kept, Mapping) else (None, None)
        )
        sound = given_up is None or (isinstance(given_up, Mapping) and set(given_up) == {"proposed", "seconds"})
        if not (sound and isinstance(ended, bool)):
            raise ValueError(f"expected how far a procedure came, found {json.dumps(kept)}")
        return cls(ended, None if given_up is None else GivenUp(**given_up))


class WarmStart:
    """The fallback of a space that has one, what its short search finds, and its procedure."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space) -> None:
        self._space = space
        self._clock: Clock = time.monotonic
        self._seconds_left = math.inf
        self.at_procedure = False
        """Whether what is proposed now is the procedure's."""
        self.at_short_search = False
        """Whether it is what a short search has found."""
        self.short_search_waits = isinstance(space, HasShortSearch)
        """Whether there is one that has not had its turn yet."""
        self.leaves_out_procedure = False
        """Whether to end where the procedure would begin."""

    def allow(self, seconds: float) -> None:
        self._seconds_left = seconds

    def count_by(self, clock: Clock) -> None:
        self._clock = clock

    @cached_property
    def fallback(self) -> Assignment | None:
        """The space's, if it has one."""
        return self._space.fallback() if isinstance(self._space, HasFallback) else None

    def steps(self) -> Steps:
        if self.fallback is not None:
            yield [self.fallback]
        found = self._short_search(self._space) if isinstance(self._space, HasShortSearch) else None
        if found is not None:
            self.at_short_search = True
            yield [found]
            self.at_short_search = False
        if isinstance(self._space, HasProcedure) and not self.leaves_out_procedure:
            self.at_procedure = True
            yield from self._space.procedure()
        return Outcome.FINISHED

    def _short_search(self, space: HasShortSearch) -> Assignment | None:
        """What it finds; None where it takes too long."""
        self.short_search_waits = False
        if math.isinf(self._seconds_left):
            return space.short_search()
        end_s, found = self._clock() + SHORT_SHARE * self._seconds_left, None
        with abandonable(lambda: self._clock() >= end_s) as searching:
            found = space.short_search()
        return None if searching.abandoned else found


class WarmStartedStrategy:
    """A warm start, then a strategy, which hears of its own proposals only.

    `procedure`: the trial of the procedure's answer; None until the procedure has ended, and where there is none. `given_up`: the thought
    that took too long, so that it will not end. `before`: what earlier runs of the study have left to know.
    """

    def __init__(self, space: Space, strategy: Strategy, before: ProcedureBefore = ProcedureBefore()) -> None:
        self._warm_start = WarmStart(space)
        self._stepped = SteppedStrategy(self._warm_start)
        self._has_procedure = isinstance(space, HasProcedure)
        self._answers_always = answers_always(space)
        self._strategy = strategy
        self._named = strategy if isinstance(strategy, NamesHurdle) else None
        self._last: Trial | None = None
        self._clock: Clock = time.monotonic
        self._seconds_left = math.inf
        self.procedure: Trial | None = None
        self.given_up: GivenUp | None = None
        self._before = before
        self._proposed = 0  # by the warm start
        self._searches_first = procedure_takes_long(space) and self._has_procedure
        self._searched_until_s: float | None = None  # of a strategy that has its turn first
        self._searches = False  # what was proposed last is the strategy's

    @property
    def outcome(self) -> Outcome | None:
        return None if self._opens else self._strategy.outcome

    @property
    def procedure_ended(self) -> bool:
        """Whether there is a procedure, and it came to its end, with an answer or without."""
        return self._has_procedure and not self._opens and self.given_up is None

    @property
    def thinks_again(self) -> bool:
        """Whether the next proposals are those over which an earlier run gave the procedure up."""
        given_up = self._before.given_up
        is_there = self._opens and given_up is not None and self._proposed == given_up.proposed
        return is_there and not self._search_is_first()

    @property
    def bound(self) -> float:
        return self._strategy.bound

    @property
    def hurdle(self) -> Rank | None:
        """That of the strategy; what comes before it is measured whole."""
        return self._named.hurdle if self._searches and self._named is not None else None

    @property
    def asks_again(self) -> bool:
        """As of the strategy."""
        return asks_again(self._strategy)

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
        self._searches = not self._opens or self._search_is_first()
        if not self._searches:
            proposals = self._opening(count)
            if self._opens:
                return proposals
            self._searches, self.procedure = True, self._last if self.procedure_ended else None
        return self._strategy.propose(count)

    def _search_is_first(self) -> bool:
        """Whether the strategy has its turn before a procedure that takes long, and how long it may think, which it is told."""
        waits = self._warm_start.fallback is not None and not self._proposed
        if not self._searches_first or waits or math.isinf(self._seconds_left) or self._strategy.outcome is not None:
            return False
        if self._searched_until_s is None:
            self._searched_until_s = self._clock() + SEARCH_SHARE * self._seconds_left
        left_s = self._searched_until_s - self._clock()
        self._searches_first = left_s > 0
        if self._searches_first and isinstance(self._strategy, TimeAware):
            self._strategy.allow(left_s)
        return self._searches_first

    def _opening(self, count: int) -> list[Assignment]:
        """What the warm start proposes; nothing where it thinks for too long, and then never again. A fallback takes what it takes: where a
        busy machine has left next to no time, it may be all that there will be to show."""
        if not self._proposed and self._warm_start.fallback is not None:
            self._proposed = 1
            return self._stepped.propose(count)
        seconds = THOUGHT_SHARE * self._seconds_left
        given_up = self._before.given_up
        skips = given_up is not None and self.thinks_again and seconds <= given_up.seconds
        if skips and not self._warm_start.short_search_waits:
            self.given_up = given_up
            return []
        # A short search may end in time now, on a machine that is less busy.
        self._warm_start.leaves_out_procedure = skips
        # What is promised is all that there will be to show where no time is left.
        promised = self._answers_always and not self._proposed
        unlimited = self._before.ended or math.isinf(seconds) or promised
        proposals = self._stepped.propose(count) if unlimited else self._thought_of(count, seconds)
        if skips and not proposals:
            self.given_up = given_up
        if not self._warm_start.at_short_search:
            self._proposed += len(proposals)
        return proposals

    def _thought_of(self, count: int, seconds: float) -> list[Assignment]:
        end_s = self._clock() + seconds
        proposals = list[Assignment]()
        with abandonable(lambda: self._clock() >= end_s) as thinking:
            proposals = self._stepped.propose(count)
        if thinking.abandoned:
            self.given_up = GivenUp(self._proposed, seconds)
            return []
        return proposals

    def conclude(self) -> None:
        """Nothing is proposed any more. Whether the procedure ends with what has been learnt is for it to say, and all that it is asked."""
        if self._opens and self._warm_start.at_procedure:
            self._stepped.propose(0)
            self.procedure = self._last if self.procedure_ended else None

    def learn(self, trials: Sequence[Trial]) -> None:
        if self._opens and not self._searches:
            if trials and self._warm_start.at_procedure:  # a procedure may come to no answer; the fallback is not its
                self._last = trials[-1]
            self._stepped.learn(trials)
        else:
            self._strategy.learn(trials)

    @property
    def _opens(self) -> bool:
        return self._stepped.outcome is None and self.given_up is None
