"""What a computational-memory accelerator is (cmnnc Section 2): cores, their crossbars and memory, links, GMEM ports.

A hardware file is JSON:

    {"name": "mesh-8x8",
     "topology": {"kind": "mesh", "rows": 8, "columns": 8},
     "link": {"elements_per_tick": 32, "hop_ticks": 1},
     "crossbar": {"rows": 256, "columns": 256, "per_core": 1},
     "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 4096},
     "gmem": {"input_ports": [0], "output_ports": [63], "elements_per_tick": 32, "hop_ticks": 1, "order": "row-major"},
     "element_bytes": 1}

With `bits_per_tick` in place of `elements_per_tick` (of links and GMEM, and without `element_bytes`), links and buffers count the bits
of what they hold, partial sums at their own width; with `elements_per_tick` every element is one, as in the paper. Optional are
`input_bits_per_tick`, `conversions_per_tick` and `inputs_per_tick` of the crossbar (operands enter it bit by bit, converters are
shared, a core's operands enter some after the others), its `cell_bits` (of a weight's magnitude in a pair of cells; the next ones
are in columns beside it) and `converter_bits` (which its converters find one after the other), `stages` of the core (how many may
share one), `tick_ns`, and `energy`, an `EnergyTable` with the `source` of its figures.

`topology.kind` is all-to-all, ring, mesh, mesh-diagonal, torus, tree, 5pp, or `links`: then `cores` counts the cores and `links` lists
directed ones, each {"from": 0, "to": 1} with its own `elements_per_tick` and `hop_ticks` where they differ. GMEM is one
more node of the network, behind the cores: it has a link to every input port and one from every output port. It sends the
pixels of an image row by row, or with `column-major` column by column (networks from ONNX files only).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.described_section import LARGEST_COUNT, DescribedSection, shown
from kilotune.codegen.cm.energy import COMPONENTS, EnergyTable
from kilotune.codegen.cm.pipeline import Stage
from kilotune.codegen.cm.topologies import PARAMETERS, core_count, grid_columns, pairs_of
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.converters import slice_count
from kilotune.codegen.onnx.graph import WEIGHT_BITS
from kilotune.codegen.text_files import read_text_file

_SHIPPED = Path(__file__).parent / "hardware_files"
DEFAULT_HARDWARE = "mesh-8x8"
MOST_CORES = 4096
MOST_CONVERTER_BITS = 16
MOST_HOP_TICKS = 1000
"""Images are simulated until none is under way that met empty links: slow links make many."""


TOP_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"elements_per_tick": ("element_bytes", "tick_ns", "energy"), "bits_per_tick": ("tick_ns", "energy")}
)
"""Optional and other fields of the file, by how it charges."""

CROSSBAR_FIELDS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("input_bits_per_tick", "conversions_per_tick", "inputs_per_tick", "cell_bits"), LARGEST_COUNT),
        "converter_bits": MOST_CONVERTER_BITS,
    }
)
"""Optional ones of the crossbar, and how large they may be."""

ABSENT_FALSE, ABSENT_ZERO, ABSENT_ONE, ABSENT_NONE = ({"content_absent_as": value} for value in (False, 0, 1, None))
"""Metadata of fields that came later: fingerprints leave them out where they change nothing."""


@dataclass(frozen=True)
class Link:
    """One direction between two nodes. A packet that enters it at tick t is behind it at t + hop_ticks, or later where
    it waits for the `width` elements, or bits where the hardware charges bits, that cross in one tick."""

    source: int
    target: int
    width: int = field(metadata={"content_name": "elements_per_tick", "content_values": {}})
    hop_ticks: int


@dataclass(frozen=True)
class Hardware:
    """An accelerator. Nodes 0 to cores - 1 are cores, node `gmem` is the global memory.

    charges_bits: links and buffers count the bits of what they hold; without it, as in the paper, every element is one, whatever
    its width, and takes `element_bytes` of SRAM. input_bits_per_tick: of an operand, that enter the crossbar at once;
    conversions_per_tick: columns that its converters read; inputs_per_tick: operands that
    enter a core's crossbars; 0: all. tick_ns: 0 where it is not known. stages_per_core: that may share
    a core's crossbars, SRAM and time. cell_bits: of a weight's magnitude, in a pair of cells; 0: all. converter_bits: of a conversion,
    those that `conversions_per_tick` and the table of energies speak of; 0: a conversion is one, whatever its bits.
    """

    name: str
    cores: int
    links: tuple[Link, ...]
    crossbar_rows: int
    crossbar_columns: int
    crossbars_per_core: int
    sram_bytes: int
    dpu_operations_per_tick: int
    element_bytes: int = 1
    input_order: str = "row-major"
    grid_columns: int | None = None
    charges_bits: bool = field(default=False, metadata=ABSENT_FALSE)
    input_bits_per_tick: int = field(default=0, metadata=ABSENT_ZERO)
    conversions_per_tick: int = field(default=0, metadata=ABSENT_ZERO)
    tick_ns: float = field(default=0.0, metadata=ABSENT_ZERO)
    energy: EnergyTable | None = field(default=None, metadata=ABSENT_NONE)
    stages_per_core: int = field(default=1, metadata=ABSENT_ONE)
    inputs_per_tick: int = field(default=0, metadata=ABSENT_ZERO)
    cell_bits: int = field(default=0, metadata=ABSENT_ZERO)
    converter_bits: int = field(default=0, metadata=ABSENT_ZERO)

    @property
    def unit(self) -> str:
        """What widths of links count: `elements` or `bits`."""
        return "bits" if self.charges_bits else "elements"

    @property
    def gmem(self) -> int:
        """The node number of the global memory."""
        return self.cores

    @property
    def core_rows(self) -> int:
        """Rows of the largest matrix of `crossbar_columns` columns that a core holds: its crossbars one below another."""
        return self.crossbar_rows * self.crossbars_per_core

    def rows_taken(self, stage: Stage) -> int:
        """Rows of a core's crossbars that a matrix takes, of `core_rows`. One that is wider than a crossbar is cut into strips, and each
        takes whole crossbars: two strips in one crossbar would add up."""
        strips = -(-(stage.crossbar_columns // stage.slices) // (self.crossbar_columns // stage.slices))
        if strips <= 1:
            return stage.crossbar_rows
        return strips * -(-stage.crossbar_rows // self.crossbar_rows) * self.crossbar_rows

    def crossbar_ticks(self, stage: Stage) -> int:
        """Ticks of a matrix-vector product: 1, or for each piece of the operands' bits the turns in which all operands enter and all
        columns of a crossbar are read, a step of a converter for each of its bits."""
        if not stage.crossbar_rows:
            return 1
        pieces = -(-stage.input_bits // self.input_bits_per_tick) if self.input_bits_per_tick else 1
        columns = min(stage.crossbar_columns, self.crossbar_columns)
        steps = columns * (stage.conversion_bits or self.converter_bits or 1)
        turns = (
            -(-steps // (self.conversions_per_tick * (self.converter_bits or 1))) if self.conversions_per_tick else 1
        )
        entries = -(-stage.crossbar_rows // self.inputs_per_tick) if self.inputs_per_tick else 1
        return pieces * turns * entries

    def iteration_ticks(self, stage: Stage) -> int:
        """Ticks from the start of an iteration to the start of the next: those of the crossbar, or of the DPU where it takes
        longer, for it works on one result while the crossbar makes the next."""
        return max(self.crossbar_ticks(stage), -(-stage.dpu_operations // self.dpu_operations_per_tick))


def crossbar_of(hardware: Hardware) -> Crossbar:
    """What layers are cut for."""
    return Crossbar(hardware.crossbar_rows, hardware.crossbar_columns, hardware.crossbars_per_core, hardware.cell_bits)


def shipped_hardware() -> tuple[str, ...]:
    """Names of the hardware files that come with the package."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.json")))


