"""Buffers as large as the cores hold."""

from __future__ import annotations

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm.space import CmSpace


def test_roomy_buffers_fit_and_are_the_largest_that_do() -> None:
    space = CmSpace.of(integer_shape(weightless("resnet18")), load_hardware("mesh-16x16"))
    stages = len(space.lowered({}).pipeline.stages)
    roomy = space.with_roomy_buffers(space.candidate({}, range(stages)))
    space.check(roomy)
    layer = next(name for name, room in roomy.items() if name.startswith("buffer") and room != 2048)
    with pytest.raises(ValueError, match="too many"):
        space.check({**roomy, layer: 2048})
