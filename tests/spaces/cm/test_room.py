"""What buffers hold when links are shared, and replicas of the layers that have too little room for it."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.cm.mapping import Mapping, core_sram_bytes
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.evaluators.cm.occupancy import held_packets
from kilotune.evaluators.cm.timing import load_timing
from kilotune.spaces.cm import designer, joint
from kilotune.spaces.cm.annealing import load_kernel
from kilotune.spaces.cm.buffers import ALL_OF_IT, AS_HELD, HELD_IMAGES
from kilotune.spaces.cm.designs import Design, carried_over, routes_of
from kilotune.spaces.cm.lowered import cores_needed
from kilotune.spaces.cm.room import crowded, spread_out, too_large
from kilotune.spaces.cm.sharing import Cores
from kilotune.spaces.cm.space import CmSpace
from kilotune.spaces.cm.speeds import speeds

IMAGES = 5


def dense_space(sram_bytes: int, side: int = 32, layers: int = 5) -> CmSpace:
    """Every layer reads all before it, over links of 16 elements a tick: short ways wait for long ones."""
    net = Topology("dense", (3, side, side))
    parts = [net.node("Relu", [net.conv(IMAGE, "stem", 16, 3, bias=True)], "first")]
    for k in range(layers):
        x = net.node("Concat", parts, f"all{k}", axis=1) if k else parts[0]
        x = net.node("Relu", [net.conv(x, f"narrow{k}", 40, 1, bias=True)], f"relu{k}")
        parts.append(net.node("Relu", [net.conv(x, f"wide{k}", 10, 3, bias=True)], f"last{k}"))
    graph = integer_shape(net.graph(net.node("Concat", parts, "end", axis=1)))
    mesh = load_hardware("mesh-8x8")
    narrow = tuple(dataclasses.replace(link, width=16) for link in mesh.links)
    return CmSpace.of(graph, dataclasses.replace(mesh, links=narrow, sram_bytes=sram_bytes))


def annealed(space: CmSpace, level: int, seed: int = 0) -> tuple[designer.Designer, Design]:
    search = designer.Designer(space, seed)
    return search, search.improve(search.laid_out(list(speeds(search.space, search.rng))[level]), 3000)


def test_buffers_as_large_as_what_they_hold_over_shared_links_slow_nothing_down_and_smaller_ones_do() -> None:
    space = dense_space(65536)
    _, design = annealed(space, 3)
    lowered, routes = design.lowered, tuple(routes_of(space, design))
    unbounded = Mapping(design.placement.cores, routes, (0,) * len(routes))
    pace = space.promised_ticks(lowered, unbounded)
    free = space.simulate(lowered, unbounded, IMAGES, record_starts=True)
    assert free.starts is not None
    held = held_packets(lowered.pipeline, lowered.streams, lowered.ticks, free.starts, pace)
    inner = [n for n, stream in enumerate(lowered.streams) if stream.reader != GMEM]
    assert all(held[n] > 0 for n in inner)

    def starts(capacities: tuple[int, ...]) -> list[list[int]]:
        mapping = dataclasses.replace(unbounded, capacities=capacities)
        timing = space.simulate(lowered, mapping, IMAGES, record_starts=True)
        assert timing.starts is not None
        return [stage.tolist() for stage in timing.starts]

    expected = [stage.tolist() for stage in free.starts]
    assert starts(held) == expected
    tight = [n for n in inner if lowered.streams[n].writer != GMEM and held[n] > lowered.streams[n].minimum_capacity]
    changed = [starts((*held[:n], held[n] - 1, *held[n + 1 :])) != expected for n in tight[:6]]
    assert len(changed) == 6
    assert all(changed)


@pytest.mark.parametrize(("sram_bytes", "roomy"), [(1 << 17, True), (8192, False)])
def test_buffers_as_held_hold_nothing_up_where_there_is_room_and_fit_where_there_is_not(
    sram_bytes: int, roomy: bool
) -> None:
    space = dense_space(sram_bytes)
    _, design = annealed(space, 3)
    routes = tuple(routes_of(space, design))
    candidate = space.candidate(design.replicas, design.placement.cores, design.placement.shapes, AS_HELD)
    lowered, mapping = design.lowered, space.mapping(candidate)
    held = space.held(lowered, mapping.cores, routes)
    inner = [n for n, stream in enumerate(lowered.streams) if stream.reader != GMEM]
    assert all(mapping.capacities[n] >= held[n] for n in inner) == roomy
    assert all(mapping.capacities[n] >= lowered.streams[n].minimum_capacity for n in inner)
    assert max(core_sram_bytes(lowered.streams, mapping).values()) <= sram_bytes
    unbounded = dataclasses.replace(mapping, capacities=(0,) * len(routes))
    ticks = [space.simulate(lowered, m, HELD_IMAGES).finish_ticks.tolist() for m in (mapping, unbounded)]
    assert (ticks[0] == ticks[1]) == roomy


def test_layers_that_would_hold_up_others_get_more_replicas_and_images_come_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if load_timing() is None:
        pytest.skip("a C compiler simulates this")
    for module in (joint, designer):
        monkeypatch.setattr(module, "FIRST_MOVES", 3000)
    space = dense_space(8192)
    search, crowding = annealed(space, 3)
    assert not too_large(space, crowding), "there is room for what is under way when nothing is in the way"
    crowds = crowded(space, crowding)
    assert crowds
    assert min(crowds.values()) > 1
    wider = search.uncrowded(crowding, joint.SPREADING_ROUNDS, 20_000)
    assert sum(crowded(space, wider).values()) < sum(crowds.values())
    assert not too_large(space, wider)
    assert search.measured(wider) < 0.9 * search.measured(crowding)


def test_a_search_goes_on_with_designs_that_have_been_given_room(monkeypatch: pytest.MonkeyPatch) -> None:
    if load_timing() is None:
        pytest.skip("a C compiler simulates this")
    for module in (joint, designer):
        monkeypatch.setattr(module, "FIRST_MOVES", 3000)
    space = dense_space(8192)
    search, slow = annealed(space, 0)
    finishing = joint._finished(
        search, search.improve(search.laid_out(list(speeds(search.space, search.rng))[1]), 3000), slow
    )
    shown = []
    while True:
        try:
            shown.append(next(finishing))
        except StopIteration as end:
            best = end.value
            break
    assert best is not None
    assert best is not slow
    _, without = annealed(space, 3)
    assert sum(crowded(space, best).values()) < 0.7 * sum(crowded(space, without).values())
    assert [candidate for candidate in shown if candidate is not None] == list(
        itertools.islice(search.candidates(best), 2)
    )


def test_neighbours_of_a_design_get_room_and_are_spread_out_on_the_way_to_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A network found among generated ones: 81 ticks, the bound, after 12 neighbours. Where those with too large buffers are dropped,
    however fast they are, 90 after 20; where they get room but are not spread out, 144."""
    if load_timing() is None:
        pytest.skip("a C compiler simulates this")
    for module in (joint, designer):
        monkeypatch.setattr(module, "FIRST_MOVES", 3000)
    monkeypatch.setattr(joint, "LONG_MOVES", 12_000)
    space = dense_space(1536, side=12, layers=2)
    search, begun = annealed(space, 0, seed=2)
    assert begun.ticks == 180
    assert search.fits(begun)
    neighbours = joint._by_neighbours(search, begun)
    best = None
    try:
        for _ in range(20):
            next(neighbours)
    except StopIteration as end:  # no neighbour promises less than the bound
        best = end.value
    assert best is not None
    assert best.ticks == space.least_ticks == 81
    assert search.fits(best)


