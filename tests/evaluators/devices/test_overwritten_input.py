"""Convolutions over their image, and over the sample that a program has asked for, on simulated devices: the definition's integers."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.on_device import measure_checked, missing_tools
from kilotune.evaluators.simulated import of_emitted
from tests.codegen.emit.test_convolutions_in_place import network
from tests.evaluators.devices.candidates import bundled


@pytest.mark.slow
@pytest.mark.parametrize(("board", "shapes"), [("uno", ("plain", "unrolled8")), ("nano33", ("plain", "places2"))])
def test_devices_compute_the_definition(board: str, shapes: tuple[str, ...]) -> None:
    """A separable network that goes forward and backward. The harness of one that asks holds no sample."""
    device = find_device(board)
    if missing_tools(device) is not None:
        pytest.skip(f"needs the tools for {board}")
    model, batch = network([("depthwise", 3, 1), ("ordinary", 1, 1), ("depthwise", 3, 1)], [16] * 4, 5, direct=True)
    expected = np.asarray(run_reference(batch, model.parameters, model.features)[0])
    for shape in shapes:
        static = {}
        for asking in (False, True):
            source = emit_c(batch, model.parameters, shape=SHAPES[shape], in_frames=asking)
            found = measure_checked(device, source, batch, model.parameters, model.features, expected)
            assert found.sizes.input_bytes == (0 if asking else 2 * model.features.shape[1])
            static[asking] = found.sizes.static_ram_bytes - source.ram_bytes - found.sizes.input_bytes
            cycles = found.cycles
        assert abs(static[True] - static[False]) <= 8  # of alignment
        assert cycles > 1000


def test_a_program_that_asks_for_several_frames_has_no_harness() -> None:
    candidate = bundled("fastgrnn16-digits", samples=1)
    source = emit_c(candidate.batch, candidate.parameters, in_frames=True)
    with pytest.raises(ValueError, match="asks for its input in 8 frames"):
        of_emitted(source)
