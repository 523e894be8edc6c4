"""Products of 8-bit and 16-bit numbers, as 32 bits and added to 32 bits.

avr-gcc calls a library function for them, at three times the cycles of the few instructions that an 8-bit multiplier
needs. Each function has plain C for all other processors; both compute modulo 2**32, so they are the same function.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# mul leaves its result in r1:r0, and the carry holds the sign of it after mulsu; r1 must be zero again at the end.
# %0: sum, or product; %1: the wider factor; %2: the other one; %3: zero.
_ADD = {
    (8, 8): (
        "muls %1, %2",
        "sbc %C0, %3",
        "sbc %D0, %3",
        "add %A0, r0",
        "adc %B0, r1",
        "adc %C0, %3",
        "adc %D0, %3",
        "clr r1",
    ),
    (16, 8): (
        "mulsu %2, %A1",
        "sbc %C0, %3",
        "sbc %D0, %3",
        "add %A0, r0",
        "adc %B0, r1",
        "adc %C0, %3",
        "adc %D0, %3",
        "muls %2, %B1",
        "sbc %D0, %3",
        "add %B0, r0",
        "adc %C0, r1",
        "adc %D0, %3",
        "clr r1",
    ),
    (16, 16): (
        "muls %B1, %B2",
        "add %C0, r0",
        "adc %D0, r1",
        "mul %A1, %A2",
        "add %A0, r0",
        "adc %B0, r1",
        "adc %C0, %3",
        "adc %D0, %3",
        "mulsu %B1, %A2",
        "sbc %D0, %3",
        "add %B0, r0",
        "adc %C0, r1",
        "adc %D0, %3",
        "mulsu %B2, %A1",
        "sbc %D0, %3",
        "add %B0, r0",
        "adc %C0, r1",
        "adc %D0, %3",
        "clr r1",
    ),
}
_MULTIPLY = (
    "muls %B1, %B2",
    "movw %C0, r0",
    "mul %A1, %A2",
    "movw %A0, r0",
    "mulsu %B1, %A2",
    "sbc %D0, %3",
    "add %B0, r0",
    "adc %C0, r1",
    "adc %D0, %3",
    "mulsu %B2, %A1",
    "sbc %D0, %3",
    "add %B0, r0",
    "adc %C0, r1",
    "adc %D0, %3",
    "clr r1",
)


ADDITIONS: Mapping[tuple[int, int, int], tuple[str, ...]] = MappingProxyType(
    {
        (8, 8, 16): ("muls %1, %2", "add %A0, r0", "adc %B0, r1"),
        **{(wide, other, 32): instructions[:-1] for (wide, other), instructions in _ADD.items()},
    }
)
"""By the widths of the wider and the other factor and of the sum: instructions that add a product and leave r1 as it is then."""


def accumulation(wide: int, other: int) -> tuple[str, str]:
    """(name, definition) of the function that adds an int{wide}_t times an int{other}_t to a sum modulo 2**32."""
    name = f"kt_add_product{wide}_{other}"
    return name, (
        f"/* sum + a * b modulo 2**32 */\n"
        f"KT_INLINE uint32_t {name}(uint32_t sum, int{wide}_t a, int{other}_t b)\n{{\n"
        "#if defined(__AVR_HAVE_MUL__)\n"
        f'    {_asm(_ADD[wide, other])}\n        : "+&r"(sum) : "a"(a), "a"(b), "r"((uint8_t)0));\n'
        "    return sum;\n#else\n"
        "    return sum + (uint32_t)((int32_t)a * (int32_t)b);\n#endif\n}"
    )


def product(bits: int) -> tuple[str, str]:
    """(name, definition) of the function that multiplies an int16_t by an int{bits}_t, as int32_t."""
    name = f"kt_product16_{bits}"
    start, instructions, out = ("", _MULTIPLY, "=&r") if bits == 16 else (" = 0", _ADD[16, 8], "+&r")
    return name, (
        f"/* a * b */\nKT_INLINE int32_t {name}(int16_t a, int{bits}_t b)\n{{\n"
        f"#if defined(__AVR_HAVE_MUL__)\n    int32_t result{start};\n"
        f'    {_asm(instructions)}\n        : "{out}"(result) : "a"(a), "a"(b), "r"((uint8_t)0));\n'
        "    return result;\n#else\n    return (int32_t)a * (int32_t)b;\n#endif\n}"
    )


def _asm(instructions: tuple[str, ...]) -> str:
    return '__asm__("' + '\\n\\t"\n            "'.join(instructions) + '"'
