"""The exact search against brute force, against its plain execution, and on instances with a known optimum."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.study import Study
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.csv_files import read_instance
from kilotune.spaces.memory.exact import PlacementSearchStep, minimise_peak
from kilotune.spaces.memory.fit_result import FitStatus
from kilotune.spaces.memory.fitting import KEY_BITS, fits_within
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.native import load_kernel
from kilotune.spaces.memory.reference_search import fits_within_reference
from kilotune.spaces.memory.space import MemorySpace
from tests.spaces.memory.problems import DATA, instances, least_peak, make, random_instance

UNLIMITED = 1 << 40


def solved(instance: Instance) -> PlacementSearchStep:
    buffers = BufferArrays.of(instance)
    standing = list(minimise_peak(buffers, largest_live_sum(instance).peak_bytes))[-1]
    offsets = dict(zip([b.id for b in instance.buffers], standing.offsets.tolist(), strict=True))
    assert check_placement(instance, Placement(offsets)) == standing.peak_bytes
    return standing


@settings(max_examples=150)
@given(instances())
def test_brute_force_agrees(instance: Instance) -> None:
    standing = solved(instance)
    assert standing.done
    assert standing.peak_bytes == standing.bound_bytes == least_peak(instance)


def permutation(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(count).astype(np.int32)


@settings(max_examples=150)
@given(instances(most=9), st.integers(0, 99), st.integers(0, 3))
def test_the_compiled_search_visits_what_the_plain_one_does(instance: Instance, seed: int, slack: int) -> None:
    whole = BufferArrays.of(instance)
    if load_kernel() is None:
        pytest.skip("no C compiler")
    for members in whole.occupied_components():
        buffers = whole.subset(members)
        rank = permutation(len(buffers), seed)
        capacity = int(buffers.section_bytes.max()) + slack
        compiled, plain = (f(buffers, rank, capacity, UNLIMITED) for f in (fits_within, fits_within_reference))
        assert compiled.status is plain.status
        if compiled.status is FitStatus.FITS:
            assert compiled.nodes == plain.nodes
            assert (compiled.offsets == plain.offsets).all()


def scaled(instance: Instance, factor: int) -> Instance:
    return make(*((b.lower, b.upper, factor * b.size, factor * b.alignment) for b in instance.buffers))


@settings(max_examples=60)
@given(instances(most=9), st.integers(0, 99), st.integers(0, 3))
def test_terabytes_are_searched_as_bytes_are(instance: Instance, seed: int, slack: int) -> None:
    """Offsets and ranks that share an integer keep apart up to the largest capacity that is searched at all."""
    if load_kernel() is None:
        pytest.skip("no C compiler")
    for members in BufferArrays.of(instance).occupied_components():
        small = BufferArrays.of(instance).subset(members)
        rank, capacity = permutation(len(small), seed), int(small.section_bytes.max()) + slack
        factor = (1 << KEY_BITS - (len(small) - 1).bit_length()) // max(capacity + 1, 8)
        large = BufferArrays.of(scaled(instance, factor)).subset(members)
        few, many = (
            fits_within(small, rank, capacity, UNLIMITED),
            fits_within(large, rank, factor * capacity, UNLIMITED),
        )
        assert (many.status, many.nodes) == (few.status, few.nodes)
        if few.status is FitStatus.FITS:
            assert (many.offsets == factor * few.offsets).all()
        else:
            assert many.least_peak == factor * few.least_peak
        too_much = fits_within(large, rank, 1 << KEY_BITS, UNLIMITED)
        assert (too_much.status, too_much.nodes) == (FitStatus.STOPPED, 0)


@pytest.mark.parametrize("seed", range(12))
def test_every_rank_gives_the_same_answer(seed: int) -> None:
    instance = random_instance(seed, 14, aligned=seed % 2 == 0)
    optimum = solved(instance).peak_bytes
    buffers = BufferArrays.of(instance)
    for capacity, expected in ((optimum, FitStatus.FITS), (optimum - 1, FitStatus.FAILS)):
        answers = []
        for members in buffers.occupied_components():
            part = buffers.subset(members)
            answers.append(fits_within(part, permutation(len(part), seed + 1), capacity, UNLIMITED))
        assert max(a.status for a in answers) is expected
        assert all(a.least_peak <= optimum for a in answers if a.status is FitStatus.FAILS)


KNOWN = {"fastgrnn-digits": 288, "protonn-digits": 122, "rnnpool-face-2": 308996, "rnnpool-face-4": 308996}


@pytest.mark.parametrize("name", KNOWN)
def test_programs_at_their_known_optimum_with_proof(name: str) -> None:
    space = MemorySpace(read_instance(DATA / f"{name}.csv"))
    result = Study(space, "exhaustive").run(InProcessExecutor(space))
    assert result.proved
    assert result.best is not None
    assert result.best.measurement.metrics["peak_bytes"] == result.bound == KNOWN[name]


def test_a_gap_between_the_live_sum_and_the_optimum_is_proved() -> None:
    gaps = [i for i in (random_instance(seed, 7, aligned=True) for seed in range(200)) if _gap(i)]
    assert gaps
    for instance in gaps[:5]:
        assert solved(instance).bound_bytes == least_peak(instance)


@pytest.mark.parametrize("name", ["A", "K"])
def test_challenge_instances_of_minimalloc_fit(name: str) -> None:
    if load_kernel() is None:
        pytest.skip("no C compiler")
    space = MemorySpace(read_instance(DATA / "minimalloc" / f"{name}.1048576.csv"), 1 << 20)
    result = Study(space, "exhaustive").run(InProcessExecutor(space))
    assert result.feasible


def test_deep_instances_do_not_exhaust_the_stack() -> None:
    tower = make(*((0, 2, 1) for _ in range(5000)))
    assert solved(tower).peak_bytes == 5000


@pytest.mark.parametrize("strategy", ["exhaustive", "cp"])
def test_a_capacity_is_met_or_refuted(strategy: str) -> None:
    instance = next(i for i in (random_instance(s, 12, aligned=True) for s in range(99)) if _gap(i))
    optimum = solved(instance).peak_bytes
    for capacity, feasible in ((optimum, True), (optimum - 1, False)):
        space = MemorySpace(instance, capacity)
        result = Study(space, strategy).run(InProcessExecutor(space))
        assert (result.feasible, result.proved) == (feasible, True)


def _gap(instance: Instance) -> bool:
    return solved(instance).peak_bytes > largest_live_sum(instance).peak_bytes


def test_the_plain_search_places_more_buffers_than_python_has_calls_for() -> None:
    """Without a compiler 480 buffers ended a search in a RecursionError."""
    count, before = 400, sys.getrecursionlimit()
    buffers = BufferArrays.of(make(*[(0, 10, 4)] * count))
    found = fits_within_reference(buffers, np.arange(count, dtype=np.int32), 4 * count, UNLIMITED)
    assert (found.status, found.nodes) == (FitStatus.FITS, count)
    assert sorted(found.offsets.tolist()) == list(range(0, 4 * count, 4))
    assert sys.getrecursionlimit() == before
