"""Random programs as hardware, in Verilator and in Amaranth's simulator: a figure, which the suite has no time for.

    python -m tests.codegen.rtl.hardware.in_verilator [--programs N] [--seed S] [--seconds T]

Programs, candidates, designs and samples are those of the property test (`test_machine.py`). A difference in a bit or in a cycle is an
error.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kilotune.codegen.rtl.plan import make_plan
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fpga.verilated import run_hardware
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches
from tests.codegen.rtl.hardware.simulated import simulate
from tests.codegen.rtl.hardware.test_machine import designs


def compare(programs: int, number: int, seconds: float) -> tuple[int, int, int]:
    """Programs, values and cycles that were equal in both simulators."""
    equal, end = [0, 0, 0], time.monotonic() + seconds

    @seed(number)
    @given(data=st.data(), model=random_models())
    @settings(
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
        max_examples=programs,
        phases=[Phase.generate],
    )
    def agree(data: st.DataObject, model: RandomModel) -> None:
        batches = shiftry_batches(model.program, 1) if data.draw(st.booleans()) else seedot_batches(model.program)
        batch = data.draw(batches)
        plan = make_plan(batch, model.parameters, data.draw(designs(model, batch)))
        if time.monotonic() > end:  # after what is drawn, which Hypothesis wants to be the same whenever it asks
            return
        expected = run_reference(batch, model.parameters, model.features)[0]
        verilated = run_hardware(plan, model.features)
        simulated, cycles = simulate(plan, model.features)
        np.testing.assert_array_equal(verilated.outputs, expected)
        np.testing.assert_array_equal(simulated, expected)
        assert {*verilated.cycles.tolist(), *cycles} == {plan.cycles}
        for place, count in enumerate((1, expected.size, plan.cycles * len(expected))):
            equal[place] += count

    agree()
    return equal[0], equal[1], equal[2]


def main() -> None:
    """Print the figure."""
    arguments = argparse.ArgumentParser(description="Random programs in Verilator.")
    arguments.add_argument("--programs", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="no program is begun after so long")
    given_arguments = arguments.parse_args()
    programs, values, cycles = compare(given_arguments.programs, given_arguments.seed, given_arguments.seconds)
    print(
        f"{programs} of {given_arguments.programs} random programs (seed {given_arguments.seed}): {values} values and {cycles} cycles "
        "equal in Verilator, Amaranth's simulator and the reference"
    )


if __name__ == "__main__":
    main()
