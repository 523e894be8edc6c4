"""What depends on the board in a folder with a program's hardware: constraints, the Makefile, and what a README says of it.

Tools and options are those with which `synthesis.py` measures gates and clocks. What they find differs from what was measured by some
percent, since they are given Verilog instead of Yosys' own netlist.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kilotune.evaluators.fpga import multiplier_registers
from kilotune.evaluators.fpga.boards import FAMILIES, Board, GateFamily
from kilotune.evaluators.fpga.synthesis import FIRST_ROUTER_S, placing_arguments
from kilotune.evaluators.fpga.tools import SYNTHESISER, ToolChoice

MOVER = Path(multiplier_registers.__file__)
"""What moves registers into multipliers; it needs nothing but Python."""


@dataclass(frozen=True)
class ClockGoal:
    """What constraints ask for. `source`: where the figure comes from, as a README says it; `taken`: a sentence that says which gates the
    design takes, and who says so; `options`: what the placer was given besides the usual when that was measured."""

    mhz: float
    source: str
    taken: str = ""
    options: tuple[str, ...] = ()

    @property
    def asked_mhz(self) -> float:
        """A tenth of a MHz or less below the figure."""
        return math.floor(10 * self.mhz) / 10


NO_GOAL = ClockGoal(50.0, "nothing is predicted of this design")
"""Where no study has a clock."""


def board_file_names(family: GateFamily) -> tuple[str, ...]:
    """The names of `board_files`, known before there is a design."""
    return (family.constraints.name, "Makefile", *((MOVER.name,) if family.registers_move else ()))


def board_files(board: Board, clock: ClockGoal) -> dict[str, str]:
    """Text by path in the folder."""
    family, mhz = FAMILIES[board.family], clock.asked_mhz
    line = family.constraints.clock.format(mhz=mhz, nanoseconds=1000 / mhz)
    mover = {MOVER.name: MOVER.read_text(encoding="utf-8")} if family.registers_move else {}
    return {family.constraints.name: f"{line}\n", "Makefile": _makefile(board, clock), **mover}


def board_steps(board: Board, clock: ClockGoal) -> str:
    """What `make` does for the board, in sentences."""
    family = FAMILIES[board.family]
    asks = f"`{family.constraints.name}` asks for {clock.asked_mhz:g} MHz ({clock.source})"
    placed = family.placer is not None and family.packing is not None
    variables = ["YOSYS", *(["NEXTPNR", "PACK"] if placed else []), "PYTHON"]
    tools = (
        "Tools are those of `pip install 'kilotune[fpga]'` or others of these names on the PATH; one that lies elsewhere is given to "
        f"make, as in `make YOSYS=/opt/bin/yosys` (variables: {', '.join(variables)}), and `make PYTHON=/path/to/environment/bin/python` "
        "also finds the tools of an environment that is not active"
    )
    taken = f"{clock.taken} " if clock.taken else ""
    if family.placer is None or family.packing is None:
        return (
            f"{taken}`make gates` synthesises the model for {_called(board)} with Yosys and shows its cells; that is all, since no open "
            f"tool of ours places on this board. For a bitstream give `model.v` to the vendor's tools: {asks}. {tools}."
        )
    router = (
        f"Where its router has not ended after {FIRST_ROUTER_S // 60} minutes, its other one is asked. "
        if _further_router(family, clock)
        else ""
    )
    return (
        f"{taken}`make bitstream` synthesises the model for {_called(board)} with Yosys, places and routes it with nextpnr, which says the "
        f"clock that is reached, and packs `{family.packing.bitstream}` with {family.packing.packer.name}. {asks}, and pins are nextpnr's "
        f"choice: write your board's into it before you load the bitstream. {router}{tools}."
    )


def _called(board: Board) -> str:
    """A board's name and description on one line."""
    about = f"{board.name} ({board.description})" if board.description else board.name
    return " ".join(about.split())


