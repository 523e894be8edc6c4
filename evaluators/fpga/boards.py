"""FPGAs by name, or as a JSON file describes one: what there is on it, and how the open tools are told of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.json_values import shown, shown_at
from kilotune.codegen.text_files import read_text_file
from kilotune.evaluators.cost_model import parse_json_object
from kilotune.evaluators.fpga.tools import ToolChoice
from kilotune.search.suggestion import did_you_mean

SHIPPED = Path(__file__).with_name("boards.json")

DEFAULT_BOARD = "ecp5-25f"
"""Where nobody names one."""


@dataclass(frozen=True)
class Gates:
    """What a design takes, or a board has: look-up tables, flip-flops, block memories, multipliers."""

    luts: int = 0
    flip_flops: int = 0
    block_rams: int = 0
    multipliers: int = 0

    def __add__(self, other: Gates) -> Gates:
        return Gates(
            self.luts + other.luts,
            self.flip_flops + other.flip_flops,
            self.block_rams + other.block_rams,
            self.multipliers + other.multipliers,
        )

    def missing(self, board: Gates) -> dict[str, tuple[int, int]]:
        """(taken, there are) of each kind of which the board has too few."""
        there = asdict(board)
        return {kind: (taken, there[kind]) for kind, taken in asdict(self).items() if taken > there[kind]}


GATE_KINDS: Mapping[str, str] = MappingProxyType(
    {"luts": "LUTs", "flip_flops": "flip-flops", "block_rams": "block RAMs", "multipliers": "multipliers"}
)
"""What people call the fields of `Gates`."""


def counted_gates(count: float, kind: str) -> str:
    """`1 block RAM`, `3 multipliers`; `kind`: a field of `Gates`."""
    return f"{count:.0f} {GATE_KINDS[kind].removesuffix('s') if count == 1 else GATE_KINDS[kind]}"


@dataclass(frozen=True)
class ConstraintFile:
    """Where a designer says a design's clock and pins. `clock`: the line for the port `clk`, with {mhz} and {nanoseconds} (the period)
    to fill in; `option`: how the placer is told of the file, none where none of ours places."""

    name: str
    clock: str
    option: str | None = None


@dataclass(frozen=True)
class BitstreamPacking:
    """How a placed design becomes a bitstream: the placer's `option` for the file `configuration`, and the tool that makes the file
    `bitstream` of it."""

    option: str
    configuration: str
    packer: ToolChoice
    bitstream: str


@dataclass(frozen=True)
class GateFamily:
    """FPGAs that are synthesised alike: Yosys' command, and the tool that places and routes (None: synthesis only) with its options.

    `cells`: of each kind of `Gates`, the cells that Yosys counts, with how many of the kind each takes, at least; `placed`: what the
    placer's report calls the kind. `registers_move`: into multipliers, between synthesis and placement (`multiplier_registers.py`).
    `packing`: of families with a placer. `second_router`: the placer's options where its usual router does not end; none where that one is
    the usual one.
    """

    synthesis: str
    cells: Mapping[str, Mapping[str, int]]
    constraints: ConstraintFile
    placer: ToolChoice | None = None
    packing: BitstreamPacking | None = None
    options: tuple[str, ...] = ()
    placed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    registers_move: bool = False
    second_router: tuple[str, ...] = ()


def _placer(kind: str, gives: str) -> ToolChoice:
    return ToolChoice((f"nextpnr-{kind}", f"yowasp-nextpnr-{kind}"), f"yowasp-nextpnr-{kind}", "", gives)


def _packer(name: str, family: str) -> ToolChoice:
    return ToolChoice((name, f"yowasp-{name}"), f"yowasp-nextpnr-{family}", "", "placed hardware becomes a bitstream")


ECP5 = GateFamily(
    "synth_ecp5 -top model -json model.json",
    {
        "luts": {"LUT4": 1, "CCU2C": 2},
        "flip_flops": {"TRELLIS_FF": 1},
        "block_rams": {"DP16KD": 1},
        "multipliers": {"MULT18X18D": 1},
    },
    ConstraintFile("model.lpf", 'FREQUENCY PORT "clk" {mhz:g} MHZ;', "--lpf"),
    _placer("ecp5", "hardware is placed and routed on an ECP5"),
    BitstreamPacking("--textcfg", "model.config", _packer("ecppack", "ecp5"), "model.bit"),
    ("--lpf-allow-unconstrained",),
    {"luts": "TRELLIS_COMB", "flip_flops": "TRELLIS_FF", "block_rams": "DP16KD", "multipliers": "MULT18X18D"},
    registers_move=True,
)
ICE40 = GateFamily(  # a flip-flop lies in a cell with a look-up table, and is counted with it
    "synth_ice40 -top model -json model.json",
    {"luts": {"SB_LUT4": 1}, "block_rams": {"SB_RAM40_4K": 1}},
    ConstraintFile("model.pcf", "set_frequency clk {mhz:g}", "--pcf"),
    _placer("ice40", "hardware is placed and routed on an iCE40"),
    BitstreamPacking("--asc", "model.asc", _packer("icepack", "ice40"), "model.bin"),
    ("--pcf-allow-unconstrained",),
    {"luts": "ICESTORM_LC", "block_rams": "ICESTORM_RAM"},
    second_router=("--router", "router2"),  # nextpnr's usual one for an ECP5
)
ULTRAPLUS_COARSE = (
    "opt_expr; check; opt_clean; opt -nodffe -nosdff; fsm; opt; wreduce; peepopt; opt_clean; share; "
    "techmap -map +/cmp2lut.v -D LUT_WIDTH=4; opt_expr; opt_clean; memory_dff; wreduce t:$mul; "
    "techmap -map +/mul2dsp.v -map +/ice40/dsp_map.v -D DSP_A_MAXWIDTH=16 -D DSP_B_MAXWIDTH=16 -D DSP_A_MINWIDTH=2 "
    "-D DSP_B_MINWIDTH=2 -D DSP_Y_MINWIDTH=11 -D DSP_NAME=$__MUL16X16; select a:mul2dsp; setattr -unset mul2dsp; "
    "opt_expr -fine; wreduce; select -clear; chtype -set $mul t:$__soft_mul; alumacc; opt; memory -nomap; opt_clean"
)
"""What `synth_ice40 -dsp` does between `coarse` and `map_ram`, without its pass `ice40_dsp`, which packs registers into multipliers and
confuses signs (YosysHQ/yosys issue 2648): products shifted down became constants."""

ULTRAPLUS = replace(  # their memories of 256 kbit are read and written through one port, which none of ours are
    ICE40,
    synthesis=f"synth_ice40 -device u -top model -run begin:coarse; {ULTRAPLUS_COARSE}; "
    "synth_ice40 -device u -top model -run map_ram: -json model.json",
    cells={**ICE40.cells, "multipliers": {"SB_MAC16": 1}},
    placed={**ICE40.placed, "multipliers": "ICESTORM_DSP"},
)
XILINX = GateFamily(
    "synth_xilinx -top model -flatten",
    {
        "luts": {
            **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
            "RAM32M": 4,
            "RAM64M": 4,
            "RAM32X1D": 2,
            "RAM64X1D": 2,
        },
        "flip_flops": {"FDRE": 1, "FDSE": 1, "FDCE": 1, "FDPE": 1},
        "block_rams": {"RAMB18E1": 1, "RAMB36E1": 2},
        "multipliers": {"DSP48E1": 1},
    },
    ConstraintFile("model.xdc", "create_clock -name clk -period {nanoseconds:.3f} [get_ports clk]"),
)
FAMILIES: Mapping[str, GateFamily] = MappingProxyType(
    {"ecp5": ECP5, "ice40": ICE40, "ice40-ultraplus": ULTRAPLUS, "xilinx": XILINX}
)


@dataclass(frozen=True)
class Board:
    """An FPGA. `part`: what its placer is told of it."""

    name: str
    description: str
    family: str
    part: tuple[str, ...]
    gates: Gates


def shipped_boards() -> tuple[Board, ...]:
    """Those that are known by name."""
    return tuple(board_from_json(content, str(SHIPPED)) for content in json.loads(SHIPPED.read_text(encoding="utf-8")))


def find_board(text: str) -> Board:
    """The board of that name, or the one that a JSON file describes. ValueError, a sentence that lists the names, when there is none;
    InputError for a description that cannot be used."""
    boards = {board.name: board for board in shipped_boards()}
    if text in boards:
        return boards[text]
    if text.endswith(".json") or Path(text).is_file():
        return board_from_json(parse_json_object(read_text_file(Path(text), "a text file"), text), text)
    raise ValueError(
        f"There is no board {text!r}{did_you_mean(text, list(boards))}; there are {', '.join(boards)}, or a JSON file of your own."
    )


def board_from_json(content: Mapping[str, Any], path: str) -> Board:
    """A board from a JSON object such as

        {"name": "mine", "family": "ecp5", "part": ["--25k", "--package", "CABGA256"], "luts": 24288, "flip_flops": 24288,
         "block_rams": 56, "multipliers": 28}

    with a `description` if wanted. InputError that names the key, what is expected, and what was found.
    """
    counts = ("luts", "flip_flops", "block_rams", "multipliers")
    for key in content:
        if key not in ("name", "description", "family", "part", *counts):
            raise InputError(path, place=str(key), expected="a key of a board", found="an unknown key")
    for key in ("name", "family"):
        if not isinstance(content.get(key), str) or not content[key]:
            raise InputError(path, place=key, expected="a text", found=shown_at(content, key))
    if content["family"] not in FAMILIES:
        raise InputError(path, place="family", expected=f"one of {', '.join(FAMILIES)}", found=shown(content["family"]))
    part = _part(content, path)
    for key in counts:
        value = content.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InputError(path, place=key, expected="a whole number from 0", found=shown_at(content, key))
    gates = Gates(*(content[key] for key in counts))
    return Board(content["name"], str(content.get("description", "")), content["family"], part, gates)


def _part(content: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Arguments of a program, and words of a line in a Makefile."""
    part = content.get("part")
    if not isinstance(part, list) or not all(isinstance(word, str) for word in part):
        raise InputError(path, place="part", expected="a list of texts", found=shown_at(content, "part"))
    for word in part:
        if not word.isprintable():
            raise InputError(
                path, place="part", expected="texts of printable characters on one line", found=shown(word)
            )
    return tuple(part)
