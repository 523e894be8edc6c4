"""Stages that share cores: what holds them, bounds that no candidate beats, walks that count as Python does, and files that run."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import stages_by_core
from kilotune.codegen.cm.routing import SHAPES
from kilotune.codegen.cm.streams import Stream, streams_of
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.evaluators.cm.bound import core_ticks
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, SolveLimit
from kilotune.spaces.cm import annealing
from kilotune.spaces.cm.annealing import AnnealedPlacement, Annealer, load_kernel
from kilotune.spaces.cm.arrangement import arranged
from kilotune.spaces.cm.evening import _pieces, _unevenness, evened
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.pacing import grained_replicas
from kilotune.spaces.cm.sharing import Cores, StageNeeds, balanced, filled_up, packed
from kilotune.spaces.cm.space import CmSpace
from kilotune.spaces.cm.state import CmState
from tests.spaces.cm.random_pipelines import random_pipeline, small_hardware
from tests.spaces.cm.test_annealing import ticks_of
from tests.spaces.cm.test_arrangement import wirelength
from tests.spaces.cm.test_space import small_hardware as small_mesh

needs_compiler = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")


def block(size: int = 4) -> Graph:
    """Three stages of 9, 18 and 9 rows; the last one adds the first one's image to the second one's."""
    net = Topology("block", (1, size, size))
    first = net.conv(IMAGE, "a", 2, 3)
    return net.graph(net.node("Add", [net.conv(net.conv(first, "b", 1, 3), "c", 2, 3), first], "sum"))


def shared(rows: int = 27, stages: int = 2, cores: tuple[int, int] = (1, 2), width: int = 2) -> Hardware:
    """Cores of 27 rows: a or c beside b, or both of them together."""
    hardware = small_mesh(width, cores)
    return replace(hardware, crossbar_rows=rows, stages_per_core=stages)


def fits(hardware: Hardware, needs: StageNeeds, cores: tuple[int, ...]) -> bool:
    by_core = stages_by_core(cores).values()
    return all(
        len(own) <= hardware.stages_per_core and sum(needs.rows[s] for s in own) <= hardware.core_rows
        for own in by_core
    )


@given(rows=st.lists(st.integers(0, 10), min_size=1, max_size=6), each=st.integers(1, 3), room=st.integers(10, 14))
@settings(max_examples=150, deadline=None)
def test_no_fewer_cores_than_the_least_hold_stages_and_first_fit_s_do(rows: list[int], each: int, room: int) -> None:
    """Against all ways to put them on so many cores."""
    cores = Cores(6, each, room)
    hardware = replace(shared(room, each, (2, 3)), crossbar_rows=room)
    needs = StageNeeds(tuple(rows), (0,) * len(rows), tuple(rows))

    def hold(count: int) -> bool:
        return any(fits(hardware, needs, way) for way in itertools.product(range(count), repeat=len(rows)))

    fewest = next(count for count in range(1, 7) if hold(count))
    counted = Counter(rows)
    assert cores.least(counted) <= fewest <= cores.first_fit(counted) <= len(rows)
    found = packed(hardware, needs)
    assert (found is not None) == (cores.first_fit(counted) <= 6)
    for way in (found, balanced(hardware, needs)):
        assert way is None or fits(hardware, needs, way)


def test_no_candidate_is_below_the_bound_of_any_part_of_it_and_all_can_be_run() -> None:
    for hardware in (shared(), shared(stages=3, width=8), shared(rows=18, cores=(2, 2))):
        space = CmSpace.of(block(), hardware)
        rng = np.random.default_rng(0)
        together = 0
        for _ in range(30):
            state, bounds = space.start(), []
            while state.decision is not None:
                bounds.append(state.bound())
                assert state.decision.options, "a placement of all stages is always left"
                state = state.take(state.decision.options[int(rng.integers(len(state.decision.options)))])
            assert bounds == sorted(bounds), "what is decided only raises it"
            space.check(state.assignment)
            measured = space.measure(state.assignment).metrics
            assert max(bounds) <= measured.get("ticks_per_image", math.inf)
            together += measured.get("cores", 9) < len(space.mapping(state.assignment).cores)
        assert together > 3


def test_the_bound_adds_up_what_cores_do_and_counts_no_link_between_stages_of_one() -> None:
    one = CmSpace.of(block(), replace(shared(stages=3, cores=(1, 1)), crossbar_rows=64))
    placed = one.measure(one.candidate({}, (0, 0, 0), buffer=256)).metrics
    assert one.least_ticks == 3 * 16, "three layers of 16 pixels on one core, however they are replicated"
    assert placed["ticks_per_image"] == placed["promised_ticks"] == placed["compute_ticks"] == 48
    narrow = CmSpace.of(block(), shared(rows=64, stages=3, width=1))
    apart = narrow.measure(narrow.candidate({}, (0, 1, 0), buffer=256)).metrics
    together = narrow.measure(narrow.candidate({}, (0, 0, 0), buffer=256)).metrics
    assert (apart["promised_ticks"], together["promised_ticks"], narrow.least_ticks) == (32, 48, 24)


def test_streams_within_a_core_are_no_part_of_the_bound() -> None:
    """16 pixels of 32 elements from a to b take a link of 2 elements 256 ticks; on one core both layers take 32, and no link."""
    net = Topology("thick", (1, 4, 4))
    graph = net.graph(net.conv(net.conv(IMAGE, "a", 32, 1), "b", 1, 1))
    space = CmSpace.of(graph, shared(rows=64))
    together = space.measure(space.candidate({}, (0, 0), buffer=256)).metrics
    assert space.least_ticks == 16, "two stages, a core each"
    assert together["promised_ticks"] == together["ticks_per_image"] == 32
    assert space.measure(space.candidate({}, (0, 1), buffer=256)).metrics["promised_ticks"] == 256


@needs_compiler
def test_the_search_and_the_solver_find_the_least_of_all_candidates() -> None:
    """Of every replication, core and route. a and c fit on a core together, b on neither's with one of them twice."""
    space = CmSpace.of(block(3), shared(rows=27, stages=2, width=1))
    least = min(promised(space, candidate) for candidate in placements(space.start()))
    found = [c for c in itertools.islice(joint_annealing(space, 0), 40) if c is not None]
    assert min(promised(space, candidate) for candidate in found) == least
    (solved,) = space.model(()).solve(1, (), 0, SolveLimit(2.0)).candidates
    space.check(solved)
    assert promised(space, solved) == least


