"""A second simulator of mapped pipelines, written from `docs/cm-timing.md` and the hardware file's format alone.

Slow and simple: packets are objects, memories are lists of them, and in every tick everything is looked at. It shares nothing with
the evaluators but the pipeline that it is given; links, widths, loads and ticks of iterations it works out by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kilotune.codegen.cm.pipeline import Pipeline

Node = int | str
GMEM = "GMEM"


@dataclass
class Wire:
    """A link and what waits for it: packets, each with what is left of it."""

    width: int
    hop_ticks: int
    waiting: deque[list[Any]] = field(default_factory=deque)


@dataclass(frozen=True)
class Packet:
    channel: Channel
    image: int
    iteration: int


@dataclass(eq=False)
class Channel:
    """A stream of the documentation."""

    number: int
    writer: int | str
    reader: int | str
    sends: list[bool]
    needed: list[int]
    released: list[int]
    load: int
    room: int
    path: list[tuple[Node, Node]]
    held: set[tuple[int, int]] = field(default_factory=set)  # image, writer's iteration
    delivered: set[tuple[int, int]] = field(default_factory=set)
    released_of: dict[int, int] = field(default_factory=dict)  # by image: the first iterations of the writer
    seen: dict[int, int] = field(default_factory=dict)  # by image: the first iterations of which nothing is missing
    gmem_at: int = 0

    def has_room(self) -> bool:
        return self.room == 0 or len(self.held) < self.room

    def hold(self, image: int, iteration: int) -> None:
        if self.reader != GMEM and iteration >= self.released_of.get(image, 0):
            self.held.add((image, iteration))

    def release(self, image: int, count: int) -> None:
        self.released_of[image] = max(count, self.released_of.get(image, 0))
        self.held = {(m, i) for m, i in self.held if m != image or i >= count}

    def offers(self, image: int, j: int) -> bool:
        """All that the reader's iteration needs is there."""
        begin = self.seen.get(image, 0)
        while begin < self.needed[j] and (not self.sends[begin] or (image, begin) in self.delivered):
            begin += 1
        self.seen[image] = begin
        return begin >= self.needed[j]


@dataclass
class Core:
    """A stage: `running` is the iteration that holds its core, with the tick at which it has finished. place: the core's number."""

    iterations: int
    ticks: int
    place: int
    running: tuple[int, int] | None = None
    starts: list[int] = field(default_factory=list)


