"""What a computational-memory accelerator is (cmnnc Section 2): cores, their crossbars and memory, links, GMEM ports.

A hardware file is JSON:

    {"name": "mesh-8x8",
     "topology": {"kind": "mesh", "rows": 8, "columns": 8},
     "link": {"elements_per_tick": 32, "hop_ticks": 1},
     "crossbar": {"rows": 256, "columns": 256, "per_core": 1},
     "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 4096},
     "gmem": {"input_ports": [0], "output_ports": [63], "elements_per_tick": 32, "hop_ticks": 1, "order": "row-major"},
     "element_bytes": 1}

`topology.kind` is all-to-all, ring, mesh, mesh-diagonal, 5pp, or `links`: then `cores` counts the cores and `links` lists
directed ones, each {"from": 0, "to": 1} with its own `elements_per_tick` and `hop_ticks` where they differ. GMEM is one
more node of the network, behind the cores: it has a link to every input port and one from every output port. It sends the
pixels of an image row by row, or with `column-major` column by column (networks from ONNX files only).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilotune.codegen.cm.topologies import PARAMETERS, core_count, grid_columns, pairs_of
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.text_files import read_text_file

_SHIPPED = Path(__file__).parent / "hardware_files"
DEFAULT_HARDWARE = "mesh-8x8"
LARGEST_COUNT = 1 << 20
MOST_CORES = 1024
MOST_HOP_TICKS = 1000
"""Images are simulated until none is under way that met empty links: slow links make many."""


@dataclass(frozen=True)
class Link:
    """One direction between two nodes. A packet that enters it at tick t is behind it at t + hop_ticks, or later where
    elements wait for the `elements_per_tick` that cross in one tick."""

    source: int
    target: int
    elements_per_tick: int
    hop_ticks: int


@dataclass(frozen=True)
class Hardware:
    """An accelerator. Nodes 0 to cores - 1 are cores, node `gmem` is the global memory."""

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

    @property
    def gmem(self) -> int:
        """The node number of the global memory."""
        return self.cores

    @property
    def core_rows(self) -> int:
        """Rows of the largest matrix of `crossbar_columns` columns that a core holds: its crossbars one below another."""
        return self.crossbar_rows * self.crossbars_per_core

    def iteration_ticks(self, dpu_operations: int) -> int:
        """Ticks from the start of an iteration to the start of the next: the crossbar takes one, the DPU its share."""
        return max(1, -(-dpu_operations // self.dpu_operations_per_tick))


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
        raise InputError(str(path), line=error.lineno, column=error.colno, expected="JSON", found=error.msg) from None
    except ValueError as error:  # a number of thousands of digits
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), expected="JSON", found=str(error)) from None
    return parse_hardware(described, str(path))


def parse_hardware(described: Any, path: str) -> Hardware:
    """A description as in the module's docstring. InputError names the field."""
    top = _Section(path, "", described)
    name = top.text("name")
    topology = top.section("topology")
    kind = topology.choice("kind", (*PARAMETERS, "links"))
    default = top.section("link")
    width, hop = default.count("elements_per_tick"), default.count("hop_ticks", most=MOST_HOP_TICKS)
    if kind == "links":
        cores = topology.count("cores", most=MOST_CORES)
        links = _listed_links(topology, cores, width, hop)
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
    port_width, port_hop = gmem.count("elements_per_tick"), gmem.count("hop_ticks", most=MOST_HOP_TICKS)
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
        element_bytes=top.count("element_bytes", most=8),
        input_order=order,
        grid_columns=columns,
    )
    for section, keys in (
        (top, ("name", "topology", "link", "crossbar", "core", "gmem", "element_bytes")),
        (default, ("elements_per_tick", "hop_ticks")),
        (crossbar, ("rows", "columns", "per_core")),
        (core, ("sram_bytes", "dpu_operations_per_tick")),
        (gmem, ("input_ports", "output_ports", "elements_per_tick", "hop_ticks", "order")),
    ):
        section.only(keys)
    _check_reach(hardware, path)
    return hardware


def _listed_links(topology: _Section, cores: int, width: int, hop: int) -> list[Link]:
    """The links of a topology of kind `links`."""
    listed = topology.value("links")
    if not isinstance(listed, list) or not listed:
        raise topology.error("links", "a list of links", _shown(listed))
    links: dict[tuple[int, int], Link] = {}
    for number, entry in enumerate(listed):
        section = _Section(topology.path, f"topology.links[{number}]", entry)
        ends = section.core("from", cores), section.core("to", cores)
        if ends[0] == ends[1] or ends in links:
            found = f"{ends[0]} to itself" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} a second time"
            raise section.error("", "a link between two cores, listed once", found)
        own = {"elements_per_tick": width, "hop_ticks": hop}
        most = {"elements_per_tick": LARGEST_COUNT, "hop_ticks": MOST_HOP_TICKS}
        own |= {key: section.count(key, most[key]) for key in own if key in section.fields}
        links[ends] = Link(*ends, **own)
        section.only(("from", "to", *own))
    topology.only(("kind", "cores", "links"))
    return [links[ends] for ends in sorted(links)]


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


class _Section:
    """An object of the file, and the errors of its fields."""

    def __init__(self, path: str, place: str, fields: Any) -> None:
        self.path, self._place = path, place
        if not isinstance(fields, dict):
            raise InputError(path, place=place or "top level", expected="an object", found=_shown(fields))
        self.fields: dict[str, Any] = fields

    def error(self, key: str, expected: str, found: str) -> InputError:
        """Names the field."""
        place = ".".join(part for part in (self._place, key) if part) or "top level"
        return InputError(self.path, place=place, expected=expected, found=found)

    def value(self, key: str) -> Any:
        if key not in self.fields:
            raise self.error(key, "a value", "none")
        return self.fields[key]

    def section(self, key: str) -> _Section:
        return _Section(self.path, ".".join(part for part in (self._place, key) if part), self.value(key))

    def text(self, key: str) -> str:
        value = self.value(key)
        if not isinstance(value, str) or not value:
            raise self.error(key, "a name", _shown(value))
        return value

    def choice(self, key: str, names: tuple[str, ...]) -> str:
        value = self.value(key)
        if value not in names:
            raise self.error(key, f"one of {', '.join(names)}", _shown(value))
        return str(value)

    def count(self, key: str, most: int = LARGEST_COUNT) -> int:
        value = self.value(key)
        if type(value) is not int or not 1 <= value <= most:
            raise self.error(key, f"a whole number from 1 to {most}", _shown(value))
        return value

    def core(self, key: str, cores: int) -> int:
        value = self.value(key)
        if type(value) is not int or not 0 <= value < cores:
            raise self.error(key, f"a core from 0 to {cores - 1}", _shown(value))
        return value

    def ports(self, key: str, cores: int) -> list[int]:
        value = self.value(key)
        right = isinstance(value, list) and value and all(type(p) is int and 0 <= p < cores for p in value)
        if not right or len(set(value)) < len(value):
            raise self.error(key, f"a list of different cores from 0 to {cores - 1}", _shown(value))
        return list(value)

    def only(self, keys: tuple[str, ...]) -> None:
        """Misspelt fields are errors, not silence."""
        for key in self.fields:
            if key not in keys:
                raise self.error(key, f"one of {', '.join(keys)}", "an unknown field")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
