"""Sums of products of one operand with many rows of another, as C for processors that multiply pairs of 16 bits.

The instructions are those of ARMv7E-M (Cortex-M4 and its successors): SMLAD multiplies two pairs and adds both products, SXTB16
makes pairs of every second byte of a word, PKHBT and PKHTB put halves of two words together. All sums are modulo 2**32, as the plain
C beside them. Words are read wherever elements lie; one that is not aligned takes the processor a cycle more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from textwrap import indent
from types import MappingProxyType

from kilotune.codegen.emit.row_results import ResultKinds
from kilotune.codegen.emit.two_operands import two_operand_instructions
from kilotune.codegen.emit.vectors import vector_block

MACRO = """\
/* whether the processor has instructions on pairs of 16 bits; without optimisation too few registers are free for these loops, and
   none may be kept back: a build that keeps a frame pointer or another one defines KT_NO_PAIRS */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) \\
    && !defined(__ARM_BIG_ENDIAN) && !defined(KT_NO_PAIRS)
#define KT_PAIRS 1
#endif"""

TERMS = 4
"""Terms of a sum that are read together."""

BLOCKS = (4, 2, 1)
"""Rows that are read together."""

MOST_ROWS: Mapping[int, int] = MappingProxyType({1: BLOCKS[0], 2: 2})
"""By how many operands meet them: more need more registers than a Cortex-M4 has."""

STEPS: Mapping[int, int] = MappingProxyType({1: 1, 2: 2})
"""Steps of so many terms that stand in a round of the loop, by the same."""

TARGETS = ("to", "on")
"""The pointers to results, one for each operand."""


@dataclass(frozen=True)
class Blocks:
    """What calls have to be ready for: blocks of so many rows, from the largest, and whether sums have terms beside whole words. `places`:
    how many operands meet a block. `interleaved`: of each four weights of a row the two in the middle have changed places, so that bytes
    0 and 2 of a word meet neighbours. `vectors`: by instructions on vectors (`emit.vectors`) instead of pairs."""

    rows: tuple[int, ...]
    tail: bool
    places: int = 1
    interleaved: bool = False
    vectors: bool = False


def blocks_for(
    most: int,
    calls: Collection[tuple[int, int]],
    places: int = 1,
    *,
    interleaved: bool = False,
    vectors: bool = False,
) -> Blocks:
    """The blocks of at most so many rows for calls of (terms, rows)."""
    most = min(most, MOST_ROWS[places])
    rows = [size for size in BLOCKS if size <= most and any(left % (2 * size) >= size for _, left in calls)]
    return Blocks(
        tuple(sorted({most, *rows}, reverse=True)),
        any(count % TERMS for count, _ in calls),
        places,
        interleaved,
        vectors,
    )


def row_sums(
    name: str, weights: tuple[int, str, str], operand: tuple[int, str, str], blocks: Blocks, results: ResultKinds
) -> str:
    """The definition of the function that sums the products of an operand, or of two, with many rows.

    `weights`: their width, type and the expression that reads the next one of a pointer `w`; `operand`: its width and type, and what
    loads it from a pointer: a macro where it is in flash, which an AVR reads by other instructions, "*" else.
    """
    (wide, kind, following), (bits, other, load), targets = weights, operand, TARGETS[: blocks.places]
    takes = [", ".join(f"{results.pointed} *{to}" for to in targets)]
    takes += [f"const {kind} *w, const {other} *x, uint_fast16_t n, uint_fast16_t rows"]
    loops = "\n".join(
        vector_block(count, (wide, kind), (bits, other), (results, list(targets)))
        if blocks.vectors
        else _block(count, (wide, bits, other), blocks, results)
        for count in blocks.rows
    )
    fast, start = indent(loops, "    "), "".join(f"    {line}\n" for line in results.start)
    at = [f"{load}({place})" for place in (("p + i", "p + n + i") if blocks.interleaved else ("p", "p + n"))]
    plain = [(f"sum{place or ''}", to, at[place]) for place, to in enumerate(targets)]
    sums = [
        f"uint32_t {', '.join(f'{total} = 0' for total, _, _ in plain)};",
        "do {",
        f"    const {kind} v = {following};",
        *([f"    const uint_fast16_t i = {_PLACE};"] if blocks.interleaved else []),
    ]
    sums += [f"    {total} += (uint32_t)((int32_t)v * {read});" for total, _, read in plain]
    sums += ["} while (--k != 0);"] if blocks.interleaved else ["    p++;", "} while (--k != 0);"]
    sums += results.written([[(total, to) for total, to, _ in plain]])
    body = indent("\n".join(sums), "        ")
    second = "" if blocks.places == 1 else ", and on[i] of what follows x[n - 1]"
    return f"""\
/* to[i] is made of w[i * n] * x[0] + ... + w[i * n + n - 1] * x[n - 1] modulo 2**32 for i < rows{second}; n, rows > 0 */
KT_NOINLINE void {name}({", ".join([*takes, *results.parameters])})
{{
{start}#if defined({"KT_VECTORS" if blocks.vectors else "KT_PAIRS"})
{fast}
#else
    do {{
        const {other} *p = x;
        uint_fast16_t k = n;
{body}
    }} while (--rows != 0);
#endif
}}"""


