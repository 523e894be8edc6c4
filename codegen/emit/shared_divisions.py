"""Functions that divide by any power of two: fewer bytes than a division written out in each of several places, and more cycles.

Beside plain C each has its instructions for AVR, where the compiler would shift in loops of its own.
"""

from __future__ import annotations

from kilotune.codegen.emit.called_code import CalledCode, CodeArgument, called_code
from kilotune.codegen.emit.shifts import ROUNDING_NOTES
from kilotune.codegen.fixed.arithmetic import Rounding


def shared_division(bits: int, rounding: Rounding) -> tuple[str, str]:
    """(name, definition) of the function `v / 2**n`, 0 < n < bits, of 16 or 32 bits."""
    name, kind = f"kt_down{bits}", f"int{bits}_t"
    value, count = _REGISTERS[bits]
    lines = (*_INSTRUCTIONS[bits, rounding is Rounding.TOWARD_ZERO], *_last(bits, rounding))
    code = CalledCode(
        name,
        (CodeArgument(kind, "v", value), CodeArgument("uint8_t", "n", count)),
        tuple(_in_registers(line, bits) for line in lines),
    )
    plain = f"KT_NOINLINE {kind} {name}({kind} v, uint8_t n)\n{{\n{_plain(bits, rounding)}\n}}"
    note = f"/* v / 2**n, rounded {ROUNDING_NOTES[rounding]}, for 0 < n < {bits} */\n"
    return name, note + called_code(code, plain)


_REGISTERS = {16: (24, 22), 32: (22, 20)}
"""The lowest of the value, and the count: where functions of C have their arguments."""


def _in_registers(line: str, bits: int) -> str:
    """An instruction on %A0 to %D0, the bytes of the value, and %1, the count, with their registers."""
    value, count = _REGISTERS[bits]
    for place, byte in enumerate("ABCD"[: bits // 8]):
        line = line.replace(f"%{byte}0", f"r{value + place}")
    return line.replace("%1", f"r{count}")


def _plain(bits: int, rounding: Rounding) -> str:
    kind = f"int{bits}_t"
    if rounding is Rounding.TOWARD_ZERO:
        unsigned = f"(u{kind})"
        return (
            f"    const u{kind} u = {unsigned}((v < 0 ? {unsigned}(0u - {unsigned}v) : {unsigned}v) >> n);\n"
            f"    return ({kind})(v < 0 ? {unsigned}(0u - u) : u);"
        )
    return f"    return ({kind})((v >> n){' + ((v >> (n - 1)) & 1)' if rounding is Rounding.NEAREST else ''});"


def _last(bits: int, rounding: Rounding) -> tuple[str, ...]:
    """What comes after the last place: `dec` leaves the bit that was shifted out last in the carry."""
    if rounding is not Rounding.NEAREST:
        return ()
    return tuple(f"adc %{byte}0, __zero_reg__" for byte in "ABCD"[: bits // 8])


# Toward zero T holds the sign, and the magnitude is shifted; for 32 bits by bytes first. There the lines from 2: on are a function that
# negates.
_NEGATED_16 = ("neg %B0", "neg %A0", "sbc %B0, __zero_reg__")
_INSTRUCTIONS = {
    (16, True): (
        "bst %B0, 7",
        "brtc 1f",
        *_NEGATED_16,
        "1: lsr %B0",
        "ror %A0",
        "dec %1",
        "brne 1b",
        "brtc 2f",
        *_NEGATED_16,
        "2:",
    ),
    (16, False): ("1: asr %B0", "ror %A0", "dec %1", "brne 1b"),
    (32, True): (
        "bst %D0, 7",
        "brtc 1f",
        "rcall 2f",
        "1: subi %1, 8",
        "brcs 4f",
        "mov %A0, %B0",
        "mov %B0, %C0",
        "mov %C0, %D0",
        "clr %D0",
        "rjmp 1b",
        "4: subi %1, -9",
        "rjmp 6f",
        "5: lsr %D0",
        "ror %C0",
        "ror %B0",
        "ror %A0",
        "6: dec %1",
        "brne 5b",
        "brtc 3f",
        "rcall 2f",
        "rjmp 3f",
        "2: com %D0",
        "com %C0",
        "com %B0",
        "neg %A0",
        "sbci %B0, 255",
        "sbci %C0, 255",
        "sbci %D0, 255",
        "ret",
        "3:",
    ),
    (32, False): (
        "1: cpi %1, 9",
        "brlo 2f",
        "mov %A0, %B0",
        "mov %B0, %C0",
        "mov %C0, %D0",
        "lsl %D0",
        "sbc %D0, %D0",
        "subi %1, 8",
        "rjmp 1b",
        "2: asr %D0",
        "ror %C0",
        "ror %B0",
        "ror %A0",
        "dec %1",
        "brne 2b",
    ),
}