def _makefile(board: Board, clock: ClockGoal) -> str:
    family = FAMILIES[board.family]
    if family.placer is None or family.packing is None:
        goal, variables, rules = "gates", [], _gates_rules(family)
        made = ["gates.txt"]
    else:
        goal, packing = "bitstream", family.packing
        variables = [_variable("NEXTPNR", family.placer), _variable("PACK", packing.packer)]
        rules = _bitstream_rules(board, clock)
        made = ["model.json", packing.configuration, packing.bitstream]
    does = "gates by synthesis" if goal == "gates" else "synthesis, place and route, and a bitstream"
    lines = [
        f"# make check: recorded samples in Verilator; make {goal}: {does} for {_called(board)}",
        _variable("YOSYS", SYNTHESISER),
        *variables,
        "PYTHON ?= python3",
        f"\n.PHONY: check {goal} clean\n.DELETE_ON_ERROR:\n",
        _CHECK_RULES,
        *rules,
        f"clean:\n\trm -rf built built.log {' '.join(made)}\n",
    ]
    return "\n".join(lines)


def _variable(name: str, tool: ToolChoice) -> str:
    """A tool by the first of its commands that is on the PATH or beside Python, as `ToolChoice.find` looks for it."""
    beside = "$(filter-out ./,$(dir $(PYTHON)))"  # nothing where PYTHON is a name: the folder of the Makefile is no place for tools
    places = [f"command -v {place}{command}" for command in tool.commands for place in ("", beside)]
    return f"{name} ?= $(shell {' || '.join(places)} || echo {tool.name})"


def _line(words: Sequence[str]) -> str:
    """A command's words as a line of a rule: quoted for the shell, and `$` for make."""
    return shlex.join(words).replace("$", "$$")


def _gates_rules(family: GateFamily) -> list[str]:
    script = f"read_verilog model.v; {family.synthesis}; tee -o gates.txt stat"
    return [
        "gates: gates.txt\n\t@cat gates.txt\n",
        f"gates.txt: model.v\n\t$(YOSYS) {_line(['-q', '-p', script])}\n",
    ]


def _bitstream_rules(board: Board, clock: ClockGoal) -> list[str]:
    family = FAMILIES[board.family]
    packing, constraints = family.packing, family.constraints
    assert packing is not None
    assert constraints.option is not None
    synthesis = [f"model.json: model.v\n\t$(YOSYS) {_line(['-q', '-p', f'read_verilog model.v; {family.synthesis}'])}"]
    if family.registers_move:
        synthesis.append(f"\t$(PYTHON) -c \"import {MOVER.stem}; {MOVER.stem}.change_file('model.json')\"")
    placing = [
        *placing_arguments(board, clock.asked_mhz),
        *clock.options,
        constraints.option,
        constraints.name,
        packing.option,
        packing.configuration,
    ]
    further = _further_router(family, clock)
    return [
        *([_BOUND] if further else []),
        f"bitstream: {packing.bitstream}\n",
        *synthesis,
        f"\n{packing.configuration}: model.json {constraints.name}\n{_placing_rule(placing, further)}\n",
        f"{packing.bitstream}: {packing.configuration}\n\t$(PACK) {packing.configuration} {packing.bitstream}\n",
    ]


def _further_router(family: GateFamily, clock: ClockGoal) -> tuple[str, ...]:
    """What nextpnr is given where its first run does not end; nothing where what was measured has needed options of its own."""
    return () if clock.options else family.second_router


def _placing_rule(placing: Sequence[str], further: Sequence[str]) -> str:
    """The rule that places and routes; within a bound, and then with the `further` options, where there are any."""
    run = f"$(NEXTPNR) {_line(placing)}"
    if not further:
        return f"\t{run}"
    said = f"nextpnr did not end within {FIRST_ROUTER_S} seconds, and is asked again with {shlex.join(further)}"
    again = f"$(NEXTPNR) {_line([*placing, *further])}"
    return f"\t$(BOUND) {run} || {{ [ $$? -eq 124 ] && echo '{said}' >&2 && {again}; }}"


_BOUND = f"BOUND := $(if $(shell command -v timeout),timeout --foreground {FIRST_ROUTER_S})\n"
"""GNU coreutils' `timeout` ends what takes longer, with status 124; where it is missing nextpnr is waited for."""

_CHECK_RULES = """\
check: built/testbench
\t./built/testbench

built/testbench: model.v testbench.v
\tverilator --binary --timing -Wno-fatal -O3 --top-module testbench --Mdir built -o testbench testbench.v model.v > built.log
"""
