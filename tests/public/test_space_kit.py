"""`check_space`: each check fails for the space that breaks it, says so in a sentence, and passes for those that do not."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from kilotune.search.flat_state import FlatState, FlatView
from kilotune.search.space import Assignment, Decision, ExactStep, Measurement, Objective, Option, Procedure, State
from kilotune.testing import SPACE_CHECKS, ConformanceError, check_space, toy_spaces
from kilotune.testing.toy_spaces import ToyPath, ToyTable, ToyTree


@pytest.mark.slow
@pytest.mark.parametrize("space", toy_spaces(), ids=lambda space: space.name)
def test_the_toys_pass(space: ToyTable | ToyTree) -> None:
    check_space(space)


@dataclass(frozen=True)
class NoObjective(ToyTable):
    objectives: tuple[Objective, ...] = ()


@dataclass(frozen=True)
class Locked(ToyTable):
    @property
    def lock(self) -> object:
        return threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return (Locked, (self.lock,))


@dataclass(frozen=True)
class OfThisProcess(ToyTable):
    @property
    def fingerprint(self) -> str:
        return f"{self.name} {os.getpid()}"


@dataclass(frozen=True)
class Hashed(ToyTable):
    @property
    def fingerprint(self) -> str:
        return str(hash(self.name))


@dataclass(frozen=True)
class Nameless(ToyTable):
    @property
    def fingerprint(self) -> str:
        return ""


@dataclass(frozen=True)
class ByClassName(ToyTable):
    """Studies of it do not go on when the class is renamed."""

    @property
    def fingerprint(self) -> str:
        return f"version 1 of {self!r}"


class Table:
    """Without a repr of its own."""


@dataclass(frozen=True)
class ByAddress(ToyTable):
    @property
    def fingerprint(self) -> str:
        return f"{self.name} {Table()!r}"


@dataclass(frozen=True)
class Endless(ToyPath):
    @property
    def decision(self) -> Decision:
        return Decision(f"step{len(self.answers)}", (1,))

    def take(self, option: Option) -> Endless:
        if option != 1:
            raise ValueError(option)
        return Endless(self.depth, (*self.answers, 1))


@dataclass(frozen=True)
class EndlessTree(ToyTree):
    def start(self) -> Endless:
        return Endless(0)


@dataclass(frozen=True)
class Twins(ToyTable):
    @property
    def decisions(self) -> tuple[Decision, ...]:
        return (Decision("one", (1, 2, 1)),)


@dataclass(frozen=True)
class NumpyLike(ToyTable):
    """Options that JSON cannot hold."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return (Decision("one", ((1, 2), (3, 4))),)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Lenient(FlatState):
    def take(self, option: Option) -> Lenient:
        assert self.decision is not None
        return Lenient(self.decisions, self.least_loss, {**self.assignment, self.decision.name: option})


@dataclass(frozen=True)
class TakesAnything(ToyTable):
    def start(self) -> FlatState:
        return Lenient(self.decisions, -math.inf)


class Changing:
    """A state that forgets what it was."""

    def __init__(self, inner: State) -> None:
        self.inner = inner

    @property
    def decision(self) -> Decision | None:
        return self.inner.decision

    @property
    def assignment(self) -> Assignment:
        return self.inner.assignment

    def take(self, option: Option) -> Changing:
        before = Changing(self.inner.take(option))
        self.inner = before.inner
        return before

    def bound(self) -> float:
        return -math.inf


@dataclass(frozen=True)
class Backwards:
    inner: FlatState

    @property
    def decision(self) -> Decision | None:
        return self.inner.decision

    @property
    def assignment(self) -> Assignment:
        return dict(reversed(self.inner.assignment.items()))

    def take(self, option: Option) -> Backwards:
        return Backwards(self.inner.take(option))

    def bound(self) -> float:
        return self.inner.bound()


@dataclass(frozen=True)
class AnswersBackwards(ToyTable):
    def start(self) -> Backwards:
        return Backwards(FlatState(self.decisions, -math.inf))


@dataclass(frozen=True)
class AsksOthers(ToyTable):
    def start(self) -> FlatState:
        return FlatState(tuple(reversed(self.decisions)), -math.inf)


