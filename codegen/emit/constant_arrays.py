"""Constant arrays in C: dense ones row by row, sparse ones in SeeDot's two lists, packed codes; and how devices read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray

FLASH_MACROS = """\
/* Where constants live and how they are read: AVR needs special instructions for its flash. */
#ifndef KT_FLASH
#if defined(__AVR__)
#include <avr/pgmspace.h>
#define KT_FLASH PROGMEM
#define KT_FLASH_BY_LPM
#define KT_LOAD8(p) ((int8_t)pgm_read_byte(p))
#define KT_LOAD16(p) ((int16_t)pgm_read_word(p))
#define KT_LOAD32(p) ((int32_t)pgm_read_dword(p))
#define KT_LOAD_FLOAT(p) pgm_read_float(p)
#define KT_LOAD_PLACE8(p) ((uint8_t)pgm_read_byte(p))
#define KT_LOAD_PLACE16(p) ((uint16_t)pgm_read_word(p))
/* the element at a pointer, which moves on */
#if defined(__AVR_HAVE_LPMX__)
#define KT_NEXT8(p) (__extension__({ int8_t r; __asm__("lpm %0, %a1+" : "=r"(r), "+z"(p)); r; }))
#define KT_NEXT16(p) (__extension__({ int16_t r; __asm__("lpm %A0, %a1+\\n\\tlpm %B0, %a1+" : "=r"(r), "+z"(p)); r; }))
#else
#define KT_NEXT8(p) ((p)++, KT_LOAD8((p) - 1))
#define KT_NEXT16(p) ((p)++, KT_LOAD16((p) - 1))
#endif
#define KT_NEXT32(p) ((p)++, KT_LOAD32((p) - 1))
#define KT_NEXT_FLOAT(p) ((p)++, KT_LOAD_FLOAT((p) - 1))
#define KT_NEXT_PLACE8(p) ((uint8_t)KT_NEXT8(p))
#define KT_NEXT_PLACE16(p) ((uint16_t)KT_NEXT16(p))
#else
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP)
#define KT_FLASH __attribute__((aligned(4))) /* read in words, of which one that is not aligned takes a cycle more */
#else
#define KT_FLASH
#endif
#define KT_LOAD_FLOAT(p) (*(p))
#define KT_LOAD8(p) (*(p))
#define KT_LOAD16(p) (*(p))
#define KT_LOAD32(p) (*(p))
#define KT_LOAD_PLACE8(p) (*(p))
#define KT_LOAD_PLACE16(p) (*(p))
#define KT_NEXT8(p) (*(p)++)
#define KT_NEXT16(p) (*(p)++)
#define KT_NEXT32(p) (*(p)++)
#define KT_NEXT_FLOAT(p) (*(p)++)
#define KT_NEXT_PLACE8(p) (*(p)++)
#define KT_NEXT_PLACE16(p) (*(p)++)
#endif
#endif
"""


NEAR_FLASH_BYTES = 63 << 10
"""Constants that an AVR is given: LPM has addresses of 16 bits, and interrupt vectors and what others keep in flash lie in the same
64 KiB."""

Quantiser = Callable[[FloatArray], IntArray]
"""How values become the integers that are stored."""


@dataclass(frozen=True)
class ConstantArray:
    """The definition of one array in flash."""

    definition: str
    size_bytes: int


@dataclass(frozen=True)
class SparseFormat:
    """How a sparse matrix is stored: values row by row, and beside them column numbers.

    `columns`: for each row, the columns (counted from 1) of its values, then 0. SeeDot (Section 5.1) keeps the same two lists
    by column; by row there are fewer zeros in the wide matrices of projections, and one sum at a time is enough.
    """

    values: tuple[float, ...]
    columns: tuple[int, ...]
    place_bits: int


def constant_array(name: str, kind: str, values: Iterable[float], bits: int) -> ConstantArray:
    """A `static const` array; C has no empty ones, so those get one element that is never read."""
    numbers = [_number(v) for v in values] or ["0"]
    lines, line = [], ""
    for number in numbers:
        if len(line) + len(number) > 110:
            lines.append(line.rstrip())
            line = ""
        line += f"{number}, "
    lines.append(line.rstrip(", "))
    body = "\n    ".join(lines)
    definition = f"static const {kind} {name}[{len(numbers)}] KT_FLASH = {{\n    {body}\n}};"
    return ConstantArray(definition, len(numbers) * bits // 8)


def near_flash_guard(size_bytes: int) -> list[str]:
    """Lines of C that refuse so many bytes of constants on an AVR, which would read others in the place of the last; none for fewer."""
    if size_bytes <= NEAR_FLASH_BYTES:
        return []
    text = f"constants of {size_bytes} bytes: expected at most {NEAR_FLASH_BYTES}, since they are read at addresses of 16 bits"
    return ["", "#if defined(__AVR__)", f'#error "{text}"', "#endif", ""]


def _number(value: float) -> str:
    if isinstance(value, float):
        return float_literal(value)
    return "INT32_MIN" if value == -(1 << 31) else str(value)


def float_literal(value: float) -> str:
    """A float constant that reads back as the same float."""
    text = f"{np.float32(value):.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def float_array(name: str, values: FloatArray) -> ConstantArray:
    """All elements in row-major order, as floats."""
    return constant_array(name, "float", values.reshape(-1).tolist(), 32)


def packed_array(name: str, packed: bytes) -> ConstantArray:
    """Codes that are packed into bytes."""
    return constant_array(name, "uint8_t", list(packed), 8)


def sparse_format(values: FloatArray, stored: Quantiser, real: bool = False) -> SparseFormat:
    """The two lists of a matrix. Values that quantise to zero keep their place: positions depend on no decision."""
    quantised = values if real else stored(values)
    kept: list[float] = []
    columns: list[int] = []
    for row in range(values.shape[0]):
        places = np.flatnonzero(values[row])
        kept += quantised[row, places].tolist()
        columns += [*(places + 1).tolist(), 0]
    return SparseFormat(tuple(kept), tuple(columns), 8 if values.shape[1] < 256 else 16)


def stored_orders(program: ir.Program, sparse: frozenset[str]) -> dict[str, tuple[int, ...]]:
    """Axes in the order in which a product reads them, for parameters that one product alone reads, whole.

    The right operand of a matrix product is walked down its columns, a filter channel by channel; stored that way, neither
    needs more than a pointer that moves on.
    """
    readers: dict[str, list[tuple[ir.Operation, ir.View]]] = {}
    for operation in ir.operations(program.body):
        for operand in operation.operands:
            if isinstance(operand, ir.View):
                readers.setdefault(operand.variable, []).append((operation, operand))
    orders: dict[str, tuple[int, ...]] = {}
    for variable in program.variables:
        uses = readers.get(variable.name, [])
        if variable.role is not ir.Role.PARAMETER or variable.name in sparse or len(uses) != 1:
            continue
        operation, view = uses[0]
        if view != ir.whole(variable) or program.result.variable == variable.name:
            continue
        if isinstance(operation, ir.MatMul) and operation.b is view and min(view.shape) > 1:
            orders[variable.name] = (1, 0)
        elif isinstance(operation, ir.Conv2D) and operation.b is view:
            orders[variable.name] = (0, 4, 1, 2, 3)
    return orders


def stored_sparse(program: ir.Program) -> set[str]:
    """Sparse parameters that are only read, whole, as the left operand of `|*|`.

    Any other use needs random access, or sums that also count the zeros (a tree's), so such a parameter is stored dense
    although it is marked sparse.
    """
    names = {v.name for v in program.variables if v.role is ir.Role.PARAMETER and v.sparse and len(v.shape) == 2}
    for operation in ir.operations(program.body):
        for operand in operation.operands:
            if not isinstance(operand, ir.View) or operand.variable not in names:
                continue
            product = isinstance(operation, ir.MatMul) and operation.sparse
            left = product and operation.operands[0] is operand is not operation.operands[1]
            if not left or operand != ir.whole(program.variable(operand.variable)):
                names.discard(operand.variable)
    return names - {program.result.variable}
