"""What picks candidates: the Strategy protocol, straight-line search code as a Strategy, and strategies by name."""

from __future__ import annotations

import enum
import importlib
import math
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kilotune.search import space as search_space
from kilotune.search.front import Rank
from kilotune.search.own_strategies import Needs, own_strategies, own_strategy_names
from kilotune.search.racing import NamesHurdle, asks_again
from kilotune.search.space import Assignment, Clock, FlatSpace, HasFlatView, Space, Trial
from kilotune.search.strategy_plugins import StrategyPlugIn, find_strategy_plug_in, is_search, plugged_names
from kilotune.search.suggestion import did_you_mean

if TYPE_CHECKING:
    import numpy as np


class Outcome(enum.Enum):
    """How a strategy ended by itself."""

    PROVED = "proved"  # no candidate can be better than the best one found (or none is feasible)
    EXHAUSTED = "exhausted"  # every candidate has been measured
    FINISHED = "finished"  # a procedure came to its end; nothing is claimed
    STALLED = "stalled"  # it proposes nothing but what it has seen


@runtime_checkable
class Strategy(Protocol):
    """Picks candidates. The engine owns the loop, the clock, the cache and the store."""

    @property
    def outcome(self) -> Outcome | None:
        """None: it goes on."""

    @property
    def bound(self) -> float:
        """A loss of the first objective that no feasible candidate can beat; -inf if unknown."""

    def propose(self, count: int) -> list[Assignment]:
        """At most `count` candidates. None of them, with `outcome` still None: it is waiting for trials that it
        proposed, or thinking; the engine looks at its clock and asks again."""

    def learn(self, trials: Sequence[Trial]) -> None:
        """Finished (also failed) trials, one for each proposal and in the order of the proposals. A candidate
        proposed before comes back with the number of its first trial."""


@runtime_checkable
class TimeAware(Protocol):
    """Ability of a strategy or a procedure: it thinks for long (a solver), so it is told how long it may."""

    def allow(self, seconds: float) -> None:
        """What is left of the budget, before each `propose`."""


@runtime_checkable
class ClockAware(Protocol):
    """Ability of a strategy that is `TimeAware`: it looks at the time while it thinks, so it is told by which clock."""

    def count_by(self, clock: Clock) -> None:
        """The clock of the budget's seconds, once and before all else."""


@runtime_checkable
class GoesOn(Protocol):
    """Ability of a strategy: where its search can go on without being repeated, it is told what there is to go on from."""

    def go_on(self, trials: Callable[[], Sequence[Trial]]) -> None:
        """What makes a list of the trials of earlier runs of the study, by number; some, and before all else. Of a long study it takes
        gigabytes, so whoever does not go on asks for none. Where it goes on it proposes all of them first."""


Steps = Generator[list[Assignment], list[Trial], Outcome | None]
"""Yields batches of candidates, is sent their trials in the same order. An empty batch lets the engine look at its
clock. Returns the outcome, None standing for FINISHED."""


class SteppedSearch(Protocol):
    """Search written as straight-line code."""

    @property
    def bound(self) -> float:
        """As `Strategy.bound`, as of the last batch that was yielded."""

    def steps(self) -> Steps:
        """The search itself. Called once."""


class SteppedStrategy:
    """A Strategy around straight-line code.

    The code sees whole batches only, however the engine cuts them up: so neither the number of workers nor the
    speed of the evaluations changes what it proposes.

    `partial`: the search sees some candidates of the space only (a flat view), so that none may be left there says
    nothing about the space.
    """

    def __init__(self, search: SteppedSearch, partial: bool = False) -> None:
        self._search, self._partial = search, partial
        self._allow = search.allow if isinstance(search, TimeAware) else None
        self._count_by = search.count_by if isinstance(search, ClockAware) else None
        self._named = search if isinstance(search, NamesHurdle) else None
        self._go_on = search.go_on if isinstance(search, GoesOn) else None
        self._steps = search.steps()
        self._started = False
        self._batch: list[Assignment] = []
        self._given = 0
        self._learnt: list[Trial] = []
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome | None:
        return self._outcome

    @property
    def bound(self) -> float:
        return UNKNOWN_BOUND if self._partial else self._search.bound

    @property
    def hurdle(self) -> Rank | None:
        """That of the search, as of its last batch; None for one that names none."""
        return None if self._named is None else self._named.hurdle

    @property
    def asks_again(self) -> bool:
        """As of the search."""
        return asks_again(self._search)

    def allow(self, seconds: float) -> None:
        if self._allow is not None:
            self._allow(seconds)

    def count_by(self, clock: Clock) -> None:
        if self._count_by is not None:
            self._count_by(clock)

    def go_on(self, trials: Callable[[], Sequence[Trial]]) -> None:
        if self._go_on is not None:
            self._go_on(trials)

    def propose(self, count: int) -> list[Assignment]:
        if self._outcome is None and len(self._learnt) == len(self._batch):
            self._advance()
        proposals = self._batch[self._given : self._given + count]
        self._given += len(proposals)
        return proposals

    def learn(self, trials: Sequence[Trial]) -> None:
        self._learnt.extend(trials)

    def _advance(self) -> None:
        try:
            self._batch = self._steps.send(self._learnt) if self._started else next(self._steps)
        except StopIteration as end:
            outcome = end.value or Outcome.FINISHED
            self._batch, self._outcome = [], Outcome.FINISHED if self._partial else outcome
        self._started, self._given, self._learnt = True, 0, []


