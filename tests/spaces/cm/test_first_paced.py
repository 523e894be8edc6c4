"""The short search of mappings: a design with replicas at once, the one that the joint search comes to first."""

from __future__ import annotations

import dataclasses

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm import designer, joint
from kilotune.spaces.cm.replication import ONCE
from kilotune.spaces.cm.space import CmSpace


@pytest.mark.parametrize("hardware", ["mesh-8x8", "mesh-8x8-16"])
def test_the_joint_search_has_the_same_design_for_its_first_with_replicas(
    hardware: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it is not measured twice."""
    for module in (joint, designer):
        monkeypatch.setattr(module, "FIRST_MOVES", 3000)
    monkeypatch.setattr(designer, "FEW", 1000)  # else measuring takes long beside so few moves
    space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware(hardware))
    found = space.short_search()
    shown = (candidate for candidate in joint.joint_annealing(space, 0) if candidate is not None)
    replicated = (candidate for candidate in shown if set(space.replicas(candidate).values()) != {ONCE})
    assert found == next(replicated)
    assert found == space.short_search()


def test_a_design_whose_buffers_do_not_fit_is_none() -> None:
    space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware("mesh-8x8"))
    space.hardware = dataclasses.replace(space.hardware, sram_bytes=64)
    assert space.short_search() is None


def test_where_stages_share_cores_the_joint_search_has_it_as_soon() -> None:
    shared = dataclasses.replace(load_hardware("mesh-8x8"), stages_per_core=4)
    assert CmSpace.of(integer_shape(weightless("resnet20")), shared).short_search() is None
