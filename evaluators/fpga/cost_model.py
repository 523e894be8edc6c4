"""Gates, clock and energy of hardware without a synthesis run: what each unit and each memory takes, added up.

`unit_gates` and `unit_path_ns` depend on the unit, on its operation's row and constants, on the banks of the variables that it reads and
writes, on which other units reach these, on whether the design is pipelined and on whether the unit's multiplications are soft, and on no
lanes but the unit's. `memory_gates` depends on the size, banks and ports of the variable. `controller_gates` depends on the program. So an
estimate is a sum over independent parts, and a knapsack over alternatives of each operation is exact for it. The clock is that of their
longest path, which is longer the more of the board is in use: `crowding` is a step function of the sum, so that a knapsack within the
gates of one step is exact for the clock too.

What a part takes of a family of FPGAs is in `gate_costs.json`, fitted to single units that were synthesised, placed and routed
(`experiments/benchmarks/hardware_costs.py`). Block memories and multipliers are not fitted: `mapping.py` has the synthesiser's rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any

from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.codegen.rtl.units import Unit
from kilotune.evaluators.fpga.boards import Board, Gates
from kilotune.evaluators.fpga.parts import PARTS, Parts
from kilotune.evaluators.fpga.paths import PATH, Path, unit_paths
from kilotune.evaluators.fpga.unit_parts import frame_parts, memory_parts, unit_parts

TABLE = FilePath(__file__).with_name("gate_costs.json")

MOST_TOO_MANY: Mapping[str, float] = MappingProxyType(
    {"luts": 2.1, "flip_flops": 1.6, "block_rams": 2.0, "multipliers": 1.25}
)
"""So many times as many gates as were placed the model may predict: a little more than it ever has, of designs that its tables are not
fitted to. Look-up tables of soft products of which a lane has one or two weights (4081 for 2013 on an iCE40 HX8K, 10 454 for 5555
on an ECP5), of the smallest design on an UP5K (2561 for 1682) and on an ECP5 (542 for 371); flip-flops 1363 for 884; block memories 2 for
1; multipliers 5 for 4."""

CROWDING_STEPS = 8
"""So many parts of equal size a board's look-up tables have: the longest path is one length in each."""

STATIC_MILLIWATTS = 30.0
PICOJOULES_PER_CYCLE = Gates(luts=1, flip_flops=1, block_rams=10, multipliers=10)


@dataclass(frozen=True)
class GateCosts:
    """What each part (in the order of `PARTS`) takes of a family's look-up tables and flip-flops, and each piece of a path (`PATH`) in
    nanoseconds. `crowding`: by what share of itself a path grows with each further step of the board that is in use."""

    luts: tuple[float, ...]
    flip_flops: tuple[float, ...]
    path_ns: tuple[float, ...]
    crowding: float


@cache
def gate_costs(family: str) -> GateCosts:
    """The fitted table of a family."""
    table: Mapping[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))[family]
    return GateCosts(
        tuple(table["luts"].get(name, 0.0) for name in PARTS),
        tuple(table["flip_flops"].get(name, 0.0) for name in PARTS),
        tuple(table["path_ns"].get(name, 0.0) for name in PATH),
        table.get("crowding", 0.0),
    )


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
    alone_ns = max(least_path_ns(board), *(unit_path_ns(unit, plan, board) for unit in plan.units))
    path_ns = alone_ns * crowding(gates.luts, board)
    return Estimate(gates, path_ns, plan.cycles, energy_nj(gates, path_ns, plan.cycles))


def most_predicted(there: Gates) -> Gates:
    """What this model may predict of a design that turns out to take so many gates: see `MOST_TOO_MANY`."""
    return Gates(**{kind: int(MOST_TOO_MANY[kind] * count) for kind, count in asdict(there).items()})


@dataclass(frozen=True)
class Crowd:
    """A step of `crowding`: designs of at most so many look-up tables, and how many times as long a path is as in an empty board."""

    luts: int
    factor: float


def crowds(board: Board, most_luts: int) -> tuple[Crowd, ...]:
    """The steps that designs of at most so many look-up tables may be in, the emptiest first; the last one ends there."""
    if not gate_costs(board.family).crowding:
        return (Crowd(most_luts, 1.0),)
    ends = (board.gates.luts * step // CROWDING_STEPS for step in range(1, CROWDING_STEPS))
    return tuple(Crowd(luts, crowding(luts, board)) for luts in (*(end for end in ends if end < most_luts), most_luts))


def crowding(luts: int, board: Board) -> float:
    """How many times as long the paths of a design of so many look-up tables are on a board as those of a small one: signals go further,
    and around more. Of families of which no large designs have been placed 1; more than a board has is as crowded as a full one."""
    step = min(max(0, -(-luts * CROWDING_STEPS // board.gates.luts) - 1), CROWDING_STEPS - 1) if board.gates.luts else 0
    return 1.0 + gate_costs(board.family).crowding * step


def energy_nj(gates: Gates, path_ns: float, cycles: int) -> float:
    """Energy of an inference."""
    return cycles * picojoules_per_cycle(gates, path_ns) / 1000


def picojoules_per_cycle(gates: Gates, path_ns: float) -> float:
    """What leaks in a cycle of that length, and what the gates take in it: linear in both."""
    each = PICOJOULES_PER_CYCLE
    active = (
        gates.luts * each.luts
        + gates.flip_flops * each.flip_flops
        + gates.block_rams * each.block_rams
        + gates.multipliers * each.multipliers
    )
    return STATIC_MILLIWATTS * path_ns + active


def least_path_ns(board: Board) -> float:
    """The longest path of a design whose units have none."""
    return path_ns(Path(levels=2, chains=1), board)


def controller_gates(plan: HardwarePlan, board: Board) -> Gates:
    """What starts the units, counts loops, takes features and gives results."""
    return mapped(frame_parts(plan), board)


def memory_gates(name: str, plan: HardwarePlan, board: Board) -> Gates:
    """The banks of a variable, a copy for each port that reads it."""
    return mapped(memory_parts(name, plan, board.family), board)


def unit_gates(unit: Unit, plan: HardwarePlan, board: Board) -> Gates:
    """Counters, addresses, arithmetic and read-only memories of a unit, and how it reaches its memories."""
    return mapped(unit_parts(unit, plan, board.family), board)


def unit_path_ns(unit: Unit, plan: HardwarePlan, board: Board) -> float:
    """The longest path of a unit and of the memories that it reaches."""
    return max(path_ns(path, board) for path in unit_paths(unit, plan, board.family))


def mapped(parts: Parts, board: Board) -> Gates:
    """Parts as gates of a board."""
    costs, numbers = gate_costs(board.family), parts.numbers
    return Gates(
        round(sum(each * number for each, number in zip(costs.luts, numbers, strict=True))),
        round(sum(each * number for each, number in zip(costs.flip_flops, numbers, strict=True))),
        round(parts.block_rams),
        round(parts.multipliers),
    )


def path_ns(path: Path, board: Board) -> float:
    """How long a signal takes on a path."""
    costs = gate_costs(board.family).path_ns
    return sum(each * number for each, number in zip(costs, path.numbers, strict=True))
