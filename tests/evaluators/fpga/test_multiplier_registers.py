"""A netlist computes the same when registers lie inside of multipliers, cycle by cycle."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.fpga.multiplier_registers import move_registers

OPERAND, PRODUCT = 18, 36
PLAIN = {"CEMUX": "1 ", "CLKMUX": "CLK", "GSR": "DISABLED", "LSRMUX": "LSR", "REGSET": "RESET"}

Netlist = dict[str, Any]


class Builder:
    """Words of nets, multipliers and registers, as Yosys writes them."""

    def __init__(self) -> None:
        self.cells: dict[str, Any] = {}
        self.ports: dict[str, Any] = {"clk": {"direction": "input", "bits": [2]}}
        self.count = 3

    def nets(self, width: int) -> list[int]:
        self.count += width
        return list(range(self.count - width, self.count))

    def port(self, name: str, direction: str, bits: list[Any]) -> list[Any]:
        self.ports[name] = {"direction": direction, "bits": bits}
        return bits

    def register(self, data: list[Any], **other: str) -> list[Any]:
        made = self.nets(len(data))
        for d, q in zip(data, made, strict=True):
            connections = {"CLK": [2], "DI": [d], "LSR": ["0"], "Q": [q]}
            self.cell("TRELLIS_FF", connections, {"Q"}, PLAIN | other)
        return made

    def multiplier(self, a: list[Any], b: list[Any]) -> list[Any]:
        made = self.nets(PRODUCT)
        wired = {f"A{n}": [net] for n, net in enumerate(a)} | {f"B{n}": [net] for n, net in enumerate(b)}
        wired |= {f"P{n}": [net] for n, net in enumerate(made)} | {"SIGNEDA": ["1"], "SIGNEDB": ["1"]}
        self.cell("MULT18X18D", wired, {f"P{n}" for n in range(PRODUCT)}, {})
        return made

    def cell(self, kind: str, connections: dict[str, Any], outputs: set[str], parameters: dict[str, str]) -> None:
        directions = {port: "output" if port in outputs else "input" for port in connections}
        self.cells[f"cell{len(self.cells)}"] = {
            "type": kind, "parameters": dict(parameters), "port_directions": directions, "connections": connections,
        }  # fmt: skip

    def netlist(self) -> Netlist:
        return {"modules": {"model": {"ports": self.ports, "cells": self.cells}}}


def signed(bits: list[int]) -> int:
    value = sum(bit << place for place, bit in enumerate(bits))
    return value - (bits[-1] << len(bits))


class Simulation:
    """A netlist's registers, those inside of multipliers too, all 0 at first."""

    def __init__(self, netlist: Netlist) -> None:
        self.module = netlist["modules"]["model"]
        cells = list(self.module["cells"].values())
        self.multipliers = [cell for cell in cells if cell["type"] == "MULT18X18D"]
        self.flip_flops = [cell["connections"] for cell in cells if cell["type"] == "TRELLIS_FF"]
        self.held = [0] * len(self.flip_flops)
        self.operands = [(0, 0) for _ in self.multipliers]
        self.products = [0 for _ in self.multipliers]

    def step(self, inputs: dict[str, list[int]]) -> dict[str, list[int]]:
        """The outputs of a cycle; then the clock rises."""
        values: dict[Any, int] = {"0": 0, "1": 1, "x": 0}
        for name, bits in inputs.items():
            values |= dict(zip(self.module["ports"][name]["bits"], bits, strict=True))
        values |= {ff["Q"][0]: held for ff, held in zip(self.flip_flops, self.held, strict=True)}
        # what has registers at its end answers at once; the others when their operands are there
        waiting = list(range(len(self.multipliers)))
        products = [0] * len(waiting)
        while waiting:
            before = len(waiting)
            for number in list(waiting):
                product = self._product(number, values)
                if product is not None:
                    waiting.remove(number)
                    products[number] = product
            assert len(waiting) < before, "a loop without a register"
        outputs = {
            n: [values[b] for b in p["bits"]] for n, p in self.module["ports"].items() if p["direction"] == "output"
        }
        self.held = [values[ff["DI"][0]] for ff in self.flip_flops]
        self.operands = [self._operands(cell, values) for cell in self.multipliers]
        self.products = products
        return outputs

    def _operands(self, cell: Any, values: dict[Any, int]) -> tuple[int, int]:
        a, b = ([values[cell["connections"][f"{side}{n}"][0]] for n in range(OPERAND)] for side in "AB")
        return signed(a), signed(b)

    def _product(self, number: int, values: dict[Any, int]) -> int | None:
        """What goes into a multiplier's last register; its outputs get their values as soon as they are known."""
        cell = self.multipliers[number]
        says, wires = cell["parameters"], cell["connections"]
        outputs = [wires[f"P{n}"][0] for n in range(PRODUCT)]

        def answer(value: int) -> None:
            values.update({net: value >> n & 1 for n, net in enumerate(outputs)})

        if says.get("REG_OUTPUT_CLK") == "CLK0":
            answer(self.products[number])
        if says.get("REG_INPUTA_CLK") == "CLK0":
            a, b = self.operands[number]
        elif any(wires[f"{side}{n}"][0] not in values for side in "AB" for n in range(OPERAND)):
            return None
        else:
            a, b = self._operands(cell, values)
        if says.get("REG_OUTPUT_CLK") != "CLK0":
            answer(a * b)
        return a * b


