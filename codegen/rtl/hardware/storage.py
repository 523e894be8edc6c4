"""Memories of variables: banks with one port to write and some to read, which the units of a program share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.memory import Memory

from kilotune.codegen.rtl.banks import bank_depth
from kilotune.codegen.rtl.hardware.arithmetic import combined


@dataclass
class _Bank:
    """One bank: what each port reads, and what asks it to: (when, address), (when, address, data)."""

    depth: int
    data: list[Signal]
    reads: list[list[tuple[Value, Value]]]
    writes: list[tuple[Value, Value, Value]] = field(default_factory=list)


@dataclass
class Storage:
    """The memory of one variable, while units are connected to it; `build` then makes it."""

    name: str
    bits: int
    banks: list[_Bank]

    @staticmethod
    def of(name: str, size: int, bits: int, banks: int, ports: int) -> Storage:
        """A memory of `size` elements."""
        made = []
        for bank in range(banks):
            data = [Signal(signed(bits), name=f"{name}_bank{bank}_read{port}") for port in range(ports)]
            made.append(_Bank(bank_depth(size, banks, bank), data, [[] for _ in range(ports)]))
        return Storage(name, bits, made)

    def read(
        self, m: Module, slot: int, active: Value, elements: Sequence[Value], visited: Sequence[frozenset[int]]
    ) -> list[Value]:
        """What lanes read that ask for these elements while `active`, a cycle later. `visited`: the banks each may ask for."""
        for lane, element in enumerate(elements):
            for bank in sorted(visited[lane]):
                when = active if len(visited[lane]) == 1 else active & (self._bank_of(element) == bank)
                self.banks[bank].reads[slot].append((when, self._address(element)))
        results = []
        for lane, element in enumerate(elements):
            banks = sorted(visited[lane])
            if len(banks) == 1:
                results.append(self.banks[banks[0]].data[slot])
                continue
            chosen = Signal(self._bank_of(element).shape(), name=f"{self.name}_lane{lane}_bank", reset_less=True)
            m.d.sync += chosen.eq(self._bank_of(element))
            unread = Const(0, signed(self.bits))
            data = [self.banks[b].data[slot] if b in visited[lane] else unread for b in range(len(self.banks))]
            results.append(Value.cast(Array(data)[chosen]))
        return results

    def write(
        self, when: Value, elements: Sequence[Value], data: Sequence[Value], visited: Sequence[frozenset[int]]
    ) -> None:
        """Lanes write these elements in a cycle `when` that is so."""
        for element, value, banks in zip(elements, data, visited, strict=True):
            for bank in banks:
                here = when if len(banks) == 1 else when & (self._bank_of(element) == bank)
                self.banks[bank].writes.append((here, self._address(element), value))

    def build(self, m: Module) -> None:
        """Make the banks; a bank of one element is a register."""
        for number, bank in enumerate(self.banks):
            if not bank.depth or not bank.writes:
                continue
            enable = Cat(when for when, _, _ in bank.writes).any()
            address = _chosen([(when, address) for when, address, _ in bank.writes])
            data = _chosen([(when, value) for when, _, value in bank.writes])
            if bank.depth == 1:
                held = Signal(signed(self.bits), name=f"{self.name}_bank{number}", reset_less=True)
                with m.If(enable):
                    m.d.sync += held.eq(data)
                m.d.comb += [port.eq(held) for port in bank.data]
                continue
            # A copy for each port that reads, as the board's memories need: Yosys takes hours over one memory of sixteen ports.
            for slot, asked in enumerate(bank.reads):
                if asked:
                    memory = Memory(shape=signed(self.bits), depth=bank.depth, init=[])
                    m.submodules[f"{self.name}_bank{number}_copy{slot}"] = memory
                    port, reader = memory.write_port(), memory.read_port()
                    m.d.comb += [port.en.eq(enable), port.addr.eq(address), port.data.eq(data)]
                    m.d.comb += [reader.addr.eq(_chosen(asked)), bank.data[slot].eq(reader.data)]

    def _bank_of(self, element: Value) -> Value:
        return element[: (len(self.banks) - 1).bit_length()]

    def _address(self, element: Value) -> Value:
        return element[(len(self.banks) - 1).bit_length() :]


def _chosen(asked: Sequence[tuple[Value, Value]]) -> Value:
    """The value of the one that is asked for; of several at the same time all are equal."""
    if len(asked) == 1:
        return asked[0][1]
    # as bits: a negative number must not be widened before others are laid over it
    bits = [Mux(when, value.as_unsigned() if value.shape().signed else value, 0) for when, value in asked]
    return combined(bits, lambda x, y: x | y)
