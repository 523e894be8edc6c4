"""Gates, clock and energy of hardware without a synthesis run: what each unit and each memory takes, added up.

`unit_gates` and `unit_path_ns` depend on the unit, on its operation's row and constants, on the banks of the variables that it reads and
writes, on whether the design is pipelined and on whether the unit's multiplications are soft, and on no other unit. `memory_gates` depends
on the size, banks and ports of the variable, and on which units of the program reach it, not on their lanes. `controller_gates` depends on
the program and on whether the design is pipelined. So an estimate is a sum over independent parts, its clock their longest path, and a
knapsack over alternatives of each operation is exact for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import scale_down
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.rtl.nests import Reach
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.codegen.rtl.units import NestUnit, SparseUnit, Unit, UnitKind, UnitPart
from kilotune.evaluators.fpga.boards import Board, Gates

BLOCK_BITS = {"ecp5": 18432, "ice40": 4096, "xilinx": 18432}
MULTIPLIER_BITS = {"ecp5": 18, "ice40": 0, "xilinx": 18}

SMALL_MEMORY_BITS = 1024
"""Memories of fewer bits are made of look-up tables."""

LUTS_PER_UNIT, FLIP_FLOPS_PER_UNIT = 40, 40
NANOSECONDS_PER_LEVEL, LEAST_PATH_NS = 0.25, 6.0

STATIC_MILLIWATTS = 30.0
PICOJOULES_PER_CYCLE = Gates(luts=1, flip_flops=1, block_rams=10, multipliers=10)


@dataclass(frozen=True)
class Estimate:
    """What hardware is expected to take: `gates`, its longest path, cycles, latency at the clock of that path, energy of an inference."""

    gates: Gates
    path_ns: float
    cycles: int
    energy_nj: float

    @property
    def latency_us(self) -> float:
        """From the first feature to the result."""
        return self.cycles * self.path_ns / 1000

    @property
    def clock_mhz(self) -> float:
        """The fastest clock."""
        return 1000 / self.path_ns


def estimate(plan: HardwarePlan, board: Board) -> Estimate:
    """The whole of a plan on a board."""
    gates = controller_gates(plan, board)
    for name in plan.memories:
        gates += memory_gates(name, plan, board)
    for unit in plan.units:
        gates += unit_gates(unit, plan, board)
    path_ns = max(least_path_ns(board), *(unit_path_ns(unit, plan, board) for unit in plan.units))
    return Estimate(gates, path_ns, plan.cycles, energy_nj(gates, path_ns, plan.cycles))


def energy_nj(gates: Gates, path_ns: float, cycles: int) -> float:
    """Energy of an inference: what leaks in its time, and what the gates take in each cycle."""
    each = PICOJOULES_PER_CYCLE
    active_pj = (
        gates.luts * each.luts
        + gates.flip_flops * each.flip_flops
        + gates.block_rams * each.block_rams
        + gates.multipliers * each.multipliers
    )
    return cycles * (STATIC_MILLIWATTS * path_ns + active_pj) / 1000


def least_path_ns(board: Board) -> float:
    """The longest path of a design whose units have none."""
    return LEAST_PATH_NS


def controller_gates(plan: HardwarePlan, board: Board) -> Gates:
    """What starts the units, counts loops, takes features and gives results."""
    return Gates(luts=40 + 10 * len(plan.units), flip_flops=20 + 8 * len(plan.loops))


def memory_gates(name: str, plan: HardwarePlan, board: Board) -> Gates:
    """The banks of a variable, a copy for each read port, and what chooses among the units that reach it."""
    (size, bits), banks, ports = plan.memories[name], plan.banks[name], plan.ports[name]
    depth = -(-size // banks)
    reaching = sum(name in unit.reads | unit.writes for unit in plan.units)
    chosen = Gates(luts=banks * (bits + 4) * reaching)
    copies = banks * ports
    if depth == 1:
        return chosen + Gates(flip_flops=banks * bits)
    block_bits = BLOCK_BITS[board.family]
    if depth * bits <= SMALL_MEMORY_BITS:
        return chosen + Gates(luts=copies * 8 * -(-bits // 4) * -(-depth // 16))
    return chosen + Gates(block_rams=copies * -(-depth * bits // block_bits))


def unit_gates(unit: Unit, plan: HardwarePlan, board: Board) -> Gates:
    """Counters, addresses, arithmetic and read-only memories of a unit."""
    fixed = Gates(luts=LUTS_PER_UNIT, flip_flops=FLIP_FLOPS_PER_UNIT)
    accumulator = max(16, int(plan.batch.rows[0, unit.row, Column.ACC_BITS]))
    if isinstance(unit, SparseUnit):
        operands = [16, plan.memories[unit.operation.b.variable][1]]
        element = _product(operands, unit, plan, board) + Gates(luts=4 * accumulator, flip_flops=3 * accumulator)
        listed = _read_only(max(1, len(unit.steps[0])), 32, board)
        return _times(element + listed, len(unit.steps)) + fixed
    nest, gates = unit.nest, fixed
    operands = [_operand_bits(reach, unit, plan) for reach in nest.reads]
    lane = Gates(luts=2 * accumulator, flip_flops=(sum(unit.cycles.values()) - _division(unit)) * accumulator // 2)
    if unit.kind in (UnitKind.SUM, UnitKind.NORM) or isinstance(unit.operation, ir.Multiply | ir.TableFunction):
        lane += _product((operands * 2)[:2], unit, plan, board)
    if UnitPart.DIVIDE in unit.cycles:
        lane += Gates(luts=150, flip_flops=100)
    for reach, bits in zip(nest.reads, operands, strict=True):
        if reach is None:
            continue
        if reach.variable in plan.constants:
            gates += _read_only(len(plan.constants[reach.variable]) // nest.lanes, bits * nest.lanes, board)
        elif reach.lane_stride:
            lane += Gates(luts=bits * (plan.banks[reach.variable] - 1) // 3)
    return gates + _times(lane, nest.lanes)


def unit_path_ns(unit: Unit, plan: HardwarePlan, board: Board) -> float:
    """The longest path of a unit and of the memories that it reaches."""
    accumulator = int(plan.batch.rows[0, unit.row, Column.ACC_BITS])
    return LEAST_PATH_NS + NANOSECONDS_PER_LEVEL * sum(_levels(unit, plan)) + accumulator / 32


def _levels(unit: Unit, plan: HardwarePlan) -> Iterator[int]:
    """Levels of logic that are not registered."""
    if not plan.design.pipelined:
        yield 8
    if unit.row in plan.design.soft:
        yield 8
    for name in unit.reads | unit.writes:
        yield plan.banks.get(name, 1).bit_length()
    if isinstance(unit, NestUnit) and unit.nest.gathers_lanes:
        yield 2 * unit.nest.lanes.bit_length()


def _division(unit: NestUnit) -> int:
    return max(0, unit.cycles.get(UnitPart.DIVIDE, 0) - 1)


def _times(gates: Gates, count: int) -> Gates:
    return Gates(gates.luts * count, gates.flip_flops * count, gates.block_rams * count, gates.multipliers * count)


def _operand_bits(reach: Reach | None, unit: Unit, plan: HardwarePlan) -> int:
    if reach is None:
        return 16
    if reach.variable not in plan.constants:
        return plan.memories[reach.variable][1]
    shift = int(plan.batch.rows[0, unit.row, Column.SHIFT_A])
    values = scale_down(plan.constants[reach.variable], max(0, shift), plan.batch.rounding)
    return 1 + max(abs(int(values.min())), abs(int(values.max()))).bit_length()


def _product(operands: list[int], unit: Unit, plan: HardwarePlan, board: Board) -> Gates:
    a, b = operands
    most = MULTIPLIER_BITS[board.family]
    if unit.row in plan.design.soft or not most:
        return Gates(luts=a * b)
    return Gates(multipliers=-(-a // most) * -(-b // most))


def _read_only(words: int, bits: int, board: Board) -> Gates:
    if words <= 1:
        return Gates()
    if words * bits <= SMALL_MEMORY_BITS:
        return Gates(luts=bits * -(-words // 16))
    return Gates(block_rams=max(-(-words * bits // BLOCK_BITS[board.family]), -(-bits // 36)))
