"""The mapping space: what a candidate means, what it is measured by, and what bounds promise."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
import re
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.cm.access import AccessPattern, Rectangle, counts
from kilotune.codegen.cm.hardware import Hardware, load_hardware, parse_hardware
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.streams import streams_of
from kilotune.codegen.onnx.graph import Graph, Window
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.cm.networks import chain, weightless
from kilotune.search.budget import Budget
from kilotune.search.candidates import random_candidate
from kilotune.search.procedure import run_procedure
from kilotune.search.strategies.random import all_candidates
from kilotune.search.study import Study
from kilotune.spaces.cm.annealing import load_kernel
from kilotune.spaces.cm.baselines import balanced_replicas
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.lowered import cores_needed, least_ticks
from kilotune.spaces.cm.network import PartitionedNetwork
from kilotune.spaces.cm.procedure import snake_candidate
from kilotune.spaces.cm.replication import LayerShape, Replication
from kilotune.spaces.cm.seams import PortTicks
from kilotune.spaces.cm.sharing import Cores
from kilotune.spaces.cm.space import CmSpace

needs_compiler = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")


def small_hardware(width: int = 4, cores: tuple[int, int] = (2, 2), **core: int) -> Hardware:
    described: dict[str, Any] = {
        "name": "small",
        "topology": {"kind": "mesh", "rows": cores[0], "columns": cores[1]},
        "link": {"elements_per_tick": width, "hop_ticks": 1},
        "crossbar": {"rows": 256, "columns": 256, "per_core": 1},
        "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 64, **core},
        "gmem": {"input_ports": [0], "output_ports": [0], "elements_per_tick": 4, "hop_ticks": 1, "order": "row-major"},
        "element_bytes": 1,
    }
    return parse_hardware(described, "small.json")


def residual_block(size: int = 6) -> Graph:
    net = Topology("block", (4, size, size))
    return net.graph(net.node("Add", [net.conv(net.conv(IMAGE, "a", 4, 3), "b", 4, 3), IMAGE], "sum"))


def mapped(name: str, hardware: str, strict: bool = False) -> CmSpace:
    return CmSpace.of(integer_shape(weightless(name)), load_hardware(hardware), strict)


@pytest.mark.parametrize("seed", range(40))
def test_window_counts_are_what_reading_pixel_by_pixel_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, stride, padding = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    top, left = rng.integers(0, 4, 2).tolist()
    writer = Rectangle(top, top + int(rng.integers(1, 6)), left, left + int(rng.integers(1, 6)))
    first = rng.integers(0, 3, 2).tolist()
    reader = Rectangle(first[0], first[0] + int(rng.integers(1, 5)), first[1], first[1] + int(rng.integers(1, 5)))
    written = list(itertools.product(range(writer.top, writer.bottom), range(writer.left, writer.right)))
    seen = []
    for y, x in itertools.product(range(reader.top, reader.bottom), range(reader.left, reader.right)):
        window = itertools.product(range(kernel), range(kernel))
        pixels = {(y * stride - padding + dy, x * stride - padding + dx) for dy, dx in window}
        seen.append({i for i, pixel in enumerate(written) if pixel in pixels})
    needed = [max((i + 1 for one in seen[: j + 1] for i in one), default=0) for j in range(len(seen))]
    later = [set().union(*seen[j + 1 :]) for j in range(len(seen))]
    released = [min(after, default=len(written)) for after in later]
    window = Window((kernel, kernel), (stride, stride), (padding,) * 4)
    found = counts(AccessPattern((window,), reader, writer))
    assert [a.tolist() for a in found] == [needed, released, [i in set().union(*seen) for i in range(len(written))]]


def test_replicas_are_sent_their_rows_and_a_halo_and_together_do_all_the_work() -> None:
    network = mapped("resnet20", "mesh-8x8").network
    once = network.pipeline({})
    four = network.pipeline({"conv0.0a": Replication(4), "conv0.0b": Replication(4)})
    for layer in ("conv0.0a", "conv0.0b", "conv2.0a"):
        pixels = [sum(s.iterations for s in p.stages if s.layer == layer and s.row_block == 0) for p in (once, four)]
        assert pixels[0] == pixels[1]
    between = [
        s for s in streams_of(four)
        if s.writer >= 0 and s.reader >= 0
        and four.stages[s.writer].layer == "conv0.0a" and four.stages[s.reader].layer == "conv0.0b"
    ]  # fmt: skip
    # each of four blocks of 8 rows reads itself and one row of each neighbour
    assert sorted(s.packets for s in between) == [32] * 6 + [256] * 4


def test_replications_that_are_no_faster_than_fewer_ones_are_no_options() -> None:
    options = LayerShape("l", 8, 8, 1).replications()
    assert [r.option for r in options if r.axis == "rows"] == ["1", "2 rows", "3 rows", "4 rows", "8 rows"]
    assert Replication.of("3 columns") == Replication(3, "columns")
    for one in (Replication(3, "columns"), Replication(2, chained=True), Replication(chained=True), Replication()):
        assert Replication.of(one.option) == one
    assert Replication(3, "columns", chained=True).option == "3 columns chained"
    assert not any(r.chained for r in LayerShape("l", 8, 8, 2, 2).replications()), "two blocks are a chain anyway"
    three = LayerShape("l", 8, 8, 3, 3).replications(2)
    assert [r.option for r in three] == [
        "1 chained",
        "1",
        *(f"2 {w}" for w in ("columns chained", "rows chained")),
        "2 columns",
        "2 rows",
    ]


def test_every_prefix_of_a_candidate_has_a_bound_that_its_measurement_keeps() -> None:
    space = CmSpace.of(residual_block(), small_hardware())
    rng = np.random.default_rng(0)
    for _ in range(25):
        candidate = random_candidate(space, rng)
        measured = space.measure(candidate)
        bounds = []
        state = space.start()
        while (decision := state.decision) is not None:
            bounds.append(state.bound())
            state = state.take(candidate[decision.name])
        assert bounds == sorted(bounds)
        assert state.assignment == candidate
        if measured.failure is None:
            space.check(candidate)
            assert bounds[-1] <= measured.metrics["promised_ticks"] <= measured.metrics["ticks_per_image"]
            assert bounds[0] >= space.least_ticks


def test_answers_are_put_in_the_order_in_which_they_are_asked() -> None:
    space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware("mesh-8x8"))
    asked = random_candidate(space, np.random.default_rng(1))
    assert list(space.in_order(dict(sorted(asked.items()))).items()) == list(asked.items())
    with pytest.raises(KeyError, match="buffer"):
        space.in_order({name: answer for name, answer in asked.items() if not name.startswith("buffer")})
    core, route, buffer = (
        next(name for name in asked if name.startswith(kind)) for kind in ("core", "route", "buffer")
    )
    for name, wrong in ((core, 64), (core, -1), (core, "far"), (route, "far"), (route, -1), (buffer, 3), (core, True)):
        with pytest.raises(ValueError, match=f"{re.escape(name)} is {wrong!r}, which is none of its options"):
            space.in_order({**asked, name: wrong})


def test_exhaustive_search_proves_what_measuring_everything_finds() -> None:
    space = CmSpace.of(chain(1, 3, channels=4), small_hardware(1, (1, 2)))
    everything = list(all_candidates(space))
    losses = [m.metrics["ticks_per_image"] for m in space.evaluate(everything) if m.failure is None]
    result = Study(space, "exhaustive").run(InProcessExecutor(space))
    assert len(everything) > 20
    assert result.proved
    assert result.best is not None
    assert result.best.measurement.metrics["ticks_per_image"] == min(losses)
    assert min(losses) < max(losses)


def test_the_bound_of_all_replications_is_the_best_of_them() -> None:
    space = CmSpace.of(residual_block(), small_hardware(64, (2, 4)))
    options = [shape.replications() for shape in space.shapes]
    best = min(
        max(cost.ticks(r) for cost, r in zip(space.costs, chosen, strict=True))
        for chosen in itertools.product(*options)
        if cores_needed(space.costs, {c.shape.name: r for c, r in zip(space.costs, chosen, strict=True)}, space.cores)
        <= 8
    )
    # 8 cores cut both layers of 6 rows into blocks of 2; GMEM's port takes longer
    assert best == 36 == max(min(cost.ports.shared.values()) for cost in space.costs)
    alone = tuple(dataclasses.replace(cost, ports=PortTicks()) for cost in space.costs)
    assert least_ticks(alone, Cores(8)) == 12
    assert least_ticks(space.costs, Cores(8)) == 72
    assert space.start().bound() == space.least_ticks == 72, "two readers of 36 pixels of 4 through a port of 4"


@pytest.mark.slow
@needs_compiler
def test_joint_annealing_ends_at_the_optimum_and_the_simulation_confirms_it() -> None:
    space = mapped("resnet20", "mesh-8x8-64")
    candidates = [c for c in itertools.islice(joint_annealing(space, 0), 8) if c is not None]
    best = min((space.measure(c) for c in candidates), key=lambda m: m.metrics["ticks_per_image"])
    assert best.metrics["promised_ticks"] == space.least_ticks == 256
    assert best.metrics["ticks_per_image"] == 256
    for candidate in candidates:
        space.check(candidate)


@pytest.mark.slow
@needs_compiler
def test_joint_annealing_is_repeatable() -> None:
    space = CmSpace.of(residual_block(8), small_hardware(2, (2, 3)))
    runs = [list(itertools.islice(joint_annealing(space, seed), 6)) for seed in (3, 3)]
    assert runs[0] == runs[1]


@needs_compiler
def test_a_promise_is_kept_with_roomy_buffers_and_not_without_room() -> None:
    space = mapped("resnet20", "mesh-8x8-32")
    found = [c for c in itertools.islice(joint_annealing(space, 1), 4) if c is not None][-1]
    measured = {}
    for room in (256, 0):
        answers = {name: room if name.startswith("buffer") else answer for name, answer in found.items()}
        measured[room] = space.measure(answers).metrics
    assert measured[256]["ticks_per_image"] == measured[256]["promised_ticks"] == 256
    assert measured[0]["promised_ticks"] == 256
    assert measured[0]["ticks_per_image"] > 260
    assert measured[0]["sram_bytes"] < measured[256]["sram_bytes"]


@pytest.mark.slow
def test_the_papers_procedure_keeps_connected_partitions_near_and_a_chain_strictly_adjacent() -> None:
    trial = run_procedure(mapped("resnet20", "mesh-8x8"))
    assert trial is not None
    assert trial.measurement.metrics["longest_route_links"] == 2  # residual triangles fit no mesh
    assert trial.measurement.metrics["ticks_per_image"] == 1024
    strict = CmSpace.of(chain(12, 8), load_hardware("mesh-8x8"), strict=True)
    trial = run_procedure(strict)
    assert trial is not None
    assert trial.measurement.metrics["longest_route_links"] == 1


def test_replicas_for_the_cores_alone_can_make_it_slower() -> None:
    """The facts' warning: seven times four replicas in snake order are slower than no replicas at all."""
    space = mapped("resnet20", "mesh-8x8-16")
    balanced = balanced_replicas(space)
    assert cores_needed(space.costs, balanced, Cores(64)) <= 64
    replicated = space.measure(snake_candidate(space, balanced=True)).metrics
    plain = space.measure(snake_candidate(space, balanced=False)).metrics
    assert replicated["compute_ticks"] < plain["compute_ticks"]
    assert replicated["ticks_per_image"] > plain["ticks_per_image"]