@pytest.mark.parametrize(("level", "shown"), [(0, 1), (3, 2)])
def test_other_buffers_are_shown_only_where_the_first_ones_are_slower_than_the_design_promises(
    level: int, shown: int
) -> None:
    if load_timing() is None:
        pytest.skip("a C compiler simulates this")
    space = dense_space(8192)
    search, design = annealed(space, level)
    candidates = [candidate for candidate in search.shown(design, at_once=True) if candidate is not None]
    assert len(candidates) == shown
    ticks = [space.measure(candidate).metrics["ticks_per_image"] for candidate in candidates]
    assert (ticks[0] == design.ticks) == (shown == 1)


def test_a_design_with_more_room_is_annealed_anew_only_where_a_cold_walk_leaves_it_slower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if load_kernel() is None:
        pytest.skip("without a C compiler a walk takes long")
    for module in (joint, designer):
        monkeypatch.setattr(module, "FIRST_MOVES", 3000)
    space, moves = dense_space(65536), []
    search, design = annealed(space, 3)
    one = space.shapes[-1]
    more = next(r for r in one.replications() if r.count > design.replicas[one.name].count)
    wider = carried_over(space, design, {**design.replicas, one.name: more}, np.random.default_rng(0))
    improve = search.improve

    def counted(start: Design, count: int, *, cold: bool = False) -> Design:
        moves.append(count)
        return improve(start, count, cold=cold)

    monkeypatch.setattr(search, "improve", counted)
    for ticks, expected in ((1 << 40, [designer.REPAIR_MOVES]), (1, [designer.REPAIR_MOVES, 3000])):
        before = dataclasses.replace(design, placement=dataclasses.replace(design.placement, ticks=ticks))
        assert search.repaired(wider, before).ticks < improve(wider, 0).ticks
        assert moves == expected
        moves.clear()


