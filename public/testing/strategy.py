"""`check_strategy`: whether a strategy is what the engine relies on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.encoding import encoding_of
from kilotune.search.front import Rank, Ranking
from kilotune.search.result import Status
from kilotune.search.run import DUPLICATES_UNTIL_STALLED
from kilotune.search.space import Assignment, HasFlatView, Space, Trial
from kilotune.search.strategy import Strategy, TimeAware, make_strategy, plugged_strategy
from kilotune.search.strategy_plugins import StrategyPlugIn
from kilotune.search.study import Study
from kilotune.testing.conformance_error import ConformanceError
from kilotune.testing.probe import Probe
from kilotune.testing.toy_spaces import toy_spaces

Factory = str | Callable[[Space, int], Any]
"""The name of a strategy, or a class or function of a space and a seed."""

BITES = (1, 7, 1000)
MOST_IDLE = 10_000
"""Rounds without a proposal, in a row, after which a strategy is taken for one that never goes on."""

MOST_CANDIDATES = 2000
"""The most candidates of spaces whose optimum is found by enumeration."""


@dataclass(frozen=True)
class Match:
    """A strategy on a space."""

    factory: Factory
    space: Space
    seed: int
    trials: int
    seconds: float

    @property
    def subject(self) -> str:
        """Both, for messages."""
        name = self.factory if isinstance(self.factory, str) else getattr(self.factory, "__name__", repr(self.factory))
        return f"The strategy {name} on the space {self.space.name}"

    def error(self, check: str, *, expected: str, found: str, candidate: Assignment | None = None) -> ConformanceError:
        """What is raised when `check` fails."""
        return ConformanceError(check, self.subject, expected=expected, found=found, candidate=candidate)

    def make(self, space: Space | None = None, seed: int | None = None) -> Strategy:
        """A fresh strategy. ValueError when it does not fit the space."""
        searched, from_seed = space or self.space, self.seed if seed is None else seed
        if isinstance(self.factory, str):
            return make_strategy(self.factory, searched, from_seed)
        return plugged_strategy(StrategyPlugIn(self.subject, self.factory), searched, from_seed)

    @cached_property
    def probe(self) -> Probe:
        """The space, and all of its candidates where they are few."""
        return Probe(self.space, 0, MOST_CANDIDATES, self.seed)

    @cached_property
    def optimum(self) -> Rank | None:
        """The best rank of all candidates; None where there are too many."""
        if self.probe.enumerated is None:
            return None
        return min(Ranking.of(self.space).rank(measured) for measured in self.probe.measured)

    @cached_property
    def reachable(self) -> int:
        """How many candidates of a small space a strategy is sure to reach: those of the flat view, where the space has one."""
        everything = len(self.probe.candidates)
        if not isinstance(self.space, HasFlatView):
            return everything
        view = Probe(self.space.flat_view(), 0, MOST_CANDIDATES, self.seed)
        return everything if view.enumerated is None else min(everything, len(view.candidates))

    def proposals(self, bite: int, look: Callable[[Strategy], None] = lambda strategy: None) -> list[Assignment]:
        """The first proposals, when at most `bite` are asked for at once. `look` sees the strategy after each step."""
        strategy, encoding = self.make(), encoding_of(self.space)
        found: list[Assignment] = []
        numbers: dict[Any, int] = {}
        idle = 0
        while len(found) < self.trials:
            if isinstance(strategy, TimeAware):
                strategy.allow(self.seconds)
            batch = strategy.propose(bite)
            look(strategy)
            if not batch and strategy.outcome is not None:
                break
            idle = 0 if batch else idle + 1
            self.require_progress(idle)
            if len(batch) > bite:
                raise self.error("count", expected=f"at most {bite} candidates", found=f"{len(batch)}")
            for candidate in batch:
                self.require_candidate(candidate)
                numbers.setdefault(encoding.key(candidate), len(numbers))
            measured = zip(batch, self.probe.evaluate(batch) if batch else [], strict=True)
            strategy.learn([Trial(numbers[encoding.key(c)], c, m) for c, m in measured])
            found += batch
        return found[: self.trials]

    @cached_property
    def first_proposals(self) -> Mapping[int, list[Assignment]]:
        """The first proposals, by how many are asked for at once (`BITES`): several checks look at them."""
        return {bite: self.proposals(bite) for bite in BITES}

    def require_progress(self, idle: int) -> None:
        """Raise after too many empty rounds in a row."""
        if idle >= MOST_IDLE:
            raise self.error(
                "progress",
                expected="a candidate or an outcome",
                found=f"that it proposes nothing, {idle} empty rounds in a row",
            )

    def require_candidate(self, candidate: Assignment) -> None:
        """Raise for something that is no candidate of the space."""
        encoding = encoding_of(self.space)
        try:
            restored = encoding.candidate(encoding.key(candidate))
        except (ValueError, KeyError) as error:
            raise self.error(
                "inside", expected="a candidate of the space", found=str(error), candidate=candidate
            ) from error
        if dict(restored) != dict(candidate):
            raise self.error(
                "inside", expected="a candidate of the space", found=f"one read as {restored}", candidate=candidate
            )

    @cached_property
    def ended(self) -> Study:
        """A study that had `seconds` to come to its end."""
        return self.study(None)

    def study(self, *runs: int | None) -> Study:
        """The trials of runs of so many trials, one after another; None: until it ends."""
        study = Study(self.space, "checked", self.seed, factory=lambda space, seed: self.make(space, seed))
        for trials in runs:
            budget = Budget(self.seconds) if trials is None else Budget(self.seconds, trials)
            study.run(InProcessExecutor(self.space), budget, handle_interrupts=False)
        return study


def _check_members(match: Match) -> None:
    """A strategy has the members of `kilotune.Strategy`, and is not at its end before it has begun."""
    strategy = match.make()
    if not isinstance(strategy, Strategy):
        raise match.error("members", expected="outcome, bound, propose, learn", found=type(strategy).__name__)
    if strategy.outcome is not None:
        raise match.error("members", expected="no outcome before the first proposal", found=str(strategy.outcome))


def _check_inside(match: Match) -> None:
    """Every proposal is a candidate of the space."""
    assert match.first_proposals  # raises what is wrong with them


def _check_count(match: Match) -> None:
    """No more candidates are proposed at once than are asked for."""
    assert match.first_proposals  # raises what is wrong with them


def _check_progress(match: Match) -> None:
    """A strategy goes on to new candidates until it has an outcome, or there are no others: it is not idle for ever, and does not
    repeat itself for ever. The time that the check may take ends it too."""
    strategy, encoding = match.make(), encoding_of(match.space)
    known: dict[Any, Trial] = {}
    idle, repeated, begun_s = 0, 0, time.monotonic()
    while len(known) < match.reachable and time.monotonic() - begun_s < match.seconds:
        if isinstance(strategy, TimeAware):
            strategy.allow(match.seconds)
        batch = strategy.propose(BITES[-1])
        if not batch and strategy.outcome is not None:
            return
        idle = 0 if batch else idle + 1
        match.require_progress(idle)
        keys = [encoding.key(candidate) for candidate in batch]
        fresh = {key: candidate for key, candidate in zip(keys, batch, strict=True) if key not in known}
        measured = match.probe.evaluate(list(fresh.values())) if fresh else []
        for (key, candidate), measurement in zip(fresh.items(), measured, strict=True):
            known[key] = Trial(len(known), candidate, measurement)
        repeated = 0 if fresh else repeated + len(batch)
        if repeated >= DUPLICATES_UNTIL_STALLED:
            raise match.error(
                "progress",
                expected=f"a new candidate or an outcome, for it has seen {len(known)} of {len(match.probe.candidates)}",
                found=f"only candidates that were there, {repeated} times in a row",
                candidate=batch[-1],
            )
        strategy.learn([known[key] for key in keys])


def _check_seed(match: Match) -> None:
    """Two strategies of one space and one seed propose equal candidates."""
    _compare(match, "seed", match.first_proposals[BITES[1]], match.proposals(BITES[1]), "when it runs again")


def _check_batch_size(match: Match) -> None:
    """A strategy's candidates come in one order, however many the engine asks for at once."""
    first = match.first_proposals[BITES[0]]
    for bite in BITES[1:]:
        _compare(match, "batch size", first, match.first_proposals[bite], f"when {bite} are asked for at once")


