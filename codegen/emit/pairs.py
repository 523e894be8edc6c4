"""Sums of products of one operand with many rows of another, as C for processors that multiply pairs of 16 bits.

The instructions are those of ARMv7E-M (Cortex-M4 and its successors): SMLAD multiplies two pairs and adds both products, SXTB16
makes pairs of every second byte of a word, PKHBT and PKHTB put halves of two words together. All sums are modulo 2**32, as the plain
C beside them. Words are read wherever elements lie; one that is not aligned takes the processor a cycle more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from textwrap import indent

from kilotune.codegen.emit.row_results import ResultKinds

MACRO = """\
/* whether the processor has instructions on pairs of 16 bits; without optimisation too few registers are free for these loops */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) \\
    && !defined(__ARM_BIG_ENDIAN)
#define KT_PAIRS 1
#endif"""

TERMS = 4
"""Terms of a sum that are read together."""

BLOCKS = (4, 2, 1)
"""Rows that are read together."""


@dataclass(frozen=True)
class Blocks:
    """What calls have to be ready for: blocks of so many rows, from the largest, and whether sums have terms beside whole words."""

    rows: tuple[int, ...]
    tail: bool


def blocks_for(most: int, calls: Collection[tuple[int, int]]) -> Blocks:
    """The blocks of at most so many rows for calls of (terms, rows)."""
    rows = [size for size in BLOCKS if size <= most and any(left % (2 * size) >= size for _, left in calls)]
    return Blocks(tuple(sorted({most, *rows}, reverse=True)), any(terms % TERMS for terms, _ in calls))


def row_sums(
    name: str, weights: tuple[int, str, str], operand: tuple[int, str], blocks: Blocks, results: ResultKinds
) -> str:
    """The definition of the function that sums the products of an operand with many rows.

    `weights`: their width, type and the expression that reads the next one of a pointer `w`; `operand`: its width and type.
    """
    (wide, kind, following), (bits, other) = weights, operand
    takes = [f"{results.pointed} *to, const {kind} *w, const {other} *x, uint_fast16_t n, uint_fast16_t rows"]
    loops = "\n".join(_block(count, (wide, bits, other), blocks.tail, results) for count in blocks.rows)
    fast, start = indent(loops, "    "), "".join(f"    {line}\n" for line in results.start)
    written = indent("\n".join(results.written("sum")), "        ")
    return f"""\
/* to[i] is made of w[i * n] * x[0] + ... + w[i * n + n - 1] * x[n - 1] modulo 2**32 for i < rows; n, rows > 0 */
KT_NOINLINE void {name}({", ".join([*takes, *results.parameters])})
{{
{start}#if defined(KT_PAIRS)
{fast}
#else
    do {{
        const {other} *p = x;
        uint_fast16_t k = n;
        uint32_t sum = 0;
        do {{
            const {kind} v = {following};
            sum += (uint32_t)((int32_t)v * *p++);
        }} while (--k != 0);
{written}
    }} while (--rows != 0);
#endif
}}"""


def _block(rows: int, kinds: tuple[int, int, str], tail: bool, results: ResultKinds) -> str:
    """The loop over blocks of so many rows; `kinds`: width of the weights, width and type of the operand."""
    wide, bits, other = kinds
    sums = [f"s{i}" for i in range(rows)]
    places = ["*w", "w[n]", "w[2 * n]", "w[3 * n]"][:rows]
    lines = [f"for (; rows >= {rows}; rows -= {rows}) {{" if rows > 1 else "for (; rows != 0; rows--) {"]
    lines += [f"    const {other} *p = x;", "    uint32_t " + ", ".join(f"{s} = 0" for s in sums) + ";"]
    lines += [f"    uint_fast16_t k = n / {TERMS};", "    if (k != 0) {" if tail else "    {"]
    lines += [f"        {line}" for line in _loop(rows, wide, bits)] + ["    }"]
    if tail:
        lines += [f"    for (k = n & {TERMS - 1}; k != 0; k--, w++) {{", "        const int32_t v = *p++;"]
        lines += [f"        {s} += (uint32_t)({place} * v);" for s, place in zip(sums, places, strict=True)]
        lines += ["    }"]
    lines += [f"    {line}" for s in sums for line in results.written(s)]
    lines += [f"    w += {rows - 1} * n;" if rows > 2 else "    w += n;"] if rows > 1 else []
    return "\n".join([*lines, "}"])