def load_hardware(text: str | None) -> Hardware:
    """A file, or the name of a shipped one; None: the default. InputError names what is wrong in it."""
    path = Path(text or DEFAULT_HARDWARE)
    if not path.is_file():
        path = _SHIPPED / f"{text or DEFAULT_HARDWARE}.json"
        if path not in _SHIPPED.glob("*.json"):
            names = ", ".join(shipped_hardware())
            raise InputError(str(text), expected=f"a hardware file, or one of {names}", found="neither")
    try:
        described = json.loads(read_text_file(path, "a text file"))
    except RecursionError:
        raise InputError(str(path), expected="an object", found="JSON that is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InputError.of_json(str(path), error) from None
    except ValueError as error:  # a number of thousands of digits
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), expected="JSON", found=str(error)) from None
    return parse_hardware(described, str(path))


def parse_hardware(described: Any, path: str) -> Hardware:
    """A description as in the module's docstring. InputError names the field."""
    top = DescribedSection(path, "", described)
    name = top.text("name")
    topology = top.section("topology")
    kind = topology.choice("kind", (*PARAMETERS, "links"))
    default = top.section("link")
    unit = "bits_per_tick" if "bits_per_tick" in default.fields else "elements_per_tick"
    width, hop = default.count(unit), default.count("hop_ticks", most=MOST_HOP_TICKS)
    if kind == "links":
        cores = topology.count("cores", most=MOST_CORES)
        links = _listed_links(topology, cores, unit, width, hop)
        columns = None
    else:
        sizes = {name: topology.count(name, most=MOST_CORES) for name in PARAMETERS[kind]}
        cores = core_count(kind, sizes)
        if cores > MOST_CORES:
            raise topology.error("", f"at most {MOST_CORES} cores", f"{cores}")
        links = [Link(a, b, width, hop) for a, b in pairs_of(kind, sizes)]
        columns = grid_columns(kind, sizes)
        topology.only(("kind", *PARAMETERS[kind]))
    gmem = top.section("gmem")
    port_width, port_hop = gmem.count(unit), gmem.count("hop_ticks", most=MOST_HOP_TICKS)
    order = gmem.choice("order", ("row-major", "column-major"))
    inputs, outputs = (gmem.ports(key, cores) for key in ("input_ports", "output_ports"))
    links += [Link(cores, port, port_width, port_hop) for port in inputs]
    links += [Link(port, cores, port_width, port_hop) for port in outputs]
    crossbar, core = top.section("crossbar"), top.section("core")
    hardware = Hardware(
        name=name,
        cores=cores,
        links=tuple(links),
        crossbar_rows=crossbar.count("rows"),
        crossbar_columns=crossbar.count("columns"),
        crossbars_per_core=crossbar.count("per_core"),
        sram_bytes=core.count("sram_bytes", most=1 << 40),
        dpu_operations_per_tick=core.count("dpu_operations_per_tick"),
        element_bytes=1 if unit == "bits_per_tick" else top.count("element_bytes", most=8),
        input_order=order,
        grid_columns=columns,
        charges_bits=unit == "bits_per_tick",
        tick_ns=top.number("tick_ns") if "tick_ns" in top.fields else 0.0,
        energy=_energy(top),
        stages_per_core=core.optional_count("stages") or 1,
        **{name: crossbar.optional_count(name, most) for name, most in CROSSBAR_FIELDS.items()},
    )
    if hardware.crossbar_columns < slice_count(WEIGHT_BITS, hardware.cell_bits):
        raise crossbar.error("columns", "as many as a weight takes", f"{hardware.crossbar_columns}")
    _check_fields(top, unit)
    _check_reach(hardware, path)
    return hardware


