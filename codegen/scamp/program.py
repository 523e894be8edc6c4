"""Programs on registers: what the chip runs."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.codegen.scamp.instructions import CLOCK_HZ, POWER_W, Instruction, instruction_set


@dataclass(frozen=True)
class Operation:
    """One instruction on registers. The first destination takes the result; see `Instruction.left` for the others."""

    op: str
    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    directions: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScampProgram:
    """The image is in A; `results` are the registers of the kernels' results, in order.

    They hold them at the end, or, with `read_after`, each right after so many instructions: then it is read, and its register
    may be written again.
    """

    target: str
    operations: tuple[Operation, ...]
    results: tuple[str, ...]
    read_after: tuple[int, ...] = ()

    @property
    def reading_times(self) -> tuple[int, ...]:
        """By result: after how many instructions it is read."""
        return self.read_after or (len(self.operations),) * len(self.results)

    def instruction(self, operation: Operation) -> Instruction:
        """The row of the target's instruction set. Raises `KeyError` for an instruction that the target lacks."""
        row = instruction_set(self.target).find(operation.op, len(operation.sources), len(operation.destinations))
        if row is None:
            raise KeyError(f"{self.target} has no instruction {operation.op} with these operands and destinations")
        return row

    @property
    def instructions(self) -> int:
        return len(self.operations)

    @property
    def bus_transfers(self) -> int:
        return sum(self.instruction(operation).bus_transfers for operation in self.operations)

    @property
    def registers(self) -> tuple[str, ...]:
        """All registers that the program touches, sorted; the image's is one of them."""
        named = {"A", *self.results}
        for operation in self.operations:
            named.update(operation.destinations, operation.sources)
        return tuple(sorted(named))

    @property
    def seconds(self) -> float:
        """Time a frame: one bus transfer a clock cycle."""
        return self.bus_transfers / CLOCK_HZ

    @property
    def energy_joules(self) -> float:
        """Energy a frame: the whole array at full load for that time."""
        return self.seconds * POWER_W


def violation(program: ScampProgram, operation: Operation) -> str | None:
    """The constraint of the instruction that an operation breaks, in words; None when it keeps all."""
    row = program.instruction(operation)
    destination = operation.destinations[0]
    if len(set(operation.destinations)) < len(operation.destinations):
        return f"{operation.op} needs different destinations"
    for index in row.apart:
        if operation.sources[index] == destination:
            return f"{operation.op} cannot read {destination} and write it"
    if row.distinct and len(set(operation.sources)) < len(operation.sources):
        return f"{operation.op} needs operands in different registers"
    # The last lost register of a division may be the operand's own: it is where the macro keeps the operand.
    lost = operation.destinations[1:]
    if lost and any(source in (destination, *lost[:-1]) for source in operation.sources):
        return f"{operation.op} overwrites its operand before it is read"
    return None