@pytest.mark.parametrize("few_cores", [0.01, 1.0])
def test_where_measuring_takes_long_one_that_promises_far_less_is_shown_before_others_are_annealed(
    few_cores: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, with full memories, where too few cores are left for one that is faster still; not where many are."""
    for module in (joint, designer):
        monkeypatch.setattr(module, "FIRST_MOVES", 3000)
    for name, few in (("FEW", 0), ("FAR_FEWER", 0.9), ("FEW_CORES", few_cores)):
        monkeypatch.setattr(designer, name, few)
    space = dense_space(1 << 17)
    search, begun = designer.Designer(space, 0), []
    laid_out = search.laid_out
    monkeypatch.setattr(search, "laid_out", lambda replicas: begun.append(replicas) or laid_out(replicas))
    shown = [(len(begun), c) for c in itertools.islice(joint._by_levels(search), 3) if c is not None]
    assert shown[0][0] == 1
    early = [candidate for number, candidate in shown[1:] if number == 2]
    assert bool(early) == (few_cores == 1.0)
    if early:
        assert {early[0][f"buffer {shape.name}"] for shape in space.shapes} == {ALL_OF_IT}
        ticks = [space.measure(candidate).metrics["ticks_per_image"] for candidate in (shown[0][1], early[0])]
        assert ticks[1] < ticks[0]


def test_the_most_crowded_layers_come_first_where_cores_are_few() -> None:
    space = dense_space(65536)
    _, design = annealed(space, 0)
    rng = np.random.default_rng(0)
    names = [shape.name for shape in space.shapes][:4]
    crowds = {names[0]: 1.2, names[1]: 9.0, names[2]: 1.4}
    found = spread_out(space, design, crowds, rng)
    assert found is not None
    assert {name: found.replicas[name].count for name in names} == dict(zip(names, (2, 2, 2, 1), strict=True))
    taken = cores_needed(space.costs, design.replicas, Cores(64))
    space.hardware = dataclasses.replace(space.hardware, cores=taken + 1)
    scarce = spread_out(space, dataclasses.replace(design), crowds, rng)
    assert scarce is not None
    assert [name for name in names if scarce.replicas[name].count > 1] == [names[1]]
    space.hardware = dataclasses.replace(space.hardware, cores=taken)
    assert spread_out(space, design, crowds, rng) is None


def test_stages_that_stay_keep_their_cores() -> None:
    space = dense_space(65536)
    _, design = annealed(space, 0)
    one = space.shapes[1]
    more = next(r for r in one.replications() if r.count == 2)
    other = carried_over(space, design, {**design.replicas, one.name: more}, np.random.default_rng(0))
    before, after = (
        {
            (s.layer, s.replica, s.row_block): core
            for s, core in zip(d.lowered.pipeline.stages, d.placement.cores, strict=True)
        }
        for d in (design, other)
    )
    assert all(after[part] == core for part, core in before.items())
    assert len(set(other.placement.cores)) == len(other.placement.cores) == len(before) + one.cores
    assert math.isfinite(other.ticks)


@pytest.mark.skipif(load_kernel() is None, reason="no C compiler")
def test_annealing_leaves_links_below_its_target_as_idle_as_it_can() -> None:
    """By what exceeds a target that nothing reaches alone, they fill up to it: 1438 ticks on average of these, and 1248 now."""
    space, found = dense_space(65536), []
    for seed in range(4):
        search = designer.Designer(space, seed)
        design = search.laid_out(list(speeds(search.space, search.rng))[2])
        assert search.floor(design) == 1056
        found.append(search.improve(design, 40_000).placement.ticks)
    assert sum(found) / 4 < 1300
