"""`check_space`: each check fails for the space that breaks it, says so in a sentence, and passes for those that do not."""

from __future__ import annotations

import pytest

from kilotune.testing import SPACE_CHECKS, ConformanceError, check_space, toy_spaces
from kilotune.testing.toy_spaces import ToyTable, ToyTree
from tests.public.broken_spaces import (
    AnnealsAstray,
    AnswersBackwards,
    AsksOthers,
    Astray,
    ByAddress,
    ByClassName,
    ByLength,
    ByPlace,
    Capricious,
    ChangingTable,
    EndlessTree,
    Fickle,
    Hashed,
    HashedOnce,
    HashOfPartsRepr,
    HashOfPickle,
    HashOfRepr,
    HollowCore,
    Locked,
    Miscounted,
    Missing,
    Moody,
    Nameless,
    NoFallback,
    NoObjective,
    NumpyLike,
    OfThisProcess,
    Overproved,
    RaisesForNone,
    Raising,
    Reordered,
    SaysImpossible,
    TakesAnything,
    TooSure,
    Twins,
    Unmeasured,
)
from tests.public.broken_views import FinishesAstray, GoodView, OtherView, ViewsElsewhere


@pytest.mark.slow
@pytest.mark.parametrize("space", toy_spaces(), ids=lambda space: space.name)
def test_the_toys_pass(space: ToyTable | ToyTree) -> None:
    check_space(space)


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
    (HashOfRepr("broken", OPTIONS), "fingerprint"),
    (HashOfPartsRepr("broken", OPTIONS), "fingerprint"),
    (HashOfPickle("broken", OPTIONS), "fingerprint"),
    (HashedOnce("broken", OPTIONS), "fingerprint"),
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
    (ViewsElsewhere(), "flat views"),
    (Astray("broken", OPTIONS), "procedure"),
    (Moody("broken", OPTIONS), "procedure"),
    (Fickle("broken", OPTIONS), "opening"),
    (HollowCore("broken", OPTIONS), "core"),
    (FinishesAstray(), "finish"),
    (NoFallback("broken", OPTIONS), "fallback"),
    (Capricious("broken", OPTIONS), "short search"),
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
        (HashOfRepr, "which changes with the names of classes"),
        (HashOfPartsRepr, "which changes with the names of classes"),
        (HashOfPickle, "PicklingError"),
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
