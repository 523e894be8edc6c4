"""Divisions by a power of two that is known when the C is written.

avr-gcc turns a shift of several bytes by a constant into a loop of single steps, for a step of 4 bytes seven cycles each.
Here the bytes that the result does not need are left out, and the rest goes at most four steps to the right or, when that
is shorter, to the left. Everything else compiles the plain C beside it.
"""

from __future__ import annotations

from kilotune.codegen.fixed.arithmetic import Rounding

_BYTES = "ABCD"

ROUNDING_NOTES = {
    Rounding.TOWARD_ZERO: "toward zero",
    Rounding.FLOOR: "toward minus infinity",
    Rounding.NEAREST: "to the nearest, halves up",
}


def division(bits: int, shift: int, result_bits: int, rounding: Rounding) -> tuple[str, str]:
    """(name, definition) of the inline function for `int{bits}_t v / 2**shift` modulo 2**result_bits; 0 < shift < bits."""
    kind, result = f"int{bits}_t", f"int{result_bits}_t"
    name = f"kt_down{bits}_{shift}" + (f"_{result_bits}" if result_bits != bits else "")
    modulo = f", modulo 2**{result_bits}" if result_bits != bits else ""
    lines = [
        f"/* v / 2**{shift}, rounded {ROUNDING_NOTES[rounding]}{modulo} */",
        f"KT_INLINE {result} {name}({kind} v)",
        "{",
    ]
    if rounding is Rounding.TOWARD_ZERO:
        lines.append(f"    if (v < 0) v = ({kind})(v + {_literal((1 << shift) - 1, bits)});")
    elif rounding is Rounding.NEAREST and bits - shift > result_bits:
        # the sum may wrap, above the bits that are kept
        lines.append(f"    v = ({kind})((uint{bits}_t)v + (uint{bits}_t){_literal(1 << (shift - 1), bits)});")
    elif rounding is Rounding.NEAREST and bits == 8:
        lines += [*_nearest_byte(shift), "}"]
        return name, "\n".join(lines)
    elif rounding is Rounding.NEAREST:
        lines += [*_floor(bits, shift - 1, bits, "v = "), f"    return ({result})((v >> 1) + (v & 1));", "}"]
        return name, "\n".join(lines)
    lines += [*_floor(bits, shift, result_bits, "return "), "}"]
    return name, "\n".join(lines)


def _nearest_byte(shift: int) -> list[str]:
    """The body of v / 2**shift of a byte: on AVR the carry has the bit that was shifted out last."""
    steps = "\\n\\t".join(["asr %0"] * shift)
    half = f"(v >> {shift - 1})" if shift > 1 else "v"
    return [
        "#if defined(__AVR__)",
        f'    __asm__("{steps}\\n\\tadc %0, __zero_reg__" : "+r"(v));',
        "    return v;",
        "#else",
        f"    return (int8_t)((v >> {shift}) + ({half} & 1));",
        "#endif",
    ]


def _literal(value: int, bits: int) -> str:
    if value < 1 << 15 or bits < 32:
        return str(value)
    return f"INT{32 if value < 1 << 31 else 64}_C({value})"


def _floor(bits: int, shift: int, result_bits: int, use: str) -> list[str]:
    """`use` the floor of v / 2**shift modulo 2**result_bits."""
    if shift == 0:
        return [] if use.startswith("v") else [f"    {use}({_type(result_bits)})v;"]
    plain = f"    {use}({_type(result_bits)})(v >> {shift});"
    device = _steps(bits // 8, shift, result_bits // 8)
    if device is None or bits == 8:
        return [plain]
    steps, whole = device
    text = '\\n\\t"\n            "'.join(steps)
    shifted = f"v >> {8 * whole}" if whole else "v"
    return [
        "#if defined(__AVR__)",
        *([f'    __asm__("{text}" : "+r"(v));'] if steps else []),
        f"    {use}({_type(result_bits)})({shifted});",
        "#else",
        plain,
        "#endif",
    ]


def _type(bits: int) -> str:
    return f"int{bits}_t"


def _steps(width: int, shift: int, result: int) -> tuple[list[str], int] | None:
    """(instructions on the bytes of v, whole bytes to drop then); None where the compiler does as well."""
    whole, single = divmod(shift, 8)
    if single == 0 or width > len(_BYTES):
        return None
    top = min(whole + result, width - 1)
    if 8 - single < single and whole + result < width:
        # to the left within the bytes that matter, and drop a byte more
        step = [f"{'lsl' if byte == whole else 'rol'} %{_BYTES[byte]}0" for byte in range(whole, top + 1)]
        return step * (8 - single), whole + 1
    if single == 1 and whole == 0 and top == width - 1:
        return None
    first = "asr" if top == width - 1 else "lsr"
    step = [f"{first if byte == top else 'ror'} %{_BYTES[byte]}0" for byte in range(top, whole - 1, -1)]
    return step * single, whole


def device_instructions(bits: int, shift: int, result_bits: int, rounding: Rounding) -> int | None:
    """How many instructions the shift of `division` takes on AVR beside its rounding; None where it is left to the compiler."""
    if rounding is Rounding.NEAREST and bits - shift <= result_bits:
        shift, result_bits = shift - 1, bits
    steps = None if shift == 0 or bits == 8 else _steps(bits // 8, shift, result_bits // 8)
    return None if steps is None else len(steps[0])
