"""First programs within limits: by costs alone, and before the rest of a search."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Constraint, Decision, Metrics
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace
from kilotune.spaces.shiftry.within_limits import first_within
from tests.spaces.shiftry.test_limited_search import LimitedWidths
from tests.spaces.small_network import small_network


@settings(max_examples=100)
@given(seed=st.integers(0, 99), share=st.floats(0.2, 1.1))
def test_they_are_within_the_limits_and_none_is_narrower_than_it_must_be_in_all(seed: int, share: float) -> None:
    space = LimitedWidths(6, seed, share=share)
    levels = [metrics["bytes"] for metrics in space.costs(space.narrowings())]
    found = first_within(space)
    assert bool(found) == (levels[0] > space.limit >= levels[-1])
    for one, metrics in zip(found, space.costs(found), strict=True):
        assert metrics["bytes"] <= space.limit
        wider = space.costs([one | {name: 16} for name in one if one[name] != 16])
        assert any(metrics["bytes"] > space.limit for metrics in wider)


@dataclass(frozen=True)
class Unpacked(LimitedWidths):
    """The code that takes packed codes apart counts, once for each width."""

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        widths = [{bits for bits in one.values() if int(bits) < 8} for one in batch]
        return [
            {"bytes": metrics["bytes"] + 60 * len(narrow)}
            for metrics, narrow in zip(super().costs(batch), widths, strict=True)
        ]


def test_narrower_need_not_be_cheaper() -> None:
    """One variable of 4 bits beside 8 everywhere keeps the limit, 4 bits everywhere would too, and 6 bits everywhere not."""
    space = Unpacked(9, 1)
    names = [decision.name for decision in space.decisions]
    eight = space.costs([dict.fromkeys(names, 8)])[0]["bytes"]
    singles = [metrics["bytes"] for metrics in space.costs([dict.fromkeys(names, 8) | {name: 4} for name in names])]
    assert min(singles) < eight
    limited = replace(space, share=min(singles) / space.reference_point[0])
    (found, *_) = first_within(limited)
    assert sorted(found.values(), key=int)[1:] == [8] * 8


WIDTHS = (16, 8, 6, 4, 3, 2, 1)


class FlashAndRam:
    """Three parameters and three temporaries. What takes narrow codes apart is flash, once for each width, and what they are unpacked into
    is RAM, beside the temporaries that live then: each limit alone is kept where the other may be broken."""

    error_metric, fingerprint = "error", ""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.sizes = {name: int(size) for name, size in zip("abcxyz", rng.integers(5, 200, 6), strict=True)}
        self.unpacked = {name: int(size) for name, size in zip("abc", rng.integers(5, 150, 3), strict=True)}
        self.code = {width: int(size) for width, size in zip(WIDTHS[2:], rng.integers(20, 120, 5), strict=True)}
        self.live = [[name for name in "xyz" if rng.random() < 0.6] or ["x"] for _ in range(4)]
        self.read_at = {name: int(rng.integers(4)) for name in "abc"}
        self.decisions = tuple(Decision(name, WIDTHS if name in "abc" else WIDTHS[:2]) for name in self.sizes)
        self.constraints: tuple[Constraint, ...] = ()

    def narrowings(self) -> list[Assignment]:
        return [{d.name: max(width, int(d.options[-1])) for d in self.decisions} for width in WIDTHS]

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        found = []
        for one in batch:
            bits = {name: int(width) for name, width in one.items()}
            flash = sum(self.sizes[name] * bits[name] // 8 for name in "abc")
            flash += sum(self.code[width] for width in {bits[name] for name in "abc"} if width < 8)
            beside = [
                max((self.unpacked[n] for n in "abc" if bits[n] < 8 and self.read_at[n] == at), default=0)
                for at in range(4)
            ]
            ram = max(
                sum(self.sizes[n] * bits[n] // 8 for n in live) + more
                for live, more in zip(self.live, beside, strict=True)
            )
            found.append({"flash": float(flash), "ram": float(ram)})
        return found

    def all_costs(self) -> list[Metrics]:
        names = [decision.name for decision in self.decisions]
        chosen = itertools.product(*(decision.options for decision in self.decisions))
        return self.costs([dict(zip(names, one, strict=True)) for one in chosen])


@pytest.mark.parametrize("seed", range(12))
def test_two_limits_at_once_are_kept_wherever_any_program_does(seed: int) -> None:
    """Wherever either limit is the tightest one that goes with the other, of all 2744 candidates."""
    space = FlashAndRam(seed)
    pairs = {(metrics["flash"], metrics["ram"]) for metrics in space.all_costs()}
    tightest = [(f, r) for f, r in pairs if not any(a <= f and b <= r and (a, b) != (f, r) for a, b in pairs)]
    for flash, ram in tightest:
        space.constraints = (Constraint("flash", flash), Constraint("ram", ram))
        found = first_within(space)
        assert found
        assert all(metrics == {"flash": flash, "ram": ram} for metrics in space.costs(found))


@pytest.mark.parametrize(("flash", "ram"), [(847, 384), (847, 400), (1210, 384), (1400, 438)])
def test_lenet_has_a_program_within_both_limits(flash: int, ram: int) -> None:
    """By brute force over the widths of its parameters, 847 bytes of flash are the least that go with 384 of RAM, which are the least of
    all: filters that are unpacked would take more."""
    task = lenet_task()
    space = ShiftrySpace(task, ShiftryOptions(narrow=True, flash_limit_bytes=flash, ram_limit_bytes=ram))
    found = first_within(space)
    assert found
    for metrics in space.costs(found):
        assert metrics["flash_bytes"] <= flash
        assert metrics["ram_bytes"] <= ram


@cache
def lenet_task() -> Task:
    model = load_bundle(resolve_model("lenet-digits"))
    return task_of(model, model.train)


def test_all_variables_have_the_width_that_they_are_offered() -> None:
    space = ShiftrySpace(small_network(13), ShiftryOptions(narrow=True))
    bits = [
        {parse_format(str(one[decision.name])).bits for decision in space.format_decisions if decision.name in "WUBF"}
        for one in space.narrowings()
    ]
    assert bits == [{16}, {8}, {6}, {4}, {3}, {2}, {1}]
    temporaries = [parse_format(str(one["scores"])).bits for one in space.narrowings()]
    assert temporaries == [16, 8, 8, 8, 8, 8, 8]


def test_a_short_search_ends_within_a_limit_below_8_bits_everywhere() -> None:
    """Where all that the paper's procedure tries is above it."""
    model = load_bundle(resolve_model("bonsai-digits"))
    task = task_of(model, model.train)
    free = ShiftrySpace(task, ShiftryOptions(narrow=True))
    flash = [metrics["flash_bytes"] for metrics in free.costs(free.narrowings())]
    limit = int(flash[1] + flash[3]) // 2  # of 8 and 4 bits
    assert limit < flash[1]
    space = ShiftrySpace(task, ShiftryOptions(narrow=True, flash_limit_bytes=limit))
    study = Study(space, "refine", 0)
    study.run(InProcessExecutor(space), Budget(trials=2))
    assert {trial.metrics["flash_bytes"] <= limit for trial in study.trials()} == {True}