def placements(state: CmState) -> Iterator[Assignment]:
    """All of them, with the first option of every buffer."""
    if state.decision is None:
        yield state.assignment
    else:
        options = state.decision.options
        for option in options[:1] if state.decision.name.startswith("buffer") else options:
            yield from placements(state.take(option))


def promised(space: CmSpace, candidate: Assignment) -> int:
    return space.promised_ticks(space.lowered(space.replicas(candidate)), space.mapping(candidate))


def random_case(seed: int) -> tuple[list[Stream], StageNeeds, Hardware, tuple[int, ...], np.random.Generator]:
    """Streams of random stages, and cores for them that hold their rows."""
    rng = np.random.default_rng(seed)
    pipeline, hardware = random_pipeline(rng, int(rng.integers(2, 6))), small_hardware(rng)
    hardware = replace(hardware, stages_per_core=int(rng.integers(2, 4)), crossbar_rows=10)
    stages = len(pipeline.stages)
    rows, ticks = (tuple(rng.integers(least, 11, stages).tolist()) for least in (0, 1))
    needs = StageNeeds(rows, (0,) * stages, ticks)
    cores = filled_up(hardware, needs, (None,) * stages, rng.permutation(hardware.cores).tolist())
    return streams_of(pipeline), needs, hardware, cores, rng