def neighbours(topology: Mapping[str, Any]) -> set[tuple[int, int]]:
    """Linked cores, both ways, of a topology in the hardware file."""
    kind, pairs = topology["kind"], set()
    if kind == "links":
        return {(link["from"], link["to"]) for link in topology["links"]}
    if kind == "ring":
        cores = topology["cores"]
        pairs = {(k, (k + 1) % cores) for k in range(cores)}
    elif kind == "tree":
        pairs = {(k, (k - 1) // 2) for k in range(1, topology["cores"])}
    elif kind in ("mesh", "torus"):
        rows, columns = topology["rows"], topology["columns"]
        for k in range(rows * columns):
            r, c = divmod(k, columns)
            if c + 1 < columns or kind == "torus":
                pairs.add((k, r * columns + (c + 1) % columns))
            if r + 1 < rows or kind == "torus":
                pairs.add((k, (r + 1) % rows * columns + c))
    else:
        raise ValueError(kind)
    return {pair for a, b in pairs if a != b for pair in ((a, b), (b, a))}


def wires_of(hardware: Mapping[str, Any]) -> dict[tuple[Node, Node], Wire]:
    """By the nodes at both ends."""
    unit = "bits_per_tick" if "bits_per_tick" in hardware["link"] else "elements_per_tick"
    link, gmem = hardware["link"], hardware["gmem"]
    wires: dict[tuple[Node, Node], Wire] = {}
    for a, b in neighbours(hardware["topology"]):
        wires[a, b] = Wire(link[unit], link["hop_ticks"])
    for own in hardware["topology"].get("links", ()):
        wires[own["from"], own["to"]] = Wire(own.get(unit, link[unit]), own.get("hop_ticks", link["hop_ticks"]))
    for port in gmem["input_ports"]:
        wires[GMEM, port] = Wire(gmem[unit], gmem["hop_ticks"])
    for port in gmem["output_ports"]:
        wires[port, GMEM] = Wire(gmem[unit], gmem["hop_ticks"])
    return wires


def ticks_of(stage: Any, hardware: Mapping[str, Any]) -> int:
    """Of an iteration."""

    def up(a: int, b: int) -> int:
        return (a + b - 1) // b

    crossbar = hardware["crossbar"]
    product = 1
    if stage.crossbar_rows > 0:
        if "input_bits_per_tick" in crossbar:
            product *= up(stage.input_bits, crossbar["input_bits_per_tick"])
        if "conversions_per_tick" in crossbar:
            columns, most = min(stage.crossbar_columns, crossbar["columns"]), crossbar.get("converter_bits", 1)
            bits = stage.conversion_bits if stage.conversion_bits else most
            product *= up(columns * bits, crossbar["conversions_per_tick"] * most)
        if "inputs_per_tick" in crossbar:
            product *= up(stage.crossbar_rows, crossbar["inputs_per_tick"])
    return max(product, up(stage.dpu_operations, hardware["core"]["dpu_operations_per_tick"]))


def channels_of(
    pipeline: Pipeline, hardware: Mapping[str, Any], paths: Sequence[Sequence[tuple[Node, Node]]], room: Sequence[int]
) -> list[Channel]:
    in_bits = "bits_per_tick" in hardware["link"]
    found = []
    for edge in pipeline.edges:
        count = pipeline.input_iterations if edge.writer < 0 else pipeline.stages[edge.writer].iterations
        sends = [True] * count if edge.sent is None else [bool(one) for one in edge.sent]
        load = (edge.packet_bits or 8 * edge.elements) if in_bits else edge.elements
        writer = GMEM if edge.writer < 0 else edge.writer
        steps = edge.needed.tolist(), edge.released.tolist()
        found.append(
            Channel(len(found), writer, edge.reader, sends, *steps, load, room[len(found)], list(paths[len(found)]))
        )
    for output in pipeline.outputs:
        stage = pipeline.stages[output]
        load = (stage.output_bits or 8 * stage.output_elements) if in_bits else stage.output_elements
        path = list(paths[len(found)])
        found.append(Channel(len(found), output, GMEM, [True] * stage.iterations, [], [], load, 0, path))
    return found


@dataclass
class DocumentedRun:
    """What goes on, and what came of it: start ticks by stage, and by image the tick at which it was through; `stuck`: a deadlock."""

    pipeline: Pipeline
    hardware: Mapping[str, Any]
    channels: list[Channel]
    pace: int
    images: int
    places: Sequence[int]
    finish: list[int] = field(default_factory=list)
    stuck: bool = False

    def __post_init__(self) -> None:
        self.wires = wires_of(self.hardware)
        stages = zip(self.pipeline.stages, self.places, strict=True)
        self.cores = [Core(s.iterations, ticks_of(s, self.hardware), place) for s, place in stages]
        self.into = [[c for c in self.channels if c.reader == s] for s in range(len(self.cores))]
        self.out_of = [[c for c in self.channels if c.writer == s] for s in range(len(self.cores))]
        self.arriving: dict[int, list[tuple[Packet, int]]] = {}  # by tick: a packet, and how many links are behind it
        self.finish = [0] * self.images
        self.tick = 0
        self.asking: list[tuple[Packet, int]] = []

    def run(self) -> DocumentedRun:
        while not all(self.finish):
            self.asking = []
            self._arrive()
            self._finish_iterations()
            self._send_image()
            self._start_iterations()
            self._ask()
            self._move()
            self._look_at_images()
            if not all(self.finish) and self._is_dead():
                self.stuck = True
                break
            self.tick += 1
        return self

    def _come(self, packet: Packet, links: int) -> None:
        if links == len(packet.channel.path):
            packet.channel.delivered.add((packet.image, packet.iteration))
        else:
            self.asking.append((packet, links))

    def _arrive(self) -> None:
        for packet, links in self.arriving.pop(self.tick, []):
            self._come(packet, links)

    def _finish_iterations(self) -> None:
        for s, core in enumerate(self.cores):
            if core.running is None or core.running[1] != self.tick:
                continue
            image, j = divmod(core.running[0], core.iterations)
            for channel in self.into[s]:
                channel.release(image, channel.released[j])
            core.running = None

    def _send_image(self) -> None:
        for channel in self.channels:
            if channel.writer != GMEM:
                continue
            pixels = len(channel.sends)
            while channel.gmem_at < self.images * pixels and self.tick >= channel.gmem_at * self.pace // pixels:
                image, k = divmod(channel.gmem_at, pixels)
                if channel.sends[k]:
                    if not channel.has_room():
                        break
                    channel.hold(image, k)
                    self._come(Packet(channel, image, k), 0)
                channel.gmem_at += 1

    def _start_iterations(self) -> None:
        order = sorted(
            range(len(self.cores)), key=lambda s: (len(self.cores[s].starts) // self.cores[s].iterations, -s)
        )
        for s in order:
            core = self.cores[s]
            number = len(core.starts)
            held = any(other.running is not None for other in self.cores if other.place == core.place)
            if held or number == self.images * core.iterations:
                continue
            image, j = divmod(number, core.iterations)
            sending = [c for c in self.out_of[s] if c.sends[j]]
            if not all(c.offers(image, j) for c in self.into[s]) or not all(c.has_room() for c in sending):
                continue
            core.starts.append(self.tick)
            core.running = number, self.tick + core.ticks
            for channel in sending:
                channel.hold(image, j)
                self.arriving.setdefault(-(self.tick + core.ticks - 1) - 1, []).append((Packet(channel, image, j), 0))

    def _ask(self) -> None:
        """Iterations in their last tick; then all that ask in this tick, in the order of their streams."""
        for packet, links in self.arriving.pop(-self.tick - 1, []):
            if packet.channel.path:
                self.asking.append((packet, links))
            else:
                self.arriving.setdefault(self.tick + 1, []).append((packet, 0))
        for packet, links in sorted(self.asking, key=lambda one: one[0].channel.number):
            self.wires[packet.channel.path[links]].waiting.append([packet, links, packet.channel.load])

    def _move(self) -> None:
        for wire in self.wires.values():
            width = wire.width
            while width and wire.waiting:
                first = wire.waiting[0]
                moved = min(width, first[2])
                first[2] -= moved
                width -= moved
                if first[2] == 0:
                    wire.waiting.popleft()
                    self.arriving.setdefault(self.tick + wire.hop_ticks, []).append((first[0], first[1] + 1))

    def _look_at_images(self) -> None:
        outputs = [channel for channel in self.channels if channel.reader == GMEM]
        for image in range(self.images):
            packets = sum(len(channel.sends) for channel in outputs)
            there = sum(1 for channel in outputs for m, _ in channel.delivered if m == image)
            if not self.finish[image] and there == packets:
                self.finish[image] = self.tick

    def _is_dead(self) -> bool:
        if self.arriving or any(core.running for core in self.cores) or any(w.waiting for w in self.wires.values()):
            return False
        return not any(
            c.writer == GMEM and c.gmem_at < self.images * len(c.sends) and c.has_room() for c in self.channels
        )
