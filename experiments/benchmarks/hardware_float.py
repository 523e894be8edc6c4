"""A sequential machine in float32 beside ours, at an equal clock: how many cycles it would take.

    python -m kilotune.experiments.benchmarks.hardware_float [MHZ ...]

An adder and a multiplier of float32 (no subnormal numbers, rounded by cutting off, so rather smaller and faster than IEEE 754's) are
synthesised, placed and routed on an ECP5-25F between registers; at a clock of so many MHz an operation takes as many cycles as its path
needs. The schedule: one step of the nest after the other, as in our sequential design; steps without dependence follow each other every
cycle, a sum waits for its adder (a maximum, which is a comparison of integers, does not). An exponential is a range reduction and a
polynomial of degree 5 (seven multiplications, six additions, as in Cephes' expf), a division or a root a bit a cycle: 26.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned

from kilotune.codegen import ir
from kilotune.codegen.rtl.design import SEQUENTIAL
from kilotune.codegen.rtl.plan import HardwarePlan, make_plan
from kilotune.codegen.rtl.units import Item, NestUnit, Repeat, SparseUnit, UnitKind, UnitPart
from kilotune.evaluators.fpga.boards import FAMILIES, find_board
from kilotune.evaluators.fpga.tools import SYNTHESISER, run_tool
from kilotune.experiments.benchmarks.hardware import answer, wide
from kilotune.experiments.models.catalogue import model_names

MANTISSA, EXPONENT = 23, 8
DIVISION_CYCLES = MANTISSA + 3
EXPONENTIAL = (7, 6)  # multiplications and additions, one after the other
CLOCKS = (10.0, 100.0)


@dataclass(frozen=True)
class FloatUnits:
    """Cycles of an addition, of a multiplication and of an exponential."""

    add: int
    multiply: int

    @property
    def exponential(self) -> int:
        """One after the other."""
        multiplications, additions = EXPONENTIAL
        return multiplications * self.multiply + additions * self.add


def parts(value: Value) -> tuple[Value, Value, Value]:
    """Sign, exponent, and mantissa with its leading one."""
    return value[-1], value[MANTISSA : MANTISSA + EXPONENT], Cat(value[:MANTISSA], Const(1, 1))


def multiplied(a: Value, b: Value) -> Value:
    """a * b."""
    (sign_a, exponent_a, one_a), (sign_b, exponent_b, one_b) = parts(a), parts(b)
    product = one_a * one_b
    high = product[-1]
    mantissa = Mux(high, product[MANTISSA + 1 : -1], product[MANTISSA:-2])
    return Cat(mantissa[:MANTISSA], (exponent_a + exponent_b - 127 + high)[:EXPONENT], sign_a ^ sign_b)


def added(m: Module, a: Value, b: Value) -> Value:
    """a + b: the smaller is aligned, added or subtracted, and the sum is shifted until it begins with a one."""
    larger, smaller = Signal(unsigned(32)), Signal(unsigned(32))
    swap = a[:31] < b[:31]
    m.d.comb += [larger.eq(Mux(swap, b, a)), smaller.eq(Mux(swap, a, b))]
    sign, exponent, big = parts(larger)
    other, lower, small = parts(smaller)
    aligned = (small << 2) >> (exponent - lower)[:5]
    total = Signal(unsigned(MANTISSA + 4))
    m.d.comb += total.eq(Mux(sign ^ other, (big << 2) - aligned, (big << 2) + aligned))
    zeros = Signal(range(MANTISSA + 5))
    for place in range(MANTISSA + 4):
        with m.If(total[place]):
            m.d.comb += zeros.eq(MANTISSA + 3 - place)
    shifted = (total << zeros)[: MANTISSA + 4]
    return Cat(shifted[3 : MANTISSA + 3], (exponent + 1 - zeros)[:EXPONENT], sign)


def path_ns(kind: str) -> float:
    """The path of an operation between registers on an ECP5-25F."""
    m = Module()
    a, b, result = (Signal(unsigned(32), name=name) for name in ("a", "b", "result"))
    x, y = Signal(unsigned(32)), Signal(unsigned(32))
    value = multiplied(x, y) if kind == "multiply" else added(m, x, y)
    m.d.sync += [x.eq(a), y.eq(b), result.eq(value)]
    board = find_board("ecp5-25f")
    family = FAMILIES[board.family]
    assert family.placer is not None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "model.il").write_text(rtlil.convert(m, name="model", ports=[a, b, result], emit_src=False))
        run_tool(SYNTHESISER, ["-q", "-p", f"read_rtlil model.il; {family.synthesis}"], folder)
        arguments = [*board.part, *family.options, "--freq", "100", "--seed", "1", "--timing-allow-fail", "-q"]
        run_tool(family.placer, [*arguments, "--json", "model.json", "--report", "report.json"], folder)
        report = json.loads((folder / "report.json").read_text())
    used = {name: cells["used"] for name, cells in report["utilization"].items() if cells["used"]}
    clock = min(float(path["achieved"]) for path in report["fmax"].values())
    print(f"{kind}: {1000 / clock:.1f} ns, {used.get('TRELLIS_COMB', 0)} LUTs, {used.get('MULT18X18D', 0)} multipliers")
    return 1000 / clock


def duration(item: Item, units: FloatUnits) -> int:
    """Cycles of an item of a sequential plan, were its numbers floats."""
    if isinstance(item, Repeat):
        return item.count * (1 + sum(duration(part, units) for part in item.body))
    assert not isinstance(item, SparseUnit)
    interval, latency = _interval_and_latency(item, units)
    return 1 + (item.nest.steps - 1) * interval + item.cycles[UnitPart.READ] + latency + 1


def _interval_and_latency(unit: NestUnit, units: FloatUnits) -> tuple[int, int]:
    operation = unit.operation
    match unit.kind:
        case UnitKind.SUM | UnitKind.NORM:
            root = DIVISION_CYCLES if unit.kind is UnitKind.NORM else 0
            return units.add if unit.nest.terms > 1 else 1, units.multiply + units.add + root
        case UnitKind.QUOTIENT:
            return DIVISION_CYCLES, DIVISION_CYCLES
        case UnitKind.LARGEST | UnitKind.FIRST_LARGEST:
            return 1, 1
        case UnitKind.ELEMENTS if isinstance(operation, ir.Exp):
            return 1, units.exponential
        case UnitKind.ELEMENTS if isinstance(operation, ir.TableFunction):
            return DIVISION_CYCLES, units.exponential + units.add + DIVISION_CYCLES
        case UnitKind.ELEMENTS:
            if isinstance(operation, ir.Multiply):
                return 1, units.multiply
            return 1, units.add if isinstance(operation, ir.Add | ir.Subtract) else 1


def float_cycles(plan: HardwarePlan, units: FloatUnits) -> int:
    """From the first feature to the result, one operation after the other."""
    return plan.input_beats + sum(duration(item, units) for item in plan.items) + 1


def main() -> None:
    """A table for each clock."""
    arguments = argparse.ArgumentParser(description="The sequential machine in float32, at the same clock.")
    arguments.add_argument("clocks", nargs="*", type=float, default=CLOCKS)
    paths = {kind: path_ns(kind) for kind in ("add", "multiply")}
    for clock in arguments.parse_args().clocks:
        units = FloatUnits(*(math.ceil(paths[kind] * clock / 1000) for kind in ("add", "multiply")))
        print(f"\n{clock:g} MHz: an addition takes {units.add} cycles, a multiplication {units.multiply}\n")
        print("| model | float | ours, sequential | faster | ours, up to 4 lanes | faster |\n|---|---|---|---|---|---|")
        for model in model_names():
            bundle, batch = answer(model, "seedot")
            plans = [make_plan(batch, bundle.parameters, d) for d in (SEQUENTIAL, wide(bundle, batch, 4))]
            slow = float_cycles(plans[0], units)
            cells = [f"{plan.cycles} | {slow / plan.cycles:.1f}" for plan in plans]
            print(f"| {model} | {slow} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