@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
def test_what_comes_first_is_within_the_limits(share: float) -> None:
    """The procedure, which begins with programs of 16 bits, is measured as well, and its answer is the same."""
    free = ShiftrySpace(small_network(13), ShiftryOptions(narrow=True))
    flash = [metrics["flash_bytes"] for metrics in free.costs(free.narrowings())]
    limit = int(min(flash) + share * (max(flash) - min(flash)))
    space = ShiftrySpace(small_network(13), ShiftryOptions(narrow=True, flash_limit_bytes=limit))
    study = Study(space, "random", 0, procedure_first=True)
    study.run(InProcessExecutor(space), Budget(trials=200))
    first, *others = study.trials()
    assert first.metrics["flash_bytes"] <= limit
    assert first.assignment == space.fallback()
    asked, answers = space.procedure(), list[Assignment]()
    batch: list[Assignment] | None = next(asked, None)
    while batch is not None:
        answers += batch
        try:
            batch = asked.send([trial for one in batch if (trial := study.book.trial_of(one)) is not None])
        except StopIteration:
            break
    assert study.procedure is not None
    assert study.procedure.assignment == answers[-1]
    assert [trial.assignment for trial in others[:20]] == [one for one in answers if one != first.assignment][:20]


def test_nothing_comes_before_the_procedure_without_limits_and_within_wide_ones() -> None:
    widest = ShiftrySpace(small_network(13), ShiftryOptions(narrow=True))
    assert widest.fallback() is None
    flash = int(widest.costs(widest.narrowings())[0]["flash_bytes"])
    assert ShiftrySpace(small_network(13), ShiftryOptions(narrow=True, flash_limit_bytes=flash)).fallback() is None