def _loop(rows: int, wide: int, bits: int) -> list[str]:
    """C that declares what the loop of instructions needs, and the loop."""
    scale = "" if wide == 8 else "2 * "
    lines = ["uint32_t a, b, t, u, v;" if wide == 8 else "uint32_t a, b, t, u;"]
    steps = []
    if rows > 1:
        lines.append(f"const uint_fast16_t step = {scale}n" + (f", steps = {3 * wide // 8} * n;" if rows > 2 else ";"))
        steps = ['[step] "r"(step)', *(['[steps] "r"(steps)'] if rows > 2 else [])]
    lines.append('__asm__ volatile("1:\\n\\t"')
    body = [*step_instructions(rows, wide, bits), "subs %[k], %[k], #1", "bne 1b"]
    lines += [f'    "{instruction}{chr(92)}n{chr(92)}t"' for instruction in body[:-1]] + [f'    "{body[-1]}"']
    changed = ['[p] "+r"(p)', '[w] "+r"(w)', '[k] "+r"(k)', *(f'[s{i}] "+r"(s{i})' for i in range(rows))]
    changed += [f'[{name}] "=&r"({name})' for name in ("abtuv" if wide == 8 else "abtu")]
    lines += [f"    : {', '.join(changed)}", f"    : {', '.join(steps)}", '    : "cc", "memory");']
    return lines


def step_instructions(rows: int, wide: int, bits: int) -> list[str]:
    """Instructions that add the products of four terms to the sums of all rows."""
    places = {1: ["[%[w]], #4"], 2: ["[%[w], %[step]]", "[%[w]], #4"]}.get(rows) or [
        "[%[w], %[step]]",
        "[%[w], %[step], lsl #1]",
        "[%[w], %[steps]]",
        "[%[w]], #4",
    ]
    numbers = [*range(1, rows), 0]  # the pointer moves on with the first row, which is read last
    products = _products_of_bytes if wide == 8 else _products_of_pairs
    return products(bits, list(zip(numbers, places, strict=True)))


def _products_of_bytes(bits: int, rows: list[tuple[int, str]]) -> list[str]:
    """Weights of 8 bits: bytes 0 and 2 of a word, then 1 and 3. a, b: the pairs of the operand that these meet."""
    if bits == 8:
        found = ["ldr %[a], [%[p]], #4", "sxtb16 %[b], %[a], ror #8", "sxtb16 %[a], %[a]"]
    else:
        found = ["ldr %[a], [%[p]], #4", "ldr %[t], [%[p]], #4"]
        found += ["pkhtb %[b], %[t], %[a], asr #16", "pkhbt %[a], %[a], %[t], lsl #16"]
    for some in _twos(rows):  # neighbouring loads take a cycle less
        found += [f"ldr %[{register}], {place}" for register, (_, place) in zip("tu", some, strict=False)]
        for register, (number, _) in zip("tu", some, strict=False):
            found += [f"sxtb16 %[v], %[{register}]", f"smlad %[s{number}], %[v], %[a], %[s{number}]"]
            found += [f"sxtb16 %[v], %[{register}], ror #8", f"smlad %[s{number}], %[v], %[b], %[s{number}]"]
    return found


def _products_of_pairs(bits: int, rows: list[tuple[int, str]]) -> list[str]:
    """Weights of 16 bits: one word of each row, then the next one."""
    found = []
    if bits == 8:
        found += ["ldr %[t], [%[p]], #4", "sxtb16 %[a], %[t]", "sxtb16 %[t], %[t], ror #8"]
        found += ["pkhtb %[b], %[t], %[a], asr #16", "pkhbt %[a], %[a], %[t], lsl #16"]
    else:
        found += ["ldr %[a], [%[p]], #4", "ldr %[b], [%[p]], #4"]
    for pair in "ab":
        for some in _twos(rows):
            found += [f"ldr %[{register}], {place}" for register, (_, place) in zip("tu", some, strict=False)]
            for register, (number, _) in zip("tu", some, strict=False):
                found.append(f"smlad %[s{number}], %[{register}], %[{pair}], %[s{number}]")
    return found


def _twos(rows: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    return [rows[first : first + 2] for first in range(0, len(rows), 2)]
