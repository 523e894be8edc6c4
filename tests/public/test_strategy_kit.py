"""`check_strategy`: each check fails for the strategy that breaks it, says so in a sentence, and passes for all of ours."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Sequence

import pytest

from kilotune.search.own_strategies import own_strategy_names
from kilotune.search.space import Assignment, Space, Trial
from kilotune.search.strategies.random import all_candidates
from kilotune.search.strategy import Outcome, Steps
from kilotune.testing import STRATEGY_CHECKS, ConformanceError, check_strategy, toy_spaces
from kilotune.testing.strategy import Factory
from kilotune.testing.toy_spaces import ToyTable, ToyTree
from tests.public.test_space_kit import GoodView

SMALL = (ToyTable("small", (3, 3, 3)), ToyTree(3))
SLOW_IN_TREES = {"tpe": toy_spaces()[:-1]}
"""Optuna takes milliseconds a proposal, and the engine waits for a thousand in a row that are not new where it can't count."""

PATIENCE_S = 600.0
"""What a search may take that ends by itself, or is to fail for another reason than time. Only `Slow`, which never ends, has less."""

NEED_MORE = {"anneal", "cp", "front"}
"""Ours that need an ability which no toy has; the tests of the spaces run them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in own_strategy_names() if name not in NEED_MORE])
def test_ours_pass(name: str) -> None:
    check_strategy(name, spaces=SLOW_IN_TREES.get(name), trials=24, seconds=PATIENCE_S)


@pytest.mark.parametrize("name", sorted(NEED_MORE))
def test_ours_that_need_more_say_so(name: str) -> None:
    with pytest.raises(ConformanceError, match=r"expected a space that it fits, found .*(needs|has none)"):
        check_strategy(name)


class Enumeration:
    """Every candidate in order, four at a time: right as it is."""

    bound = -math.inf

    def __init__(self, space: Space, seed: int) -> None:
        self.candidates = list(all_candidates(space))

    def steps(self) -> Steps:
        for start in range(0, len(self.candidates), 4):
            yield list(self.candidates[start : start + 4])
        return Outcome.EXHAUSTED


def test_a_right_one_passes() -> None:
    check_strategy(Enumeration)


class Outside(Enumeration):
    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self.candidates[5] = {**self.candidates[5], next(iter(self.candidates[5])): 77}


class Begun(Enumeration):
    """A strategy that has ended before it begins."""

    outcome = Outcome.FINISHED

    def propose(self, count: int) -> list[Assignment]:
        return []

    def learn(self, trials: Sequence[Trial]) -> None:
        """Nothing."""


class Greedy(Begun):
    """Gives all it has, whatever is asked for."""

    outcome = None  # type: ignore[assignment]

    def propose(self, count: int) -> list[Assignment]:
        given, self.candidates = self.candidates, []
        self.outcome = Outcome.FINISHED if not given else None  # type: ignore[assignment]
        return given


RUNS = itertools.count()


class Unseeded(Enumeration):
    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        turned = next(RUNS) % len(self.candidates)
        self.candidates = self.candidates[turned:] + self.candidates[:turned]


class BySize(Begun):
    """What is proposed depends on how many are asked for."""

    outcome = None  # type: ignore[assignment]

    def propose(self, count: int) -> list[Assignment]:
        given = self.candidates[-count:] if count > 1 else self.candidates[:1]
        self.candidates = [c for c in self.candidates if c not in given]
        self.outcome = Outcome.FINISHED if not given else None  # type: ignore[assignment]
        return given


class Timed(Enumeration):
    """Goes on by the clock, which says something else each time a study runs."""

    def steps(self) -> Steps:
        trials = yield self.candidates[:4]
        rest = self.candidates[4:]
        random.Random(trials[-1].elapsed_s).shuffle(rest)
        yield rest
        return Outcome.EXHAUSTED


class TooSure(Enumeration):
    bound = 99.0


class Unsure(Enumeration):
    bound = math.nan


class Slow(Enumeration):
    """Thinks for long, where there are many, once most are known."""

    def steps(self) -> Steps:
        yield self.candidates[:20]
        while len(self.candidates) > 20:
            time.sleep(0.05)
            yield []
        return Outcome.FINISHED


class Silent(Enumeration):
    def steps(self) -> Steps:
        while True:
            yield []


class Idle(Enumeration):
    """Thinks for ever after its first candidates."""

    def steps(self) -> Steps:
        yield self.candidates[:4]
        while True:
            yield []


class LateIdle(Enumeration):
    """Is idle after more candidates than are compared."""

    def steps(self) -> Steps:
        yield self.candidates[:22]
        while len(self.candidates) > 22:
            yield []
        return Outcome.FINISHED


class Single(Enumeration):
    """The same candidate for ever."""

    def steps(self) -> Steps:
        while True:
            yield self.candidates[:1]


class Patient(Enumeration):
    """Repeats itself for a while, as a local search does, and goes on: right as it is."""

    def steps(self) -> Steps:
        for candidate in self.candidates:
            for _ in range(3):
                yield [candidate] * 1000
        return Outcome.EXHAUSTED


class Boastful(Enumeration):
    """Says that the first candidates were all."""

    def steps(self) -> Steps:
        yield self.candidates[:2]
        return Outcome.PROVED


BROKEN: list[tuple[Factory, str]] = [
    (Begun, "members"),
    (Outside, "inside"),
    (Greedy, "count"),
    (Unseeded, "seed"),
    (BySize, "batch size"),
    (Timed, "resume"),
    (TooSure, "bound"),
    (Unsure, "bound"),
    (Silent, "progress"),
    (Idle, "progress"),
    (LateIdle, "progress"),
    (Single, "progress"),
    (Slow, "end"),
    (Boastful, "claim"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("factory", "check"), BROKEN, ids=[getattr(factory, "__name__", "") for factory, _ in BROKEN])
def test_a_broken_strategy_fails_the_check_that_it_breaks(factory: Factory, check: str) -> None:
    with pytest.raises(ConformanceError) as failure:
        check_strategy(factory, spaces=SMALL, trials=20, seconds=0.5 if factory is Slow else PATIENCE_S)
    assert failure.value.check == check
    message = str(failure.value)
    assert message.startswith(f"The strategy {getattr(factory, '__name__', '')} on the space ")
    assert f"fails the check {check!r}" in message
    assert "expected " in message
    assert "found " in message
    assert "\n" not in message


def test_every_check_is_seen_to_fail() -> None:
    assert {check for _, check in BROKEN} == set(STRATEGY_CHECKS)


def test_the_candidate_is_named() -> None:
    with pytest.raises(ConformanceError, match=r"at the candidate .*77") as failure:
        check_strategy(Outside, spaces=SMALL)
    assert failure.value.candidate is not None


def test_one_that_repeats_itself_for_a_while_passes() -> None:
    check_strategy(Patient, spaces=SMALL)


class SingleOfAView(Single):
    needs_flat = True


def test_one_that_has_seen_all_of_its_flat_view_has_seen_what_it_can() -> None:
    """The view has one candidate, the tree behind it more."""
    check_strategy(SingleOfAView, spaces=[GoodView()])


@pytest.mark.parametrize(
    ("factory", "found"),
    [
        (Silent, "found that it proposes nothing, 10000 empty rounds in a row."),
        (Single, "it has seen 1 of 27, found only candidates that were there, 20000 times in a row."),
    ],
)
def test_one_that_does_not_go_on_is_told_so(factory: Factory, found: str) -> None:
    """With the check's own time, in which it would not end if a study had to."""
    with pytest.raises(ConformanceError) as failure:
        check_strategy(factory, seconds=math.inf)
    assert str(failure.value).endswith(found)


def test_what_fits_no_space_is_no_strategy_that_passes() -> None:
    def refuses(space: Space, seed: int) -> object:
        raise ValueError("not this one")

    with pytest.raises(ConformanceError, match=r"expected a space that it fits, found .*not this one"):
        check_strategy(refuses)


def test_a_check_can_be_left_out_and_must_exist() -> None:
    check_strategy(Boastful, spaces=SMALL, skip=["claim"])
    with pytest.raises(ValueError, match="found 'claims'"):
        check_strategy(Enumeration, skip=["claims"])