def test_a_network_that_does_not_fit_says_what_is_short_by_how_much() -> None:
    with pytest.raises(ValueError, match="chain-6 needs 6 cores and small has 4: 2 too few"):
        CmSpace.of(chain(6, 8), small_hardware())
    with pytest.raises(
        ValueError, match=r"least buffers of conv0 take \d+ bytes and a core of small has 20: \d+ too few"
    ):
        CmSpace.of(chain(2, 16), small_hardware(sram_bytes=20))
    hardware = small_hardware()
    network = PartitionedNetwork(partition(chain(1, 4)), hardware)
    with pytest.raises(
        ValueError, match="matrix of conv0 has 144 rows and 16 columns; a core of small holds 100 and 256"
    ):
        CmSpace(network, dataclasses.replace(hardware, crossbar_rows=100))


def test_the_fingerprint_tells_networks_hardware_and_questions_apart_and_spaces_travel() -> None:
    spaces = [
        CmSpace.of(residual_block(), small_hardware()),
        CmSpace.of(residual_block(), small_hardware(8)),
        CmSpace.of(residual_block(8), small_hardware()),
        CmSpace.of(residual_block(), small_hardware(), strict=True),
    ]
    assert len({space.fingerprint for space in spaces}) == 4
    copied = pickle.loads(pickle.dumps(spaces[0]))
    candidate = random_candidate(copied, np.random.default_rng(0))
    assert copied.fingerprint == spaces[0].fingerprint
    assert copied.evaluate([candidate]) == spaces[0].evaluate([copy.copy(candidate)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "trials"), [("random", 8), ("count_tpe", 8), ("refine", 8), ("cp", 2), ("anneal", 2)]
)
def test_every_strategy_runs_on_it(strategy: str, trials: int) -> None:
    space = CmSpace.of(residual_block(), small_hardware(2, (2, 3)))
    result = Study(space, strategy).run(InProcessExecutor(space), Budget(trials=trials))
    assert result.best is not None
    assert result.feasible
    assert result.bound is not None
    assert result.bound >= space.least_ticks
