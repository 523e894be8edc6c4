"""How Yosys maps memories and multiplications in each family of FPGAs: block memories, distributed ones, look-up tables, registers.

The thresholds are those of its pass `memory_libmap`: it takes the cheapest, where a block costs as many look-up tables as its library
says, a bit of read-only memory made of look-up tables a sixteenth, a bit made of registers one. What comes of them was compared with
what synthesis counts (`experiments/benchmarks/hardware_costs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kilotune.evaluators.fpga.parts import Parts

ROM_BITS_PER_LUT = 16
CELL_WORDS, CELL_BITS = 16, 4


@dataclass(frozen=True)
class MemoryMapping:
    """`shapes`: (words, bits) of a block memory. `block_cost` in look-up tables. `cell_cost`: of 16 words of 4 bits of distributed memory,
    None where there is none. `multiplier`: the widths of the board's multiplications, None without."""

    shapes: tuple[tuple[int, int], ...]
    block_cost: float
    cell_cost: float | None
    multiplier: tuple[int, int] | None
    least_product: int = 0


MAPPINGS: Mapping[str, MemoryMapping] = MappingProxyType(
    {
        "ecp5": MemoryMapping(((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1)), 128, 4, (18, 18)),
        "ice40": MemoryMapping(((256, 16), (512, 8), (1024, 4), (2048, 2)), 64, None, None),
        "ice40-ultraplus": MemoryMapping(((256, 16), (512, 8), (1024, 4), (2048, 2)), 64, None, (16, 16), 11),
        "xilinx": MemoryMapping(((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1)), 129, 4, (25, 18)),
    }
)


def _blocks(words: int, bits: int, mapping: MemoryMapping) -> int:
    return min(-(-words // deep) * -(-bits // wide) for deep, wide in mapping.shapes)


def rom_parts(words: int, bits: int, family: str, smooth: bool = False) -> Parts:
    """A read-only memory that answers a cycle later; `smooth`: the values of a function."""
    if words <= 1 or bits == 0:
        return Parts()
    mapping = MAPPINGS[family]
    blocks = _blocks(words, bits, mapping)
    if words * bits / ROM_BITS_PER_LUT > blocks * mapping.block_cost:
        return Parts(block_rams=blocks)
    mapped = bits * max(1.0, words / ROM_BITS_PER_LUT)
    return Parts(tables=mapped, registers=bits) if smooth else Parts(rom=mapped, registers=bits)


def ram_parts(words: int, bits: int, readers: int, family: str) -> Parts:
    """A memory with one port to write and `readers` to read, which answer a cycle later: a copy for each of them; `words` above 1."""
    mapping, blocks = MAPPINGS[family], _blocks(words, bits, MAPPINGS[family])
    deep = -(-words // CELL_WORDS)
    choosing = ((deep - 1) * bits + deep) / 3
    distributed = (
        words * bits if mapping.cell_cost is None else deep * -(-bits // CELL_BITS) * mapping.cell_cost + choosing
    )
    if distributed > blocks * mapping.block_cost:
        return Parts(block_rams=blocks, block_bits=bits) * readers
    return (distributed_parts(words, bits, family) + Parts(registers=bits)) * readers


def distributed_parts(words: int, bits: int, family: str) -> Parts:
    """A memory that answers in the same cycle: of look-up tables, or of registers where there are none for it."""
    if MAPPINGS[family].cell_cost is None:
        return Parts(register_ram=words * bits, picks=words * bits)
    cells = -(-words // CELL_WORDS)
    return Parts(lut_ram=cells * -(-bits // CELL_BITS), picks=bits * (cells - 1))


def product_parts(a_bits: int, b_bits: int, result_bits: int, soft: bool, family: str) -> Parts:
    """A signed multiplication of which the low `result_bits` are used; `soft`: of look-up tables wherever it is, a row of bits of the wider
    operand for each bit of the narrower one."""
    mapping = MAPPINGS[family]
    small = min(a_bits, b_bits) < 2 or a_bits + b_bits < mapping.least_product
    if soft or small or mapping.multiplier is None:
        wider = max(a_bits, b_bits)
        return Parts(soft_products=sum(max(0, min(wider, result_bits - row)) for row in range(min(a_bits, b_bits))))
    wide, narrow = mapping.multiplier
    if a_bits < b_bits:
        a_bits, b_bits = b_bits, a_bits
    places = (
        (a * (wide - 1), b * (narrow - 1)) for a in range(_pieces(a_bits, wide)) for b in range(_pieces(b_bits, narrow))
    )
    pieces = sum(sum(place) < result_bits for place in places)  # the others are above the result
    return Parts(multipliers=pieces, adders=(pieces - 1) * result_bits)


def _pieces(bits: int, most: int) -> int:
    return 1 if bits <= most else 1 + -(-(bits - most) // (most - 1))