@st.composite
def netlists(draw: st.DrawFn) -> Netlist:
    """Multipliers between registers that are shared, read elsewhere, enabled now and then, or not there; products feed products."""
    builder = Builder()
    words = [builder.port(f"in{n}", "input", builder.nets(OPERAND)) for n in range(2)]
    words.append(["0", "1"] * 9)
    for number in range(draw(st.integers(1, 3))):
        operands = []
        for _ in "AB":
            word = draw(st.sampled_from(words))
            if draw(st.booleans()):
                word = builder.register(word, **draw(st.sampled_from([{}, {}, {}, {"REGSET": "SET"}])))
                words.append(word)
            operands.append(word)
        made = builder.multiplier(*operands)
        kept = builder.register(made) if draw(st.booleans()) else made
        words.append(kept[:OPERAND])
        if draw(st.booleans()):
            builder.port(f"raw{number}", "output", made)
        builder.port(f"out{number}", "output", kept if draw(st.booleans()) else builder.register(kept[3:20]))
    return builder.netlist()


@given(netlist=netlists(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_the_same_is_computed_in_every_cycle(netlist: Netlist, seed: int) -> None:
    changed, source = copy.deepcopy(netlist), random.Random(seed)
    move_registers(changed)
    before, after = Simulation(netlist), Simulation(changed)
    for cycle in range(12):
        inputs = {f"in{n}": [source.getrandbits(1) for _ in range(OPERAND)] for n in range(2)}
        found, expected = after.step(inputs), before.step(inputs)
        # a constant operand is there after the first edge
        assert cycle < 6 or found == expected


def test_registers_of_a_product_are_inside() -> None:
    """A register that is read elsewhere stays, beside a copy of it in the multiplier."""
    builder = Builder()
    a = builder.register(builder.port("a", "input", builder.nets(OPERAND)))
    b = builder.register(builder.port("b", "input", builder.nets(OPERAND)))
    builder.port("p", "output", builder.register(builder.multiplier(a, b)))
    builder.port("again", "output", a)
    netlist = builder.netlist()
    assert move_registers(netlist) == 1
    cells = [cell["type"] for cell in netlist["modules"]["model"]["cells"].values()]
    assert cells.count("TRELLIS_FF") == OPERAND


@pytest.mark.parametrize(
    "other", [{"REGSET": "SET"}, {"CEMUX": "CE"}, {"CLKMUX": "INV"}], ids=["set", "enabled", "falling edge"]
)
def test_other_registers_stay_where_they_are(other: dict[str, str]) -> None:
    builder = Builder()
    a = builder.register(builder.port("a", "input", builder.nets(OPERAND)), **other)
    builder.port("p", "output", builder.multiplier(a, a))
    netlist = builder.netlist()
    assert move_registers(copy.deepcopy(netlist)) == 0
