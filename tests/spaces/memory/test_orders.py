"""Greedy placements, bounds and the arrays behind them, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.candidates import first_candidate, random_candidate
from kilotune.search.encoding import encoding_of
from kilotune.search.study import Study
from kilotune.spaces.memory import candidates, orders
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.candidates import ALLOCATOR, SHIFTRY
from kilotune.spaces.memory.capacity_question import _static_rank
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.instance import Buffer, Instance, Placement
from kilotune.spaces.memory.model import static_order
from kilotune.spaces.memory.orders import (
    GREEDY,
    Fit,
    best_greedy,
    place_in_order,
    place_in_order_reference,
    weighted_order,
)
from kilotune.spaces.memory.space import MANY_BUFFERS, MemorySpace
from tests.spaces.memory.problems import instances, least_peak, make, random_instance


def checked_peak(instance: Instance, offsets: np.ndarray) -> int:
    return check_placement(
        instance, Placement(dict(zip([b.id for b in instance.buffers], offsets.tolist(), strict=True)))
    )


@pytest.mark.slow
@settings(max_examples=200)
@given(instances(most=8))
def test_what_the_arrays_say(instance: Instance) -> None:
    buffers = BufferArrays.of(instance)
    live = {p: sum(b.size for b in instance.buffers if b.lower <= p < b.upper) for p in range(-1, 14)}
    for i, b in enumerate(instance.buffers):
        assert buffers.conflicts[i] == sum(b.overlaps(c) for c in instance.buffers if c is not b)
        assert buffers.load[i] == max(live[p] for p in range(b.lower, b.upper))
    parts = [set(members.tolist()) for members in buffers.components()]
    assert sorted(i for part in parts for i in part) == list(range(len(buffers)))
    for i, b in enumerate(instance.buffers):
        for j, c in enumerate(instance.buffers):
            if b.overlaps(c):
                assert any({i, j} <= part for part in parts)


@settings(max_examples=200)
@given(instances())
def test_the_bound_never_exceeds_the_optimum_and_its_buffers_add_up(instance: Instance) -> None:
    found = largest_live_sum(instance)
    assert found.peak_bytes <= least_peak(instance)
    assert all(b.lower <= found.point < b.upper for b in found.buffers)
    assert sum(b.size for b in found.buffers) <= found.peak_bytes
    if all(b.alignment == 1 for b in instance.buffers):
        assert sum(b.size for b in found.buffers) == found.peak_bytes


def test_alignment_raises_the_bound() -> None:
    # Two of three buffers of 3 bytes at multiples of 4 take 4 each: 4 + 4 + 3.
    assert largest_live_sum(make((0, 2, 3, 4), (0, 2, 3, 4), (1, 3, 3, 8))).peak_bytes == 11


@settings(max_examples=100)
@given(instances(most=9), st.integers(0, 99), st.sampled_from(Fit))
def test_compiled_and_plain_first_fit_agree(instance: Instance, seed: int, fit: Fit) -> None:
    buffers = BufferArrays.of(instance)
    order = np.random.default_rng(seed).permutation(len(buffers)).astype(np.int32)
    offsets = place_in_order(buffers, order, fit)
    assert (offsets == place_in_order_reference(buffers, order, fit)).all()
    checked_peak(instance, offsets)


@pytest.mark.parametrize("fit", Fit)
@pytest.mark.parametrize(("longest", "sizes"), [(40, 3), (900, 1000)])
def test_they_agree_where_buffers_fill_many_blocks(fit: Fit, longest: int, sizes: int) -> None:
    """What is placed lies in blocks of 256 that are split when they are full, some with many at one offset."""
    random = np.random.default_rng(longest)
    lower = random.integers(0, 1000, 2000)
    upper = lower + random.integers(1, longest, 2000)
    size, alignment = random.integers(1, sizes + 1, 2000), random.choice([1, 16], 2000)
    buffers = BufferArrays(lower, upper, size, alignment)
    order = random.permutation(2000).astype(np.int32)
    assert (place_in_order(buffers, order, fit) == place_in_order_reference(buffers, order, fit)).all()


@pytest.mark.parametrize("seed", range(5))
def test_greedy_placements_are_placements(seed: int) -> None:
    instance = random_instance(seed, 60, aligned=True)
    buffers = BufferArrays.of(instance)
    peaks = [checked_peak(instance, place_in_order(buffers, order(buffers), fit)) for order, fit in GREEDY.values()]
    assert checked_peak(instance, best_greedy(buffers)[1]) == min(peaks)
    assert (weighted_order(buffers, (1, 0, 0, 0, 0, 0)) == np.argsort(-buffers.size, kind="stable")).all()


@settings(max_examples=60)
@given(instances(), st.integers(0, 9))
def test_candidates_of_every_form_measure_what_their_placements_are(instance: Instance, seed: int) -> None:
    rng = np.random.default_rng(seed)
    space = MemorySpace(instance)
    candidates = [first_candidate(space), random_candidate(space, rng), random_candidate(space.flat_view(), rng)]
    encoding = encoding_of(space)
    for candidate in candidates:
        answered_in_any_order = dict(sorted(candidate.items()))
        assert list(encoding.candidate(encoding.key(answered_in_any_order)).items()) == list(candidate.items())
    for measurement in space.evaluate(candidates):
        assert measurement.failure is None
        assert measurement.metrics["peak_bytes"] >= space.least_peak_bytes
    pushed = space.candidate(best_greedy(space.arrays)[1])
    state = space.start()
    for option in pushed.values():
        state = state.take(option)
    assert state.decision is None
    assert state.bound() <= space.evaluate([pushed])[0].metrics["peak_bytes"]


def test_a_broken_candidate_is_a_failure_and_no_measurement() -> None:
    space = MemorySpace(make((0, 2, 4), (1, 3, 4)))
    for broken in ({"1": "b0@0", "2": "b1@2"}, {"1": "b0@0"}):
        (measurement,) = space.evaluate([{"allocator": "canonical", **broken}])
        assert measurement.failure
        assert not measurement.metrics


@pytest.mark.parametrize("name", ["busiest-outward", "busiest-life"])
def test_from_the_busiest_point(name: str) -> None:
    """What is alive there fills the bytes from 0 to the largest live sum, whatever else there is."""
    order, fit = GREEDY[name]
    for seed in range(30):
        instance = random_instance(seed, 40)
        buffers = BufferArrays.of(instance)
        offsets = place_in_order(buffers, order(buffers), fit)
        checked_peak(instance, offsets)
        least = largest_live_sum(instance)
        there = [k for k, b in enumerate(instance.buffers) if b in least.buffers]
        assert max(offsets[there] + buffers.size[there]) == least.peak_bytes == sum(buffers.size[there])


def test_orders_from_the_busiest_point_prove_what_no_other_order_does() -> None:
    """Of 200 instances of 30 buffers some come down to their live sums by these orders alone."""
    ours = {"busiest-outward": 0, "busiest-life": 0}
    for seed in range(200):
        buffers = BufferArrays.of(random_instance(seed, 30))
        peaks = {
            name: int((place_in_order(buffers, order(buffers), fit) + buffers.size).max())
            for name, (order, fit) in GREEDY.items()
        }
        others = min(peak for name, peak in peaks.items() if name not in ours)
        least = int(buffers.section_bytes.max())
        for name in ours:
            ours[name] += peaks[name] == least < others
        assert int((best_greedy(buffers)[1] + buffers.size).max()) == min(peaks.values())
    assert min(ours.values()) > 0, ours


@pytest.mark.slow
def test_the_fallback_of_many_buffers_is_placed_once_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """All orders took 2.6 CPU-s for 4000 buffers without one: a budget of two seconds ended without any placement."""
    monkeypatch.setattr(orders, "load_kernel", lambda: None)
    space, placed = MemorySpace(random_instance(3, MANY_BUFFERS)), []

    def counted(given: BufferArrays, order: orders.PlacementOrder, fit: Fit = Fit.FIRST) -> orders.IntArray:
        placed.append(fit)
        return place_in_order(given, order, fit)

    for module in (orders, candidates):
        monkeypatch.setattr(module, "place_in_order", counted)
    fallback = space.fallback()
    assert fallback is not None
    assert not placed
    (measurement,) = space.evaluate([fallback])
    assert placed == [Fit.FIRST]
    assert measurement.metrics["peak_bytes"] >= space.least_peak_bytes


def test_the_fallback_of_many_buffers_is_the_best_greedy_placement() -> None:
    assert MemorySpace(random_instance(3, MANY_BUFFERS - 1)).fallback() is None
    if not orders.is_compiled():
        pytest.skip("no C compiler")
    space = MemorySpace(random_instance(3, MANY_BUFFERS))
    assert space.fallback() == space.candidate(best_greedy(space.arrays)[1])


@pytest.mark.slow
def test_many_buffers_are_searched_before_the_papers_allocator_has_its_turn() -> None:
    """For 18692 buffers of a file of idealloc it took 3 to 6 CPU-s, of which a busy machine had 2 in ten seconds; the search took 0.8."""
    many, few = MemorySpace(random_instance(3, MANY_BUFFERS)), MemorySpace(random_instance(3, MANY_BUFFERS - 1))
    study = Study(many, "exhaustive", procedure_first=True)
    study.run(InProcessExecutor(many), Budget(seconds=600.0, trials=2))
    assert study.trials()[0].assignment == many.fallback()
    assert study.trials()[1].assignment != {ALLOCATOR: SHIFTRY}
    study = Study(few, "exhaustive", procedure_first=True)
    study.run(InProcessExecutor(few), Budget(seconds=600.0, trials=2))
    assert study.trials()[0].assignment == {ALLOCATOR: SHIFTRY}


def test_areas_of_gigabytes_and_nanoseconds_are_ordered() -> None:
    """A gigabyte that lives for ten seconds is 1e19 byte nanoseconds, more than 64 bits with a sign hold."""
    large, small = Buffer("large", 0, 10_000_000_000, 1 << 30), Buffer("small", 0, 10, 8)
    middle = Buffer("middle", 0, 1_000_000_000, 1 << 29)
    buffers = BufferArrays.of(Instance("traced", (small, large, middle)))
    by_area, _ = GREEDY["area"]
    assert by_area(buffers).tolist() == static_order(buffers, "AZ").tolist() == [1, 2, 0]
    assert _static_rank(buffers, "AZ").tolist() == [2, 0, 1]