def _listed_links(topology: DescribedSection, cores: int, unit: str, width: int, hop: int) -> list[Link]:
    """The links of a topology of kind `links`."""
    listed = topology.value("links")
    if not isinstance(listed, list) or not listed:
        raise topology.error("links", "a list of links", shown(listed))
    links: dict[tuple[int, int], Link] = {}
    for number, entry in enumerate(listed):
        section = DescribedSection(topology.path, f"topology.links[{number}]", entry)
        ends = section.core("from", cores), section.core("to", cores)
        if ends[0] == ends[1] or ends in links:
            found = f"{ends[0]} to itself" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} a second time"
            raise section.error("", "a link between two cores, listed once", found)
        own = {unit: width, "hop_ticks": hop}
        most = {unit: LARGEST_COUNT, "hop_ticks": MOST_HOP_TICKS}
        own |= {key: section.count(key, most[key]) for key in own if key in section.fields}
        links[ends] = Link(*ends, own[unit], own["hop_ticks"])
        section.only(("from", "to", *own))
    topology.only(("kind", "cores", "links"))
    return [links[ends] for ends in sorted(links)]


def _check_fields(top: DescribedSection, unit: str) -> None:
    """InputError for a field that there is not: misspelt ones are errors, not silence."""
    top.only(("name", "topology", "link", "crossbar", "core", "gmem", *TOP_FIELDS[unit]))
    for name, keys in (
        ("link", (unit, "hop_ticks")),
        ("crossbar", ("rows", "columns", "per_core", *CROSSBAR_FIELDS)),
        ("core", ("sram_bytes", "dpu_operations_per_tick", "stages")),
        ("gmem", ("input_ports", "output_ports", unit, "hop_ticks", "order")),
    ):
        top.section(name).only(keys)


def _energy(top: DescribedSection) -> EnergyTable | None:
    """The table of energies; None without one."""
    if "energy" not in top.fields:
        return None
    section = top.section("energy")
    source = section.text("source")
    section.only(("source", *COMPONENTS))
    return EnergyTable(source, tuple((name, section.number(name)) for name in COMPONENTS if name in section.fields))


def _check_reach(hardware: Hardware, path: str) -> None:
    """InputError naming the core that no link leads to, or from, or two cores without a path between them: a placement
    may put any two stages there that talk with each other."""
    for forward in (True, False):
        reached = _reached(hardware, hardware.gmem, forward)
        for core in range(hardware.cores):
            if core not in reached:
                lacking = (
                    f"no path from an input port to core {core}" if forward else f"none from core {core} to a port"
                )
                expected = f"a link that {'leads to' if forward else 'leaves'} core {core} (a missing link?)"
                raise InputError(path, place="topology", expected=expected, found=lacking)
    for forward in (True, False):
        apart = set(range(hardware.cores)) - _reached(hardware, 0, forward)
        if apart:
            ends = (0, min(apart)) if forward else (min(apart), 0)
            expected = "a path between any two cores, not through GMEM"
            raise InputError(
                path, place="topology", expected=expected, found=f"none from core {ends[0]} to core {ends[1]}"
            )


def _reached(hardware: Hardware, start: int, forward: bool) -> set[int]:
    """Nodes at the end of paths from `start`, or at the beginning of paths to it. GMEM is on no path."""
    following: list[list[int]] = [[] for _ in range(hardware.cores + 1)]
    for link in hardware.links:
        here, there = (link.source, link.target) if forward else (link.target, link.source)
        following[here].append(there)
    reached, frontier = {start}, [start]
    while frontier:
        node = frontier.pop()
        if node == hardware.gmem != start:
            continue
        fresh = [there for there in following[node] if there not in reached]
        reached.update(fresh)
        frontier.extend(dict.fromkeys(fresh))
    return reached