def batch_generator(seed: int, start: int) -> np.random.Generator:
    """Random numbers for the batch whose first proposal is number `start`: they depend on nothing else."""
    import numpy as np  # here, so that a command can list the strategies without waiting for it

    return np.random.default_rng((seed, start))


def strategy_names() -> tuple[str, ...]:
    """All strategies, those of plug-ins behind our own, by the names that `make_strategy` takes; `optuna:SAMPLER` works
    besides. Nothing is imported for it, so a plug-in among them need not work."""
    return tuple(dict.fromkeys((*own_strategy_names(), *plugged_names())))


def make_strategy(name: str, space: Space, seed: int) -> Strategy:
    """A fresh strategy. ValueError, a sentence: no such strategy, or it does not fit the space.

    A strategy for independent decisions searches the flat view of a tree that has one (`HasFlatView`); one that could walk
    the tree does so where the space prefers it.
    """
    family, _, sampler = name.partition(":")
    if family == "optuna" and sampler:
        searched = _flat_view_of(space, Needs.FLAT)
        module = importlib.import_module("kilotune.search.strategies.tpe")
        return SteppedStrategy(module.OptunaSearch(searched, seed, sampler), searched is not space)
    if name not in own_strategies():
        return _plugged_strategy(name, space, seed)
    own = own_strategies()[name]
    module = importlib.import_module(f"kilotune.search.strategies.{name}")
    searched = _flat_view_of(space, own.needs)
    try:
        return SteppedStrategy(getattr(module, own.class_name)(searched, seed), searched is not space)
    except ValueError as error:
        raise ValueError(f"{error} For it there are {', '.join(_names_for(space, name))}.") from None


def _names_for(space: Space, refused: str = "") -> list[str]:
    """The strategies that a space can be searched with, as far as they say what they need, without the one that was refused."""
    needed = {name: own.ability for name, own in own_strategies().items()}
    abilities = {name: getattr(search_space, ability) for name, ability in needed.items() if ability}
    return [name for name in strategy_names() if name != refused and isinstance(space, abilities.get(name, object))]


def libraries_of(name: str) -> tuple[str, ...]:
    """Modules of other packages that a strategy of that name imports, as far as it says so: who has a clock to start imports
    them before. None for a name that no strategy has."""
    if name.startswith("optuna:"):
        return own_strategies()["tpe"].libraries
    own = own_strategies().get(name)
    if own is not None:
        return own.libraries
    plug_in = find_strategy_plug_in(name)
    return () if plug_in is None else plug_in.libraries


def _plugged_strategy(name: str, space: Space, seed: int) -> Strategy:
    """The strategy of a plug-in. ValueError as `make_strategy`."""
    plug_in = find_strategy_plug_in(name)
    if plug_in is None:
        known = _names_for(space)
        raise ValueError(
            f"There is no strategy {name!r}{did_you_mean(name, known)}; for {space.name!r} there are {', '.join(known)}, "
            "and optuna:SAMPLER for Optuna's samplers."
        )
    return plugged_strategy(plug_in, space, seed)


def plugged_strategy(plug_in: StrategyPlugIn, space: Space, seed: int) -> Strategy:
    """A fresh strategy of somebody else's class or function, on the flat view of the space where it needs that. ValueError, a
    sentence, when it does not fit the space or makes no strategy."""
    searched = _flat_view_of(space, Needs.FLAT if plug_in.needs_flat else Needs.WHOLE)
    made = plug_in.call(searched, seed)
    if is_search(made):
        return SteppedStrategy(made, searched is not space)
    strategy: Strategy = made
    return strategy


def _flat_view_of(space: Space, needs: Needs) -> Space:
    if needs is Needs.WHOLE or isinstance(space, FlatSpace) or not isinstance(space, HasFlatView):
        return space
    return space.flat_view() if needs is Needs.FLAT or space.prefers_flat else space


UNKNOWN_BOUND = -math.inf
"""The bound of a strategy that knows none."""
