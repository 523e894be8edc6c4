"""What else than ticks may lead: its order, its bound, and a search that follows it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen.cm.energy import EnergyTable
from kilotune.codegen.cm.hardware import Hardware, load_hardware
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.experiments.problems.cm.problem import command_options, read_options
from kilotune.experiments.problems.family import CommandOptions
from kilotune.spaces.cm.annealing import load_kernel
from kilotune.spaces.cm.candidates import OBJECTIVES
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.space import CmSpace
from tests.spaces.cm.test_space import residual_block, small_hardware

needs_compiler = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")


def priced(hardware: Hardware) -> Hardware:
    """Every core in use costs a nanojoule a tick, and a bit over a link twenty picojoules."""
    return replace(hardware, energy=EnergyTable("test", (("link_bit_pj", 20.0), ("core_tick_pj", 1000.0))))


def space(objective: str) -> CmSpace:
    return CmSpace.of(residual_block(), priced(small_hardware(8, (2, 3))), objective=objective)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_leads_and_the_others_break_its_ties(objective: str) -> None:
    metrics = [o.metric for o in space(objective).objectives]
    assert metrics[0] == OBJECTIVES[objective]
    rest = [m for m in ("ticks_per_image", "latency_ticks", "cores", "sram_bytes") if m != metrics[0]]
    assert metrics[1:] == rest


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_candidate_is_below_the_bound_of_any_part_of_it(objective: str) -> None:
    searched, metric = space(objective), OBJECTIVES[objective]
    rng = np.random.default_rng(0)
    for _ in range(25):
        state, bounds = searched.start(), []
        while state.decision is not None:
            bounds.append(state.bound())
            state = state.take(state.decision.options[int(rng.integers(len(state.decision.options)))])
        value = searched.measure(state.assignment).metrics.get(metric, np.inf)
        assert bounds == sorted(bounds), "what is decided only raises it"
        assert max(bounds) <= value
    assert searched.least_objective == searched.start().bound()


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("objective", ["latency", "energy", "cores"])
def test_the_search_follows_it(objective: str) -> None:
    """Each candidate of the search that is new is better than those before, and what leads is smallest where it leads."""

    def best(leading: str) -> float:
        searched = space(leading)
        found = [c for c in itertools.islice(joint_annealing(searched, 0), 40) if c is not None]
        return min(searched.measure(c).metrics[OBJECTIVES[objective]] for c in found)

    assert best(objective) <= best("ticks")
    if objective == "cores":
        assert best(objective) == space(objective).least_objective == len(space(objective).lowered({}).pipeline.stages)


def test_the_bound_of_cores_is_that_of_a_network_without_replicas() -> None:
    searched = space("cores")
    assert searched.measure(searched.candidate({}, range(2))).metrics["cores"] == searched.least_objective == 2


def test_energy_needs_a_table() -> None:
    graph = integer_shape(weightless("resnet20"))
    with pytest.raises(ValueError, match="--objective energy: mesh-8x8 has no table of energies"):
        CmSpace.of(graph, load_hardware("mesh-8x8"), objective="energy")


def test_only_another_objective_is_another_problem() -> None:
    assert space("ticks").fingerprint == CmSpace.of(residual_block(), priced(small_hardware(8, (2, 3)))).fingerprint
    assert len({space(objective).fingerprint for objective in OBJECTIVES}) == 4
    assert "objective" not in read_options("cm", CommandOptions({}, objective="ticks"))
    options = read_options("cm", CommandOptions({"image_shape": "3x8x8"}, objective="latency"))
    again = command_options(options)
    assert (again.objective, again.given["image_shape"]) == ("latency", "3x8x8")
    assert "objective" not in again.given