@dataclass(frozen=True)
class Miscounted(ToyTree):
    def size(self) -> int:
        return 5


@dataclass(frozen=True)
class Reordered(ToyTree):
    """Says that it knows the order of the answers, and does not."""

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return {name: answers[name] for name in sorted(answers, reverse=True)}


@dataclass(frozen=True)
class Unmeasured(ToyTable):
    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"weight": 1.0}) for _ in batch]


@dataclass(frozen=True)
class Missing(ToyTable):
    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return super().evaluate(batch[:-1])


@dataclass(frozen=True)
class Raising(ToyTable):
    """Raises where it should say that it has failed."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        for candidate in batch:
            if candidate["d1"] == 2:
                raise RuntimeError("The compiler crashed:\nout of registers.")
        return super().evaluate(batch)


@dataclass(frozen=True)
class RaisesForNone(ToyTable):
    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [super().evaluate([batch[0]])[0], *super().evaluate(batch[1:])]


@dataclass(frozen=True)
class ByPlace(ToyTable):
    """What is measured depends on the place in the batch."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"loss": float(place % 3)}) for place, _ in enumerate(batch)]


@dataclass(frozen=True)
class ByLength(ToyTable):
    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"loss": float(len(batch))}) for _ in batch]


@dataclass(frozen=True)
class TooSure(ToyTable):
    """Its bound is above the best candidate, and below most others."""

    def start(self) -> FlatState:
        best = min(m.metrics["loss"] for m in self.evaluate(list(all_of(self))))
        return FlatState(self.decisions, best + 0.1)


@dataclass(frozen=True)
class SaysImpossible(ToyTable):
    def start(self) -> FlatState:
        return FlatState(self.decisions, lambda answers: math.inf if answers.get("d0") == 2 else -math.inf)


def all_of(space: ToyTable) -> Iterator[Assignment]:
    from kilotune.search.strategies.random import all_candidates

    return all_candidates(replace(ToyTable(space.name, space.options)))


@dataclass(frozen=True)
class OtherView(ToyTree):
    """Its view measures otherwise."""

    prefers_flat = False

    def flat_view(self) -> ToyTable:
        return ToyTable("other", (1, 1))


@dataclass(frozen=True)
class GoodView(ToyTree):
    prefers_flat = False

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return {name: answers[name] for name in sorted(answers)}

    def flat_view(self) -> FlatView:
        return FlatView(self, tuple(Decision(f"step{i}", (1,)) for i in range(self.depth)), 0.0)


@dataclass(frozen=True)
class Astray(ToyTable):
    def procedure(self) -> Procedure:
        yield [{"d0": 0, "d1": 7, "d2": 0}]


@dataclass(frozen=True)
class Moody(ToyTable):
    """Its procedure depends on how often it has run."""

    def procedure(self) -> Procedure:
        os.environ["MOODY"] = str(int(os.environ.get("MOODY", "0")) + 1)
        yield [{"d0": int(os.environ["MOODY"]) % 2, "d1": 0, "d2": 0}]


@dataclass(frozen=True)
class NoFallback(ToyTable):
    def fallback(self) -> Assignment:
        return {"d0": 0}


@dataclass(frozen=True)
class Overproved(ToyTable):
    def exact_search(self, seed: int, seconds_left: object) -> Iterator[ExactStep]:
        yield ExactStep(None, -math.inf)
        yield ExactStep({"d0": 0, "d1": 0, "d2": 0}, 1e6)


@dataclass(frozen=True)
class AnnealsAstray(ToyTable):
    def anneal(self, seed: int) -> Iterator[Assignment | None]:
        yield None
        yield {"d0": 0, "d1": 0, "d2": 3}


@dataclass(frozen=True)
class ChangingTable(ToyTable):
    def start(self) -> State:
        return Changing(super().start())


