"""Replications that keep a pace: flows by hand, and against what the lowered pipelines send."""

from __future__ import annotations

import itertools

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm.lowered import cores_needed
from kilotune.spaces.cm.pacing import LayerFlow, layer_flows, paced_replicas, paces, thinned_replicas
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.sharing import Cores
from kilotune.spaces.cm.space import CmSpace


def test_replicas_of_both_ends_share_a_stream_out() -> None:
    flow = LayerFlow("a", "b", 12.0)
    three, four = Replication(3, "columns"), Replication(4, "columns")
    assert flow.least_ticks({"a": three, "b": four}) == 3.0, "cut alike: the larger number"
    assert flow.least_ticks({"a": three, "b": Replication(4, "rows")}) == 1.0, "cut across: every part to every part"
    assert LayerFlow(None, "b", 12.0).least_ticks({"b": four}) == 3.0


def test_flows_of_squeezenet() -> None:
    """729 pixels of 192 channels from an expansion to the squeezing layer behind it, over links of 64 elements."""
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), load_hardware("mesh-16x16"))
    flows = {(f.writer, f.reader): f.ticks for f in layer_flows(space.lowered({}), space.hardware)}
    assert flows["fire7.expand1x1", "fire8.squeeze"] == 27 * 27 * 192 / 64
    assert not any(writer == reader for writer, reader in flows)


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1.0"])
def test_a_pace_is_kept_by_cores_and_almost_by_streams(name: str) -> None:
    space = CmSpace.of(integer_shape(weightless(name)), load_hardware("mesh-16x16"))
    kept = 0
    for pace in paces(space.costs, space.least_ticks, 0.2):
        replicas = paced_replicas(space.costs, space.flows, pace, Cores(space.hardware.cores))
        if replicas is None:
            continue
        kept += 1
        assert cores_needed(space.costs, replicas, Cores(64)) <= space.hardware.cores
        assert max(cost.ticks(replicas[cost.shape.name]) for cost in space.costs) <= pace
        assert max(flow.least_ticks(replicas) for flow in space.flows) <= pace
        needed = cores_needed(space.costs, replicas, Cores(64))
        assert paced_replicas(space.costs, space.flows, pace, Cores(needed)) == replicas, "with no core to spare"
        assert paced_replicas(space.costs, space.flows, pace, Cores(needed - 1)) is None
        lowered = space.lowered(replicas)
        assert lowered.compute_ticks <= pace
        layers = [stage.layer for stage in lowered.pipeline.stages]
        inner = [s for s in lowered.streams if min(s.writer, s.reader) >= 0]
        busiest = max(s.image_load / 64 for s in inner if layers[s.writer] != layers[s.reader])
        assert busiest <= 1.6 * pace, "a halo, and cuts at different places"
        if kept == 4:
            break
    assert kept >= 3


def test_flows_take_no_more_replicas_than_they_need() -> None:
    """An expansion of 3x3 to 192 channels, 27 x 27 pixels: 2187 ticks over a link of 64; a third of that takes three replicas."""
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), load_hardware("mesh-16x16"))
    (one,) = (flow for flow in space.flows if (flow.writer, flow.reader) == ("fire6.expand3x3", "fire7.squeeze"))
    cost = {cost.shape.name: cost for cost in space.costs}
    costs = (cost["fire6.expand3x3"], cost["fire7.squeeze"])
    slowest = max(c.ticks(Replication()) for c in costs)
    for parts in (1, 2, 3, 5):
        replicas = paced_replicas(costs, (one,), max(one.ticks / parts, 1.0), Cores(64))
        alone = paced_replicas(costs, (), max(one.ticks / parts, 1.0), Cores(64))
        assert replicas is not None
        assert alone is not None
        assert max(r.count for r in replicas.values()) == max(parts, *(r.count for r in alone.values()))
    assert slowest > one.ticks / 5, "streams are not all that is asked for"


def test_streams_are_thinned_along_their_axis_as_far_as_that_goes() -> None:
    """SqueezeNet's first pooling has 54 columns, so that what it reads of 109 x 109 x 96 elements takes 330 ticks or more of a link.
    The convolution before it, which reads the image, stays at the 16 replicas for which GMEM has the time. All other streams become
    as thin as asked for."""
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), load_hardware("mesh-16x16"))
    costs, pace, thickness = space.costs, space.least_ticks, 250.0
    replicas = thinned_replicas(costs, space.flows, pace, thickness, Cores(4096))
    assert replicas is not None
    left = {(f.writer, f.reader): f.least_ticks(replicas) for f in space.flows}
    assert left.pop(("conv1", "pool1")) == pytest.approx(109 * 109 * 96 / 64 / 54)
    assert max(left.values()) <= thickness
    assert replicas["conv1"].count == 16
    assert max(cost.own_ticks(replicas[cost.shape.name]) for cost in costs) <= pace
    assert (
        max(cost.stream_ticks(replicas[cost.shape.name]) for cost in costs if cost.shape.name != "conv1") <= thickness
    )
    needed = cores_needed(costs, replicas, Cores(64))
    assert thinned_replicas(costs, space.flows, pace, thickness, Cores(needed - 1)) is None
    once = thinned_replicas(costs, space.flows, 1e9, 1e9, Cores(space.hardware.cores))
    assert once is not None
    assert {replication.count for replication in once.values()} == {1}, "not more than is asked for"


def test_paces_begin_with_the_least_and_grow_by_steps() -> None:
    """A bound that is rounded up lies between what layers take: without it, what takes a tick less was never tried."""
    space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware("mesh-8x8"))
    found = list(paces(space.costs, 200.5, 0.1))
    assert found[0] == 200.5
    assert all(later >= 1.1 * earlier for earlier, later in itertools.pairwise(found))
    assert set(found[1:]) <= {cost.ticks(r) for cost in space.costs for r in cost.shape.replications()}


def test_poolings_that_do_not_fit_a_core_are_shared_out_by_channels() -> None:
    """SqueezeNet's last pooling keeps 169 pixels of 1000 channels; a core has 65 536 bytes."""
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), load_hardware("mesh-16x16"))
    stages = space.lowered({}).pipeline.stages
    shares = [stage for stage in stages if stage.layer == "average"]
    assert [stage.output_elements for stage in shares] == [166, 167, 167, 166, 167, 167]
    assert sum(stage.layer == "pool1" for stage in stages) == 1
    # Twice as many cores of half as many channels each take half of the digital unit's ticks.
    shape, cost = next((cost.shape, cost) for cost in space.costs if cost.shape.name == "average")
    options = [r.option for r in shape.replications()]
    assert options == ["1", *(f"{1 << k} channels" for k in range(1, 7))], "1000 channels on 6 * 64 cores at most"
    twice = Replication.of("2 channels")
    assert [twice.option, Replication.of("1").option] == ["2 channels", "1"]
    finer = space.lowered({"average": twice})
    own = [n for n, stage in enumerate(finer.pipeline.stages) if stage.layer == "average"]
    assert [finer.pipeline.stages[n].output_elements for n in own] == [83, 83, 84, 83, 83, 84] * 2
    assert cores_needed(space.costs, {"average": twice}, Cores(64)) == len(finer.pipeline.stages) == len(stages) + 6
    assert cost.compute_ticks(twice) <= max(finer.ticks[n] for n in own) < cost.compute_ticks(Replication())
