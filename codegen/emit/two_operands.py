"""Instructions on pairs of 16 bits that multiply one or two rows of weights with two operands, one behind the other, at a time.

A weight that is read and made a pair of meets both, so a product takes fewer instructions than with one operand (`emit.pairs`, whose
registers these are): the blocks of two rows by two columns of CMSIS-NN's products of matrices (Lai, Suda, Chandra, "CMSIS-NN: Efficient
Neural Network Kernels for Arm Cortex-M CPUs", 2018, section 3.3). Sum 2 r + j is that of row r with operand j. The second operand begins
as many elements behind the first as a row has, so one register leads from both to their neighbours.
"""

from __future__ import annotations


def two_operand_instructions(rows: int, wide: int, bits: int, *, interleaved: bool) -> list[str]:
    """Instructions that add the products of four terms to all sums: weights of width `wide`, operands of width `bits`."""
    return _products_of_pairs(rows, bits) if wide == 16 else _products_of_bytes(rows, bits, interleaved)


def _products_of_bytes(rows: int, bits: int, interleaved: bool) -> list[str]:
    """Weights of 8 bits: bytes 0 and 2 of a word, then 1 and 3. These meet a and b of the second operand, c and d of the first."""
    if bits == 8:
        found = [_second("a", bits, 8), _first("c")]
        found += [f"sxtb16 %[{odd}], %[{even}], ror #8" for odd, even in ("ba", "dc")]
        found += ["sxtb16 %[a], %[a]", "sxtb16 %[c], %[c]"]
    elif interleaved:
        found = [_second("a", bits, 8), _first("c"), _second("b", bits, 8), _first("d")]
    else:
        found = [_second("a", bits, 8), _first("c"), _second("t", bits, 8), _first("v")]
        for even, odd, later in ("abt", "cdv"):
            found += [f"pkhtb %[{odd}], %[{later}], %[{even}], asr #16"]
            found += [f"pkhbt %[{even}], %[{even}], %[{later}], lsl #16"]
    for row in reversed(range(rows)):  # the pointer moves on with the first row
        found += [f"ldr %[t], {_weights(row, 8, bits)}", "sxtb16 %[v], %[t]", *_sums(row, "v", "c", "a")]
        found += ["sxtb16 %[t], %[t], ror #8", *_sums(row, "t", "d", "b")]
    return found


def _products_of_pairs(rows: int, bits: int) -> list[str]:
    """Weights of 16 bits: one word of each row, then the next one."""
    found = []
    if bits == 8:
        found = [_second("a", bits, 16), _first("c")]
        for even, odd in ("ab", "cd"):
            found += [f"sxtb16 %[t], %[{even}]", f"sxtb16 %[{even}], %[{even}], ror #8"]
            found += [f"pkhtb %[{odd}], %[{even}], %[t], asr #16", f"pkhbt %[{even}], %[t], %[{even}], lsl #16"]
    for pair in ("ca", "db") if bits == 8 else ("ca", "ca"):
        found += [] if bits == 8 else [_second("a", bits, 16), _first("c")]
        found += [f"ldr %[{'tu'[row]}], {_weights(row, 16, bits)}" for row in reversed(range(rows))]
        for row in range(rows):
            found += _sums(row, "tu"[row], *pair)
    return found


def _sums(row: int, weights: str, first: str, second: str) -> list[str]:
    """Products of a pair of weights with one of both operands."""
    pairs = ((2 * row, first), (2 * row + 1, second))
    return [f"smlad %[s{number}], %[{weights}], %[{operand}], %[s{number}]" for number, operand in pairs]


def _first(register: str) -> str:
    """The next word of the first operand, from which the pointer moves on."""
    return f"ldr %[{register}], [%[p]], #4"


def _second(register: str, bits: int, wide: int) -> str:
    """That of the second, before it does: `step` are as many bytes as the narrower of weights and operands has in a row."""
    return f"ldr %[{register}], [%[p], %[step]{_doubled(bits, wide)}]"


def _weights(row: int, wide: int, bits: int) -> str:
    return "[%[w]], #4" if row == 0 else f"[%[w], %[step]{_doubled(wide, bits)}]"


def _doubled(width: int, other: int) -> str:
    return ", lsl #1" if width > other else ""
