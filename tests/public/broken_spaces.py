"""Spaces that each break one rule of the conformance kit; those with views of themselves are in `broken_views.py`."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kilotune.search.flat_state import FlatState
from kilotune.search.space import Assignment, Decision, ExactStep, Measurement, Objective, Option, Procedure, State
from kilotune.testing.toy_spaces import ToyPath, ToyTable, ToyTree


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


@dataclass(frozen=True)
class HashOfRepr(ToyTable):
    """No name can be seen in it, and yet it changes with one."""

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()


@dataclass(frozen=True)
class Part:
    """What a space holds."""

    size: int = 3


@dataclass(frozen=True)
class HashOfPartsRepr(ToyTable):
    """The class of a part is named in it."""

    part: Part = Part()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.name, self.part)).encode()).hexdigest()


@dataclass(frozen=True)
class HashOfPickle(ToyTable):
    """A pickle names classes too."""

    part: Part = Part()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(pickle.dumps(self.part)).hexdigest()


@dataclass(frozen=True)
class HashedOnce(ToyTable):
    """What was computed travels with a copy, which hides that each process computes another."""

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        return str(hash(self.name))


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
class Fickle(ToyTable):
    """Its opening depends on how often it has run."""

    def opening(self, _seed: int) -> Procedure:
        os.environ["FICKLE"] = str(int(os.environ.get("FICKLE", "0")) + 1)
        yield [{"d0": int(os.environ["FICKLE"]) % 2, "d1": 0, "d2": 0}]


@dataclass(frozen=True)
class HollowCore(ToyTable):
    def core(self) -> dict[str, list[Option]]:
        return {"d0": [0], "d1": [0, 1], "d2": [99]}


@dataclass(frozen=True)
class NoFallback(ToyTable):
    def fallback(self) -> Assignment:
        return {"d0": 0}


@dataclass(frozen=True)
class Capricious(ToyTable):
    """Its short search depends on how often it has run."""

    def short_search(self) -> Assignment:
        os.environ["CAPRICIOUS"] = str(int(os.environ.get("CAPRICIOUS", "0")) + 1)
        return {"d0": int(os.environ["CAPRICIOUS"]) % 2, "d1": 0, "d2": 0}


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