def busiest(found: AnnealedPlacement, streams: list[Stream], needs: StageNeeds, hardware: Hardware) -> int:
    return max(ticks_of(found, streams, hardware), core_ticks(needs.ticks, found.cores))


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=needs_compiler), False])
def test_walks_count_shared_cores_and_never_fill_one_beyond_its_rows(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(annealing, "load_kernel", lambda: None)
    better = 0
    for seed in range(40 if compiled else 15):
        streams, needs, hardware, cores, rng = random_case(seed)
        shapes = tuple(rng.integers(0, SHAPES, len(streams)).tolist())
        annealer = Annealer(streams, needs, hardware)
        start = annealer.run(AnnealedPlacement(cores, shapes, 0), 1 << 60, 0, 1, 1, 0)
        assert start is not None
        assert (start.cores, start.shapes) == (cores, shapes)
        assert start.ticks == busiest(start, streams, needs, hardware)
        found = annealer.run(start, start.ticks, 3000 if compiled else 30_000, 1, 1, seed)
        if found is not None:
            better += 1
            assert found.ticks == busiest(found, streams, needs, hardware) < start.ticks
            assert fits(hardware, needs, found.cores)
    assert better > 5


@needs_compiler
def test_the_least_of_small_problems_is_found() -> None:
    """Over all placements, each on the routes of the first shape; the walk may take others as well."""
    for seed in range(12):
        streams, needs, hardware, cores, _ = random_case(seed)
        shapes = (0,) * len(streams)
        ways = itertools.product(range(hardware.cores), repeat=needs.stages)
        every = (AnnealedPlacement(way, shapes, 0) for way in ways if fits(hardware, needs, way))
        least = min(busiest(way, streams, needs, hardware) for way in every)
        start = AnnealedPlacement(cores, shapes, 1 << 60)
        runs = [Annealer(streams, needs, hardware).run(start, 1 << 60, 20_000, 1, 1, run) for run in range(2)]
        assert min(run.ticks for run in runs if run is not None) <= least, seed


@needs_compiler
def test_a_first_placement_is_near_and_keeps_to_the_room_of_its_cores() -> None:
    for seed in range(20):
        streams, needs, hardware, cores, _ = random_case(seed)
        before, room = core_ticks(needs.ticks, cores), max(needs.ticks)
        found = arranged(streams, needs, hardware, cores, seed, room)
        assert fits(hardware, needs, found)
        assert core_ticks(needs.ticks, found) <= max(before, room)
        assert wirelength(streams, hardware, found) <= wirelength(streams, hardware, cores)


def test_pieces_are_the_stages_of_the_lowered_network_and_lie_more_evenly_afterwards() -> None:
    hardware = replace(shared(rows=1024, stages=32, cores=(4, 4), width=32), crossbar_columns=256)
    space = CmSpace.of(integer_shape(weightless("resnet20")), hardware)
    grained = grained_replicas(space.costs, 0.5 * space.least_ticks, space.cores)
    assert grained is not None
    even = evened(space.costs, grained, space.cores, np.random.default_rng(0))
    busy = []
    for replicas in (grained, even):
        lowered = space.lowered(replicas)
        pieces = {c.shape.name: _pieces(c, replicas[c.shape.name]) for c in space.costs}
        rows_and_ticks = Counter((p.rows, p.ticks) for own in pieces.values() for p in own)
        assert rows_and_ticks == Counter(zip(lowered.rows, lowered.image_ticks, strict=True))
        cores = balanced(space.hardware, lowered.needs)
        assert cores is not None
        busy.append(core_ticks(lowered.image_ticks, cores))
        assert _unevenness(pieces, space.cores) >= 1.0
    mean = sum(cost.all_ticks for cost in space.costs) / 16
    assert mean <= busy[1] < 1.03 * mean < busy[0]


@needs_compiler
@pytest.mark.slow
def test_a_network_that_has_no_core_for_each_stage_is_mapped_onto_few() -> None:
    """21 stages on 9 cores: where each had its own they were refused. The procedure has its baselines; nothing exceeds a core."""
    small = replace(shared(rows=1024, stages=8, cores=(3, 3), width=32), crossbar_columns=256, sram_bytes=1 << 16)
    graph = integer_shape(weightless("resnet20"))
    with pytest.raises(ValueError, match="needs 21 cores and small has 9: 12 too few"):
        CmSpace.of(graph, replace(small, stages_per_core=1))
    space = CmSpace.of(graph, small)
    trial = run_procedure(space)
    assert trial is not None
    assert trial.measurement.failure is None
    found = [c for c in itertools.islice(joint_annealing(space, 0), 9) if c is not None]
    best = min((space.measure(c) for c in found), key=lambda m: m.metrics["ticks_per_image"])
    for candidate in found:
        space.check(candidate)
    assert best.metrics["ticks_per_image"] < 0.95 * trial.measurement.metrics["ticks_per_image"]
    assert best.metrics["ticks_per_image"] < 1.04 * space.least_ticks
    assert best.metrics["cores"] == 9
    assert found == [c for c in itertools.islice(joint_annealing(space, 0), 9) if c is not None], "repeatable"