OPTIONS = (3, 3, 3)
BROKEN = [
    (NoObjective("broken", OPTIONS), "members"),
    (7, "members"),
    (Locked("broken", OPTIONS), "picklable"),
    (OfThisProcess("broken", OPTIONS), "fingerprint"),
    (Hashed("broken", OPTIONS), "fingerprint"),
    (Nameless("broken", OPTIONS), "fingerprint"),
    (ByClassName("broken", OPTIONS), "fingerprint"),
    (ByAddress("broken", OPTIONS), "fingerprint"),
    (EndlessTree(), "walk"),
    (Twins("broken", OPTIONS), "walk"),
    (NumpyLike("broken", OPTIONS), "walk"),
    (TakesAnything("broken", OPTIONS), "take"),
    (ChangingTable("broken", OPTIONS), "take"),
    (AnswersBackwards("broken", OPTIONS), "answers"),
    (AsksOthers("broken", OPTIONS), "flat"),
    (Miscounted(), "size"),
    (Reordered(), "storage"),
    (Unmeasured("broken", OPTIONS), "measurement"),
    (Missing("broken", OPTIONS), "measurement"),
    (Raising("broken", OPTIONS), "measurement"),
    (RaisesForNone("broken", OPTIONS), "measurement"),
    (ByPlace("broken", OPTIONS), "batch"),
    (ByLength("broken", OPTIONS), "batch"),
    (TooSure("broken", OPTIONS), "bound"),
    (SaysImpossible("broken", OPTIONS), "bound"),
    (OtherView(), "flat view"),
    (Astray("broken", OPTIONS), "procedure"),
    (Moody("broken", OPTIONS), "procedure"),
    (NoFallback("broken", OPTIONS), "fallback"),
    (Overproved("broken", OPTIONS), "exact search"),
    (AnnealsAstray("broken", OPTIONS), "annealing"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("space", "check"), BROKEN, ids=[type(space).__name__ for space, _ in BROKEN])
def test_a_broken_space_fails_the_check_that_it_breaks(
    space: ToyTable, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kilotune.testing.probe.LONGEST_WALK", 200)
    monkeypatch.delenv("MOODY", raising=False)
    with pytest.raises(ConformanceError, match=f"fails the check '{check}'") as failure:
        check_space(space)
    assert failure.value.check == check
    message = str(failure.value)
    assert message.startswith(f"The space {type(space).__name__} fails")
    assert "expected " in message
    assert "found " in message
    assert "\n" not in message


def test_every_check_is_seen_to_fail() -> None:
    assert {check for _, check in BROKEN} == set(SPACE_CHECKS)


def test_a_view_that_is_right_passes() -> None:
    check_space(GoodView())


def test_the_candidate_is_named() -> None:
    with pytest.raises(ConformanceError, match="at the candidate") as failure:
        check_space(TooSure("broken", OPTIONS))
    candidate = failure.value.candidate
    assert candidate is not None
    assert str(dict(candidate)) in str(failure.value)
    assert "expected a bound of at most" in str(failure.value)


def test_an_evaluation_that_raises_is_named_with_its_cause_and_its_candidate() -> None:
    with pytest.raises(ConformanceError) as failure:
        check_space(Raising("broken", OPTIONS))
    assert "evaluate() raised RuntimeError: The compiler crashed: out of registers." in str(failure.value)
    assert isinstance(failure.value.__cause__, RuntimeError)
    assert failure.value.candidate == {"d0": 0, "d1": 2, "d2": 0}, "the first one that can't be measured"


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (Nameless, "found '', which every space could have"),
        (ByClassName, "changes with the name of its class"),
        (ByAddress, "object at 0x"),
    ],
)
def test_a_fingerprint_that_is_no_hash_of_content_is_told_what_would_be(kind: type[ToyTable], found: str) -> None:
    with pytest.raises(ConformanceError, match=r"kilotune\.fingerprint") as failure:
        check_space(kind("broken", OPTIONS))
    assert found in str(failure.value)


def test_a_check_can_be_left_out_and_must_exist() -> None:
    check_space(OfThisProcess("broken", OPTIONS), skip=["fingerprint"])
    with pytest.raises(ValueError, match="found 'fingerprints'"):
        check_space(ToyTree(), skip=["fingerprints"])


def test_a_large_space_is_sampled() -> None:
    check_space(ToyTable("large", (6,) * 60), skip=["fingerprint"])
    with pytest.raises(ConformanceError) as failure:
        check_space(SaysImpossible("large", (6,) * 60))
    assert failure.value.check == "bound"
