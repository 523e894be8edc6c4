"""Registers before and after an ECP5's multipliers, moved into them: a netlist of Yosys, as JSON, to one of fewer flip-flops.

An ECP5's multiplier has registers of its own for its operands and its product, which Yosys leaves unused. A signal then goes from a
flip-flop through the fabric to the multiplier, through it, and through the fabric to a flip-flop in one cycle; with the registers inside
each way is a cycle of its own. What is computed, and when, stays. This file needs nothing but Python: exported projects have a copy.

nextpnr has times of a multiplier that registers both operands, the product, or all three, so both operands move or neither.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MULTIPLIER, FLIP_FLOP = "MULT18X18D", "TRELLIS_FF"
OPERAND_BITS, PRODUCT_BITS = 18, 36

NetlistCell = dict[str, Any]
"""A cell of Yosys' JSON: `type`, `parameters`, `port_directions`, `connections`."""


def move_registers(netlist: dict[str, Any], top: str = "model") -> int:
    """Move what can be moved, in place; how many multipliers have taken registers. `netlist`: of `synth_ecp5 -json`, flat."""
    module = netlist["modules"][top]
    wiring = _Wiring(module)
    multipliers = [(name, cell) for name, cell in module["cells"].items() if cell["type"] == MULTIPLIER]
    changed = sum(wiring.absorb(cell, name) for name, cell in multipliers)
    wiring.drop_unread()
    return changed


def change_file(path: str, top: str = "model") -> None:
    """Move registers in a netlist's file."""
    netlist = json.loads(Path(path).read_text(encoding="utf-8"))
    move_registers(netlist, top)
    Path(path).write_text(json.dumps(netlist), encoding="utf-8")


@dataclass
class _Wiring:
    """Who drives and who reads each net of a module. Nets are numbers, constants texts."""

    module: dict[str, Any]

    def __post_init__(self) -> None:
        self.cells: dict[str, NetlistCell] = self.module["cells"]
        self.drivers: dict[int, str] = {}
        self.readers: dict[int, list[tuple[str, str]]] = {}
        for name, cell in self.cells.items():
            for port, nets in cell["connections"].items():
                for net in nets:
                    if not isinstance(net, int):
                        continue
                    if cell["port_directions"][port] == "output":
                        self.drivers[net] = name
                    else:
                        self.readers.setdefault(net, []).append((name, port))
        for port in self.module["ports"].values():
            if port["direction"] != "input":
                for net in port["bits"]:
                    self.readers.setdefault(net, []).append(("", ""))

    def absorb(self, cell: NetlistCell, name: str) -> bool:
        """Whether a multiplier has taken its operands' registers, its product's, or both."""
        clock = self._take_operands(cell, name)
        clock = self._take_product(cell, clock) or clock
        if clock is None:
            return False
        cell["parameters"]["GSR"] = "DISABLED"
        cell["connections"].update({"CLK0": [clock], "CE0": ["1"], "RST0": ["0"]})
        cell["port_directions"].update(dict.fromkeys(("CLK0", "CE0", "RST0"), "input"))
        return True

    def _take_operands(self, cell: NetlistCell, name: str) -> int | None:
        """The clock of the registers of both operands, which are the multiplier's now; None where some bit has none that may move."""
        found = {f"{side}{bit}": self._before(cell, f"{side}{bit}") for side in "AB" for bit in range(OPERAND_BITS)}
        clock = self._clock(found)
        if clock is None:
            return None
        for port, register in found.items():
            if register:
                (net,) = self.cells[register]["connections"]["DI"]
                cell["connections"][port] = [net]
                self.readers.setdefault(net, []).append((name, port))
        cell["parameters"].update(REG_INPUTA_CLK="CLK0", REG_INPUTB_CLK="CLK0")
        return clock

    def _take_product(self, cell: NetlistCell, wanted: int | None) -> int | None:
        """As `_take_operands`, of the product; with the clock that is `wanted`."""
        found = {f"P{bit}": self._after(cell, f"P{bit}") for bit in range(PRODUCT_BITS)}
        clock = self._clock(found)
        if clock is None or wanted not in (None, clock):
            return None
        for port, register in found.items():
            if register:
                own = self.cells[register]["connections"]
                cell["connections"][port], own["Q"] = own["Q"], []
        cell["parameters"].update(REG_OUTPUT_CLK="CLK0")
        return clock

    def _clock(self, registers: Mapping[str, str | None]) -> int | None:
        """The one clock of all registers; None where one may not move, there are several clocks, or no registers."""
        clocks = {self.cells[name]["connections"]["CLK"][0] for name in registers.values() if name}
        return clocks.pop() if None not in registers.values() and len(clocks) == 1 else None

    def _before(self, cell: NetlistCell, port: str) -> str | None:
        """The register that an operand's bit comes from; "" for a constant, None where it does not come from one."""
        net = cell["connections"].get(port, ["0"])[0]
        if not isinstance(net, int):
            return ""
        name = self.drivers.get(net, "")
        return name if self._moves(name) else None

    def _after(self, cell: NetlistCell, port: str) -> str | None:
        """The only reader of a product's bit, a register; "" where nobody reads it, None where another one does."""
        readers = self.readers.get(cell["connections"].get(port, ["x"])[0], [])
        if not readers:
            return ""
        name, at = readers[0]
        return name if len(readers) == 1 and at == "DI" and self._moves(name) else None

    def _moves(self, name: str) -> bool:
        """Whether a cell is a flip-flop that takes a value in every cycle, and that no reset reaches."""
        cell = self.cells.get(name)
        if cell is None or cell["type"] != FLIP_FLOP or "DI" not in cell["connections"] or not cell["connections"]["Q"]:
            return False
        says = {key: str(value).strip() for key, value in cell["parameters"].items()}
        # as Yosys maps a register that is neither set nor reset, and always enabled
        always = says.get("CEMUX", "1") == "1" and cell["connections"].get("LSR", ["0"])[0] == "0"
        return always and says.get("REGSET", "RESET") == "RESET" and says.get("CLKMUX", "CLK") == "CLK"

    def drop_unread(self) -> None:
        """Take away flip-flops that nobody reads any more."""
        before = -1
        while before != len(self.cells):
            before, read = len(self.cells), set[Any]()
            for port in self.module["ports"].values():
                read.update(port["bits"])
            for cell in self.cells.values():
                for port, nets in cell["connections"].items():
                    if cell["port_directions"][port] != "output":
                        read.update(nets)
            for name, cell in list(self.cells.items()):
                if cell["type"] == FLIP_FLOP and not read.intersection(cell["connections"]["Q"]):
                    del self.cells[name]
