"""Shifts of signals beside those of integers."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.sim import Simulator, SimulatorContext

from kilotune.codegen.fixed.arithmetic import Rounding, scale_down
from kilotune.codegen.rtl.hardware.arithmetic import down


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("shape", [signed(5), unsigned(5)])
@pytest.mark.parametrize("shift", [-1, 0, 1, 2, 3])
def test_a_shift_of_every_value_is_that_of_integers(rounding: Rounding, shape: object, shift: int) -> None:
    """Quotients are unsigned, and are rounded like everything else."""
    values = np.arange(-16, 16) if shape == signed(5) else np.arange(32)
    value = Signal(shape)  # type: ignore[call-overload]
    shifted = Signal(signed(10))
    m, found = Module(), list[int]()
    m.d.comb += shifted.eq(down(value, shift, rounding))

    async def feed(context: SimulatorContext) -> None:
        for number in values.tolist():
            context.set(value, number)
            await context.delay(1e-9)
            found.append(context.get(shifted))

    simulator = Simulator(m)
    simulator.add_testbench(feed)
    simulator.run()
    expected = scale_down(values, shift, rounding) if shift >= 0 else values << -shift
    assert found == expected.tolist()
