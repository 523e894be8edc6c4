"""Parameters as read-only memories: the words stand in the order in which a nest reads them, the elements of all lanes in one word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Module, Value, unsigned
from amaranth.lib.memory import Memory

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.rtl.hardware.arithmetic import constant, signed_bits
from kilotune.codegen.rtl.nests import Reach, StepNest


@dataclass(frozen=True)
class Rom:
    """`values` [words, lanes], or one lane where all read the same; the word of a step is `offset + sum(counter * strides)`."""

    values: IntArray
    offset: ir.Affine
    strides: tuple[int, ...]

    @property
    def element_bits(self) -> int:
        """Bits of an element."""
        return signed_bits(int(self.values.min()), int(self.values.max()))


def make_rom(reach: Reach, nest: StepNest, loops: Mapping[str, tuple[int, int]], values: IntArray) -> Rom:
    """What a nest reads of a parameter's `values` (flat); counters that it stands still in do not repeat words."""
    loop_terms = [(index, factor, *loops[index]) for index, factor in reach.offset.terms]
    moving = [d for d, (e, s) in enumerate(zip(nest.extents, reach.strides, strict=True)) if e > 1 and s]
    elements = np.array([reach.offset.constant], dtype=np.int64)
    for _, factor, first, count in loop_terms:
        elements = (elements[:, None] + factor * np.arange(first, first + count)).reshape(-1)
    for d in moving:
        elements = (elements[:, None] + reach.strides[d] * np.arange(nest.extents[d])).reshape(-1)
    lanes = nest.lanes if reach.lane_stride else 1
    places, place = {}, 1
    for d in reversed(moving):
        places[d] = place
        place *= nest.extents[d]
    offset = ir.Affine()
    for index, _, first, count in reversed(loop_terms):
        if count > 1:
            offset += ir.Affine(-first * place, ((index, place),))
        place *= count
    # places in the padding of an image are beyond the ends; what is read there is not used
    words = values[np.clip(elements[:, None] + reach.lane_stride * np.arange(lanes), 0, len(values) - 1)]
    return Rom(words, offset, tuple(places.get(d, 0) for d in range(len(nest.extents))))


def read_rom(m: Module, rom: Rom, address: Value, lanes: int, name: str) -> list[Value]:
    """The elements of each lane, a cycle after the address."""
    width, (words, stored) = rom.element_bits, rom.values.shape
    if words == 1:
        data = [constant(int(value)) for value in rom.values[0]]
    else:
        packed = pack(rom.values, width)
        memory = Memory(shape=unsigned(width * stored), depth=words, init=packed)
        m.submodules[name] = memory
        port = memory.read_port()
        m.d.comb += port.addr.eq(address)
        data = [port.data[lane * width : (lane + 1) * width].as_signed() for lane in range(stored)]
    return data if stored > 1 else data * lanes


def pack(values: IntArray, width: int) -> list[int]:
    """Each row of `values` as one unsigned integer, the first element lowest."""
    mask = (1 << width) - 1
    return [sum((int(v) & mask) << (width * lane) for lane, v in enumerate(row)) for row in values]


def read_table(m: Module, entries: Sequence[int], index: Value, name: str) -> Value:
    """The entry of a table, a cycle after its index."""
    values = np.array(entries, dtype=np.int64)[:, None]
    rom = Rom(values, ir.Affine(), ())
    return read_rom(m, rom, index, 1, name)[0]