def _block(rows: int, kinds: tuple[int, int, str], blocks: Blocks, results: ResultKinds) -> str:
    """The loop over blocks of so many rows; `kinds`: width of the weights, width and type of the operand."""
    (wide, bits, other), targets = kinds, TARGETS[: blocks.places]
    sums = [[f"s{blocks.places * row + place}" for place in range(blocks.places)] for row in range(rows)]
    places = ["*w", "w[n]", "w[2 * n]", "w[3 * n]"][:rows]
    lines = [f"for (; rows >= {rows}; rows -= {rows}) {{" if rows > 1 else "for (; rows != 0; rows--) {"]
    lines += [f"    const {other} *p = x;", f"    uint32_t {', '.join(f'{s} = 0' for row in sums for s in row)};"]
    lines += [f"    uint_fast16_t k = n / {TERMS};", "    if (k != 0) {" if blocks.tail else "    {"]
    lines += [f"        {line}" for line in _loop(rows, wide, bits, blocks)] + ["    }"]
    if blocks.tail:
        values = ["v", "v1"][: blocks.places]
        given = ", ".join(f"{v} = {read}" for v, read in zip(values, ("*p", "p[n]"), strict=False))
        lines += [f"    for (k = n & {TERMS - 1}; k != 0; k--, w++, p++) {{", f"        const int32_t {given};"]
        lines += [
            f"        {s} += (uint32_t)({place} * {v});"
            for row, place in zip(sums, places, strict=True)
            for s, v in zip(row, values, strict=True)
        ]
        lines += ["    }"]
    lines += [f"    {line}" for line in results.written([list(zip(row, targets, strict=True)) for row in sums])]
    lines += [f"    w += {rows - 1} * n;" if rows > 2 else "    w += n;"] if rows > 1 else []
    return "\n".join([*lines, "}"])


def _loop(rows: int, wide: int, bits: int, blocks: Blocks) -> list[str]:
    """C that declares what the loop of instructions needs, and the loop."""
    steps = step_instructions(rows, wide, bits, blocks.places, interleaved=blocks.interleaved)
    free = [name for name in "abcdtuv" if any(f"%[{name}]" in line for line in steps)]
    lines, constants = [f"uint32_t {', '.join(free)};"], []
    if any("%[step]" in line for line in steps):
        scale = "2 * " if wide == 16 and (blocks.places == 1 or bits == 16) else ""
        more = f", steps = {3 * wide // 8} * n;" if rows > 2 else ";"
        lines.append(f"const uint_fast16_t step = {scale}n{more}")
        constants = ['[step] "r"(step)', *(['[steps] "r"(steps)'] if rows > 2 else [])]
    lines.append("__asm__ volatile(")
    body = ["1:", *steps, "subs %[k], %[k], #1", "bne 1b"]
    if STEPS[blocks.places] == 2:  # of an odd number of steps the first is the second one of a round
        enters = ["lsrs %[k], %[k], #1", "bcc 1f", "add %[k], %[k], #1", "b 2f"]
        body = [*enters, "1:", *steps, "2:", *steps, "subs %[k], %[k], #1", "bne 1b"]
    lines += [f'    "{instruction}{chr(92)}n{chr(92)}t"' for instruction in body[:-1]] + [f'    "{body[-1]}"']
    changed = [
        '[p] "+r"(p)',
        '[w] "+r"(w)',
        '[k] "+r"(k)',
        *(f'[s{i}] "+r"(s{i})' for i in range(rows * blocks.places)),
    ]
    changed += [f'[{name}] "=&r"({name})' for name in free]
    lines += [f"    : {', '.join(changed)}", f"    : {', '.join(constants)}", '    : "cc", "memory");']
    return lines


_PLACE = "((n - k) | 3) < n ? ((n - k) & ~(uint_fast16_t)3) + ((n - k) & 1) * 2 + ((n - k) >> 1 & 1) : n - k"
"""C of the place of a term whose weight is the one of number n - k of an interleaved row."""


def interleaves(wide: int, bits: int) -> bool:
    """Whether weights of one width are read faster interleaved where they meet operands of another."""
    return wide == 8 and bits == 16


def step_instructions(rows: int, wide: int, bits: int, places: int = 1, *, interleaved: bool = False) -> list[str]:
    """Instructions that add the products of four terms to the sums of all rows, with one operand or two."""
    assert interleaves(wide, bits) or not interleaved
    if places > 1:
        return two_operand_instructions(rows, wide, bits, interleaved=interleaved)
    at = {1: ["[%[w]], #4"], 2: ["[%[w], %[step]]", "[%[w]], #4"]}.get(rows) or [
        "[%[w], %[step]]",
        "[%[w], %[step], lsl #1]",
        "[%[w], %[steps]]",
        "[%[w]], #4",
    ]
    numbers = [*range(1, rows), 0]  # the pointer moves on with the first row, which is read last
    some = list(zip(numbers, at, strict=True))
    return _products_of_pairs(bits, some) if wide == 16 else _products_of_bytes(bits, some, interleaved)


def _products_of_bytes(bits: int, rows: list[tuple[int, str]], interleaved: bool) -> list[str]:
    """Weights of 8 bits: bytes 0 and 2 of a word, then 1 and 3. a, b: the pairs of the operand that these meet."""
    if bits == 8:
        found = ["ldr %[a], [%[p]], #4", "sxtb16 %[b], %[a], ror #8", "sxtb16 %[a], %[a]"]
    elif interleaved:
        found = ["ldr %[a], [%[p]], #4", "ldr %[b], [%[p]], #4"]
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
