"""Sums of products of one operand, or of two, with rows of another, as C for processors that multiply vectors of 16 bytes.

The instructions are those of Arm's M-profile vector extension (Helium; Cortex-M55 and its successors), by the intrinsics of `arm_mve.h`:
VMLADAVA multiplies all lanes of two vectors and adds the products to a register, modulo 2**32 as the plain C beside them. Where both
factors have 8 bits, a vector holds 16 of them; otherwise 8, bytes among them widened as they are loaded. What is left of a row is one
more step, of which the lanes beyond the end are neither read nor counted.
"""

from __future__ import annotations

from kilotune.codegen.emit.row_results import ResultKinds

MACRO = """\
/* whether the processor multiplies vectors of integers; KT_NO_VECTORS keeps a build from it */
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && !defined(__ARM_BIG_ENDIAN) && !defined(KT_NO_VECTORS)
#include <arm_mve.h>
#define KT_VECTORS 1
#endif"""


def lanes(wide: int, bits: int) -> int:
    """How many products of factors of these widths an instruction adds."""
    return 16 if wide == bits == 8 else 8


def vector_block(
    rows: int, weights: tuple[int, str], operand: tuple[int, str], results: tuple[ResultKinds, list[str]]
) -> str:
    """The loop over blocks of so many rows. `weights`, `operand`: their width and type; `results`: what becomes of sums, and the pointers
    to what is made of each operand's."""
    (wide, kind), (bits, other), (kinds, targets) = weights, operand, results
    count, places = lanes(wide, bits), range(len(targets))
    sums = [[f"s{len(targets) * row + place}" for place in places] for row in range(rows)]
    starts = ", ".join(f"*w{row} = w{f' + {row} * n' if row > 1 else ' + n' if row else ''}" for row in range(rows))
    operands = ", ".join(f"*p{place} = x{' + n' if place else ''}" for place in places)
    lines = [f"for (; rows >= {rows}; rows -= {rows}) {{" if rows > 1 else "for (; rows != 0; rows--) {"]
    lines += [f"    const {kind} {starts};", f"    const {other} {operands};"]
    lines += [f"    uint32_t {', '.join(f'{s} = 0' for row in sums for s in row)};"]
    lines += [f"    for (uint_fast16_t k = n / {count}; k != 0; k--) {{"]
    pointers = [f"w{row}" for row in range(rows)], [f"p{place}" for place in places]
    lines += [f"        {line}" for line in _step(sums, pointers, (wide, bits), "")]
    moved = ", ".join(f"{pointer} += {count}" for some in pointers for pointer in some)
    lines += [f"        {moved};", "    }", f"    if (n % {count} != 0) {{"]
    lines += [f"        const mve_pred16_t some = vctp{128 // count}q(n % {count});"]
    lines += [f"        {line}" for line in _step(sums, pointers, (wide, bits), "_z")]
    lines += ["    }"]
    lines += [f"    {line}" for line in kinds.written([list(zip(row, targets, strict=True)) for row in sums])]
    return "\n".join([*lines, f"    w += {f'{rows} * ' if rows > 1 else ''}n;", "}"])


def _step(sums: list[list[str]], pointers: tuple[list[str], list[str]], kinds: tuple[int, int], some: str) -> list[str]:
    """C that adds a vector of products to each sum; `some`: of the lanes that a predicate names. Loads and products take turns, since the
    processor has different pipelines for them, and each works on half a vector a cycle."""
    (weights, operands), lane = pointers, 8 if kinds == (8, 8) else 16
    vector = f"int{lane}x{128 // lane}_t"

    def load(pointer: str, width: int) -> str:
        return f"vldr{'b' if width == 8 else 'h'}q{some}_s{lane}((const int{width}_t *){pointer}{', some' if some else ''})"

    lines = [f"const {vector} v{at} = {load(pointer, kinds[1])};" for at, pointer in enumerate(operands)]
    for row, pointer in zip(sums, weights, strict=True):
        name = f"u{pointer[1:]}"
        lines.append(f"const {vector} {name} = {load(pointer, kinds[0])};")
        lines += [f"{s} = (uint32_t)vmladavaq_s{lane}((int32_t){s}, {name}, v{at});" for at, s in enumerate(row)]
    return lines