def _check_resume(match: Match) -> None:
    """A study that was stopped goes on with the trials that it would have had."""
    # past the last candidate of a small space a study waits for thousands of repetitions before it takes itself for finished
    trials = match.trials if match.optimum is None else min(match.trials, match.reachable)
    half = max(1, trials // 3)
    whole = [trial.assignment for trial in match.study(trials).trials()]
    resumed = [trial.assignment for trial in match.study(half, max(1, trials - half)).trials()]
    _compare(match, "resume", whole, resumed[: len(whole)], "of a study that was stopped and went on")


def _compare(match: Match, check: str, first: Sequence[Assignment], second: Sequence[Assignment], when: str) -> None:
    """Raise at the first candidate that differs, or when one list goes on."""
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if dict(one) != dict(other):
            raise match.error(
                check, expected=f"this as candidate {position} also {when}", found=str(dict(other)), candidate=one
            )
    if len(first) != len(second):
        raise match.error(check, expected=f"{len(first)} candidates also {when}", found=str(len(second)))


def _check_bound(match: Match) -> None:
    """A bound is never above the loss of the optimum."""
    optimum = match.optimum

    def look(strategy: Strategy) -> None:
        feasible = optimum is not None and optimum[0] == 0.0
        if math.isnan(strategy.bound) or (feasible and optimum is not None and strategy.bound > optimum[1]):
            loss = optimum[1] if optimum is not None else "a number"
            raise match.error("bound", expected=f"a bound of at most {loss}, the optimum", found=str(strategy.bound))

    match.proposals(BITES[1], look)


def _check_end(match: Match) -> None:
    """On a small space a search ends by itself."""
    study = match.ended
    if study.status is not Status.FINISHED:
        raise match.error(
            "end",
            expected=f"an end within {match.seconds} s",
            found=f"{study.status.value} after {len(study.trials())} trials",
        )


def _check_claim(match: Match) -> None:
    """What is said to be proved or exhausted is the optimum."""
    study = match.ended
    best = study.front.best
    if study.is_proved() and match.optimum is not None and (best is None or study.front.best_rank != match.optimum):
        raise match.error(
            "claim",
            expected=f"no proof, for {match.optimum} can be reached",
            found=f"the outcome {study.outcome} with {study.front.best_rank if best else 'no trial'}",
            candidate=None if best is None else best.assignment,
        )


_CHECKS: tuple[tuple[str, Callable[[Match], None], bool], ...] = (
    ("members", _check_members, False),
    ("inside", _check_inside, False),
    ("count", _check_count, False),
    ("progress", _check_progress, True),
    ("seed", _check_seed, False),
    ("batch size", _check_batch_size, False),
    ("resume", _check_resume, False),
    ("bound", _check_bound, True),
    ("end", _check_end, True),
    ("claim", _check_claim, True),
)
"""Name, check, and whether it needs a space of few candidates."""

STRATEGY_CHECKS: Mapping[str, str] = MappingProxyType({name: check.__doc__ or "" for name, check, _ in _CHECKS})
"""What `check_strategy` holds, by the name of the check, in the order of the checks."""


def check_strategy(
    factory: Factory,
    *,
    spaces: Sequence[Space] | None = None,
    seed: int = 0,
    trials: int = 40,
    seconds: float = 20.0,
    skip: Collection[str] = (),
) -> None:
    """Check a strategy on `spaces`, by default on `toy_spaces()`; those that it refuses with a ValueError are left out.

    factory: a class or function of a space and a seed, as an entry point names it, or the name of a strategy. trials: how many
    proposals are compared. seconds: what a search on a small space may take at most. skip: names of STRATEGY_CHECKS that are left
    out. ConformanceError, one sentence, for the first check that fails, and when the strategy fits none of the spaces;
    ValueError for a name in `skip` that is none.
    """
    unknown = sorted(set(skip) - set(STRATEGY_CHECKS))
    if unknown:
        raise ValueError(f"skip: expected names of {', '.join(STRATEGY_CHECKS)}, found {unknown[0]!r}.")
    matches, refusals = [], []
    for space in toy_spaces() if spaces is None else spaces:
        match = Match(factory, space, seed, trials, seconds)
        try:
            match.make()
        except ValueError as refusal:
            refusals.append(str(refusal))
        else:
            matches.append(match)
    if not matches:
        name = factory if isinstance(factory, str) else getattr(factory, "__name__", repr(factory))
        raise ConformanceError(
            "members", f"The strategy {name}", expected="a space that it fits", found="; ".join(refusals) or "no space"
        )
    for name, check, small in _CHECKS:
        for match in matches:
            if name not in skip and (not small or match.optimum is not None):
                check(match)
