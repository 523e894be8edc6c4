"""A SCAMP-5 program as a graph of values: a node for the image and for every instruction, an edge for every operand; and
the lives of values in registers (AUKE Sections 2.3 and 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_operation


@dataclass(frozen=True)
class ValueNode:
    """What one instruction computes; number 0 is the image, which no instruction (`op` is empty) does.

    line: as the program's text has it. directions: where the shifted operands are read. value: in units of the graph's
    `2**-depth`. results: the kernels, from 1, whose result it is.
    """

    number: int
    line: str
    op: str
    directions: tuple[str, ...]
    register: str
    value: Sum
    results: tuple[int, ...] = ()


@dataclass(frozen=True)
class ValueEdge:
    """An edge: `target` reads the value of `source`, times the sign, from a neighbour if it is shifted. factor: what the
    register held of the value: 1, or what a division leaves in those that it destroys."""

    source: int
    target: int
    sign: int
    shifted: bool
    factor: int = 1


@dataclass(frozen=True)
class Life:
    """A register holds a value from the instruction `first` (0: from the start) to its last reader `last`; the program's
    end is one more than its last instruction. A value that nobody reads ends where it begins."""

    register: str
    node: int
    first: int
    last: int


@dataclass(frozen=True)
class ValueGraph:
    """operands: in program order. lost: registers that an instruction destroys, with its number."""

    depth: int
    nodes: tuple[ValueNode, ...]
    operands: tuple[ValueEdge, ...]
    lives: tuple[Life, ...]
    lost: tuple[tuple[str, int], ...]

    @property
    def most_alive(self) -> int:
        """Registers that hold a value which is still needed, at the worst time: just before an instruction, its operands
        included, or just behind it."""
        times = range(len(self.nodes) + 1)
        return max(sum(life.first < time <= life.last for life in self.lives) for time in times)


def value_graph(program: ScampProgram) -> ValueGraph:
    """Execute a proved program on sums, and keep who reads what. KeyError when a register is read that holds nothing."""
    depth = sum(program.instruction(operation).halvings for operation in program.operations)
    nodes = [ValueNode(0, "the image", "", (), "A", Sum.image(depth))]
    operands: list[ValueEdge] = []
    held = {"A": (0, 1)}  # by register: the node, and the multiple of its value
    read: dict[tuple[str, int], int] = {}  # the last reader of a register's value
    lost = []
    results = dict[int, list[int]]()
    _read_results(program, held, read, results, 0)
    for number, operation in enumerate(program.operations, start=1):
        row = program.instruction(operation)
        sources = [held[name] for name in operation.sources]
        for (source, factor), name, sign, shifted in zip(
            sources, operation.sources, row.signs, row.shifted, strict=True
        ):
            operands.append(ValueEdge(source, number, sign, shifted, factor))
            read[name, source] = number
        value = row.apply([nodes[source].value.scaled(factor) for source, factor in sources], operation.directions)
        directions = (*row.fixed, *operation.directions)
        register, line = operation.destinations[0], format_operation(row, operation)
        nodes.append(ValueNode(number, line, operation.op, directions, register, value))
        held[register] = (number, 1)
        for name, factor in zip(operation.destinations[1:], row.left, strict=True):
            held[name] = (number, factor)
            lost.append((name, number))
        _read_results(program, held, read, results, number)
    nodes = [_with_results(node, tuple(results.get(node.number, ()))) for node in nodes]
    lives = [Life(node.register, node.number, node.number, node.number) for node in nodes]
    lives = [
        Life(life.register, life.node, life.first, read.get((life.register, life.node), life.first)) for life in lives
    ]
    return ValueGraph(depth, tuple(nodes), tuple(operands), tuple(lives), tuple(lost))


def _read_results(
    program: ScampProgram,
    held: dict[str, tuple[int, int]],
    read: dict[tuple[str, int], int],
    results: dict[int, list[int]],
    number: int,
) -> None:
    """The results that are read after so many instructions; one that is kept to the end is read behind the last."""
    for kernel, (name, when) in enumerate(zip(program.results, program.reading_times, strict=True), start=1):
        if when == number:
            results.setdefault(held[name][0], []).append(kernel)
            read[name, held[name][0]] = when + (not program.read_after)


def _with_results(node: ValueNode, results: tuple[int, ...]) -> ValueNode:
    return ValueNode(node.number, node.line, node.op, node.directions, node.register, node.value, results)
