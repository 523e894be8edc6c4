"""First programs within limits: by costs alone, and before the rest of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Metrics
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
