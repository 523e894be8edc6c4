"""Hardware in Amaranth's own simulator: no tool is needed, and small programs take a moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.arithmetic import quantise_features
from kilotune.codegen.rtl.hardware.machine import Machine
from kilotune.codegen.rtl.plan import HardwarePlan


def features_of(plan: HardwarePlan, features: FloatArray) -> IntArray:
    """What the input port takes; one zero a sample for a program without input."""
    read = plan.batch.program.input
    if read is None:
        return np.zeros((len(features), 1), dtype=np.int64)
    column = [v.name for v in plan.batch.program.variables].index(read.name)
    return quantise_features(features, int(plan.batch.bits[0, column]), int(plan.batch.scales[0, column]))


def simulate(plan: HardwarePlan, features: FloatArray, gaps: Sequence[int] = (0,)) -> tuple[IntArray, list[int]]:
    """Outputs [samples, elements] and the cycles of each sample. `gaps`: cycles for which each feature, in turn, is late, and each
    element of the result is left waiting."""
    machine, outputs, cycles = Machine(plan), [], []
    inputs, results = features_of(plan, features), plan.batch.program.result.size

    async def testbench(context: Any) -> None:
        for sample in inputs:
            count = 0
            for number, feature in enumerate(sample.tolist()):
                for _ in range(gaps[number % len(gaps)]):
                    await context.tick()
                    count += 1
                context.set(machine.in_valid, 1)
                context.set(machine.in_payload, feature)
                assert context.get(machine.in_ready)
                await context.tick()
                context.set(machine.in_valid, 0)
                count += 1
            while not context.get(machine.done):
                assert count < 4 * plan.cycles + 1000, "the hardware does not end"
                assert not context.get(machine.out_valid)
                assert not context.get(machine.in_ready)
                await context.tick()
                count += 1
            cycles.append(count)
            taken: list[int] = []
            while len(taken) < results:
                for _ in range(gaps[len(taken) % len(gaps)]):
                    await context.tick()
                context.set(machine.out_ready, 1)
                if context.get(machine.out_valid):
                    taken.append(context.get(machine.out_payload))
                await context.tick()
                context.set(machine.out_ready, 0)
            assert not context.get(machine.done)
            outputs.append(taken)

    simulator = Simulator(machine)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    return np.array(outputs, dtype=np.int64), cycles
