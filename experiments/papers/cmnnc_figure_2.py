"""cmnnc Sections 3.1 to 3.3: a network's partitions, their cores by an SMT solver, and the state machine of every core.

    python -m kilotune.experiments.papers.cmnnc_figure_2 [figure-2] [strided] [residual] [--topology mesh-diagonal-8x8]

`figure-2` is the paper's example: two convolutions and an addition, which Section 3.1 puts into the second partition, and which reads
the first one's array together with the second convolution (one array, Section 3.3). `strided` and `residual` are what the paper's
prototype cannot do: a convolution with a stride and padding, and two residual blocks, each of whose additions reads a layer
two before its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.hardware import Hardware, load_hardware
from kilotune.codegen.cm.lcu import StateMachine, loop_nest, state_machine
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.routing import route_tables
from kilotune.codegen.cm.streams import streams_of
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.spaces.cm.embedding import Embedding, solve_without_quantifiers

IMAGE_SIDE, CHANNELS = 8, 4
SECONDS = 60.0


@dataclass(frozen=True)
class CompiledCore:
    """A partition: the nodes that it has, its core, its loops, and by writer (None: GMEM) a state machine."""

    name: str
    nodes: tuple[str, ...]
    core: int
    loops: str
    machines: dict[str | None, StateMachine]


def figure_2(net: Topology) -> str:
    """Two convolutions and an addition."""
    first = net.conv(IMAGE, "CONV1", CHANNELS, 3)
    second = net.conv(first, "CONV2", CHANNELS, 3)
    return net.node("Add", [second, first], "ADD")


def strided(net: Topology) -> str:
    """Every other pixel of every other row, behind padding."""
    return net.conv(net.conv(IMAGE, "CONV1", CHANNELS, 3), "CONV2", CHANNELS, 3, stride=2)


def residual(net: Topology) -> str:
    """Residual over residual."""
    x = net.conv(IMAGE, "CONV0", CHANNELS, 3)
    for block in "12":
        y = net.node("Relu", [net.conv(x, f"CONV{block}a", CHANNELS, 3)], f"RELU{block}")
        x = net.node("Add", [net.conv(y, f"CONV{block}b", CHANNELS, 3), x], f"ADD{block}")
    return x


CASES: MappingProxyType[str, Callable[[Topology], str]] = MappingProxyType(
    {"figure-2": figure_2, "strided": strided, "residual": residual}
)


def graph_of(case: str) -> Graph:
    """A case's network on a small image, without weights."""
    net = Topology(case, (CHANNELS, IMAGE_SIDE, IMAGE_SIDE))
    return integer_shape(net.graph(CASES[case](net)))


def compiled(graph: Graph, hardware: Hardware) -> list[CompiledCore]:
    """Partitioned, mapped and lowered. ValueError when connected partitions fit no linked cores."""
    network = partition(graph)
    lowered = lower(network, Crossbar())
    cores = linked_cores(lowered.pipeline, hardware)
    found = []
    for number, (stage, program) in enumerate(zip(lowered.pipeline.stages, lowered.programs, strict=True)):
        head = () if program.partition.head is None else (program.partition.head,)
        machines: dict[str | None, StateMachine] = {}
        for edge, reading in zip(lowered.pipeline.edges, lowered.readings, strict=True):
            if edge.reader == number:
                writer = None if edge.writer == GMEM else lowered.pipeline.stages[edge.writer].name
                machines[writer] = state_machine(reading)
        nodes = tuple(node.output for node in (*head, *program.partition.nodes))
        found.append(CompiledCore(stage.name, nodes, cores[number], loop_nest(program.rectangle)[0], machines))
    return found


def linked_cores(pipeline: Pipeline, hardware: Hardware) -> tuple[int, ...]:
    """A core for every partition, connected ones on linked cores, by Z3. ValueError when it finds none."""
    ends = {(s.writer, s.reader) for s in streams_of(pipeline) if GMEM not in (s.writer, s.reader)}
    near = route_tables(hardware).distance[: hardware.cores, : hardware.cores] == 1
    problem = Embedding(len(pipeline.stages), tuple(sorted(ends)), near)
    answer = solve_without_quantifiers(problem, SECONDS)
    if answer.cores is None:
        raise ValueError(f"Z3 finds no linked cores of {hardware.name} for {pipeline.name}.")
    return answer.cores


def described(cores: Sequence[CompiledCore]) -> str:
    """What `main` prints of a network."""
    lines = []
    for core in cores:
        lines += [f"# partition {core.name}: {', '.join(core.nodes)}; on core {core.core}", "", core.loops]
        for writer, machine in core.machines.items():
            lines += [f"# what {writer or 'GMEM'} writes and {core.name} reads", machine.source]
    return "\n".join(lines)


def main() -> None:
    """Print the cases that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--topology", default="mesh-diagonal-8x8", help="a shipped accelerator, or a hardware file")
    chosen = parser.parse_args()
    hardware = load_hardware(chosen.topology)
    for case in chosen.cases or CASES:
        if case not in CASES:
            parser.error(f"expected a case of {', '.join(CASES)}, found {case}")
        print(f"## {case}\n\n{described(compiled(graph_of(case), hardware))}")


if __name__ == "__main__":
    main()
