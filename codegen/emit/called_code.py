"""Functions that are called in assembly on AVR: their registers are all that they change.

avr-gcc takes it that a function of C may change twelve registers, and keeps what it needs behind the call in others, which the caller has
to save first. Where the call stands in assembly that names its operands, values stay where they are. clang, which has no names for such
calls, and other processors compile plain C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.fixed.encoding import BYTE_BITS

_COMPILERS = ("defined(__AVR__)", "defined(__OPTIMIZE__)", "!defined(__clang__)")
"""What assembly is for: avr-gcc at -O0 has too few registers to name so many."""


@dataclass(frozen=True)
class CodeArgument:
    """A parameter of C, and the lowest of the registers that it is in; `changes`: whether the code leaves something else there. `times`: by
    what it is multiplied on its way there, a constant as it is."""

    kind: str
    name: str
    register: int
    changes: bool = True
    times: int = 1

    @property
    def value(self) -> str:
        """What its register holds when the code begins."""
        return self.name if self.times == 1 else f"({self.kind})({self.name} * {self.times})"


@dataclass(frozen=True)
class CalledCode:
    """`instructions` change arguments, of which the first one becomes the result, the registers `clobbered`, and nothing else of what
    the compiler knows. `reads_memory`: where pointers point. `condition`: of the preprocessor, besides AVR. `symbol`: an array that the
    instructions name as %0."""

    name: str
    arguments: tuple[CodeArgument, ...]
    instructions: tuple[str, ...]
    clobbered: tuple[str, ...] = ()
    reads_memory: bool = False
    condition: str = ""
    symbol: str = ""


def called_code(code: CalledCode, plain: str) -> str:
    """The definition of the function, without its comment. `plain`: all of the other definition, in C."""
    lines = '\\n\\t"\n            "'.join((*code.instructions, "ret"))
    named = f' : : "i"({code.symbol})' if code.symbol else ""
    result, takes = code.arguments[0], ", ".join(f"{a.kind} {a.name}" for a in code.arguments)
    names = [(f"r{n}", argument) for n, argument in enumerate(code.arguments)]
    registers = [f'    register {a.kind} {name} __asm__("r{a.register}") = {a.value};' for name, a in names]
    changed = [f'"+r"({name})' for name, argument in names if argument.changes]
    read = [f'"i"({code.name}_code)', *(f'"r"({name})' for name, argument in names if not argument.changes)]
    clobbered = [f'"{name}"' for name in (*code.clobbered, *(["memory"] if code.reads_memory else []))]
    operands = " : ".join(", ".join(some) for some in (changed, read, clobbered) if some)
    return "\n".join(
        [
            "#if " + " && ".join(filter(None, [*_COMPILERS, code.condition])),
            f"KT_NOINLINE void {code.name}_code(void) __attribute__((naked, used));",
            f"KT_NOINLINE void {code.name}_code(void)",
            f'{{\n    __asm__("{lines}"{named});\n}}',
            f"KT_INLINE {result.kind} {code.name}({takes})",
            "{",
            *registers,
            f'    __asm__(KT_CALL " %x{len(changed)}" : {operands});',
            "    return r0;\n}",
            "#else",
            plain,
            "#endif",
        ]
    )


def called_sum(name: str, pointers: Sequence[tuple[str, bool]], bits: int, plain: str) -> str | None:
    """The function that adds products of bytes to a sum of 16 or 32 bits: of 1 to 255 that lie beside each other behind two pointers, which
    are (kind, whether into flash). None where sums are of other widths, or both pointers go into flash."""
    if bits not in _TERMS or all(in_flash for _, in_flash in pointers):
        return None
    registers = _pointer_registers(pointers)
    arguments = (*_sum_and_pointers(pointers, bits, registers), CodeArgument("uint8_t", "n", 20))
    loads = _loads(pointers, registers, ("r18", "r19"))
    instructions = (f"1: {loads[0]}", loads[1], "muls r18, r19", *_terms(bits, "r21"), "dec r20", "brne 1b", _ZERO)
    clobbered = ("r18", "r19") if bits == 16 else ("r18", "r19", "r21")
    return called_code(CalledCode(name, arguments, instructions, clobbered, True, _condition(pointers)), plain)


def called_rows(name: str, pointers: Sequence[tuple[str, bool]], bits: int, plain: str) -> str | None:
    """As `called_sum` of 1 to 255 runs, between which the pointers skip some elements."""
    if bits not in _TERMS or all(in_flash for _, in_flash in pointers):
        return None
    registers = _pointer_registers(pointers)
    arguments = (
        *_sum_and_pointers(pointers, bits, registers),
        CodeArgument("uint8_t", "rows", 18),
        *(CodeArgument("uint8_t", what, 19 + place, False) for place, what in enumerate(("n", "skip0", "skip1"))),
    )
    loads = _loads(pointers, registers, ("r16", "r17"))
    skips = [
        text for n, low in enumerate(registers) for text in (f"add r{low}, r{20 + n}", f"adc r{low + 1}, __zero_reg__")
    ]
    instructions = (
        "1: mov r15, r19",
        f"2: {loads[0]}",
        loads[1],
        "muls r16, r17",
        *_terms(bits, "r14"),
        "dec r15",
        "brne 2b",
        _ZERO,
        "dec r18",
        "breq 3f",
        *skips,
        "rjmp 1b",
        "3:",
    )
    clobbered = ("r15", "r16", "r17") if bits == 16 else ("r14", "r15", "r16", "r17")
    return called_code(CalledCode(name, arguments, instructions, clobbered, True, _condition(pointers)), plain)


def called_groups(
    name: str, pointers: Sequence[tuple[str, bool]], packed: int, width: int, bits: int, plain: str
) -> str | None:
    """As `called_sum`, of groups of codes of `width` bits behind pointer number `packed` into flash and of bytes behind the other: at most
    `most_groups` of them. None where codes do not fill bytes, or the bytes lie in flash."""
    if bits not in _TERMS or BYTE_BITS % width or pointers[1 - packed][1]:
        return None
    codes = BYTE_BITS // width
    total, *places = _sum_and_pointers(pointers, bits, (_Z, _X) if packed == 0 else (_X, _Z))
    arguments = (total, *places, CodeArgument("uint8_t", "n", 20, times=codes))
    instructions = (
        *("1: " + text if number == 0 else text for number, text in enumerate(_next_byte(codes))),
        *_code(width),
        "ld r21, X+",
        "muls r19, r21",
        *_terms(bits, "r19"),
        *(["swap r18"] if width == 4 else ["lsr r18"] * width),
        "dec r20",
        "brne 1b",
        _ZERO,
    )
    condition = _condition(pointers)
    return called_code(CalledCode(name, arguments, instructions, ("r18", "r19", "r21"), True, condition), plain)


def called_lookup(name: str, array: str, last: int, plain: str) -> str:
    """The function of a byte v whose result is the element |v|, or `last` < 255 where that is beyond, of an array of bytes in flash."""
    limit = (f"cpi r24, {last + 1}", "brlo 1f", f"ldi r24, {last}", "1:")
    place = ("ldi r30, lo8(%0)", "ldi r31, hi8(%0)", "add r30, r24", "adc r31, __zero_reg__", "lpm r24, Z")
    instructions = ("sbrc r24, 7", "neg r24", *limit, *place)
    argument = CodeArgument("int8_t", "v", 24)
    condition = "defined(KT_FLASH_BY_LPM) && defined(__AVR_HAVE_LPMX__)"
    code = CalledCode(name, (argument,), instructions, ("r30", "r31"), condition=condition, symbol=array)
    return called_code(code, plain)


def most_groups(width: int) -> int:
    """How many groups `called_groups` takes: its codes are counted in a byte."""
    return 255 // (BYTE_BITS // width)


def _next_byte(codes: int) -> list[str]:
    """Instructions that read a byte of `codes` codes where r20, the number of those still to come, is a multiple of that."""
    if codes == 2:
        return ["sbrs r20, 0", "lpm r18, Z+"]
    return ["mov r19, r20", f"andi r19, {codes - 1}", "brne 2f", "lpm r18, Z+", "2:"]


def _code(width: int) -> list[str]:
    """Instructions that make r19 the code in the lowest bits of r18."""
    if width == 1:
        return ["ldi r19, 1", "sbrs r18, 0", "ldi r19, 255"]
    return ["mov r19, r18", f"andi r19, {(1 << width) - 1}", f"subi r19, {1 << (width - 1)}"]


_X, _Z = 26, 30
_ZERO = "clr __zero_reg__"
_TERMS = {
    16: ("add r24, r0", "adc r25, r1"),
    32: (
        "sbc {sign}, {sign}",
        "add r22, r0",
        "adc r23, r1",
        "adc r24, {sign}",
        "adc r25, {sign}",
    ),  # the carry is the product's sign
}
"""By the width of the sum: what adds a product of two bytes, r1:r0."""


def _terms(bits: int, sign: str) -> list[str]:
    return [text.format(sign=sign) for text in _TERMS[bits]]


def _pointer_registers(pointers: Sequence[tuple[str, bool]]) -> tuple[int, int]:
    """Z for a pointer into flash, which no other reads."""
    return (_Z, _X) if pointers[0][1] else (_X, _Z)


def _sum_and_pointers(
    pointers: Sequence[tuple[str, bool]], bits: int, registers: tuple[int, int]
) -> tuple[CodeArgument, ...]:
    kinds = enumerate(zip(pointers, registers, strict=True))
    total = CodeArgument(f"uint{bits}_t", "sum", 26 - bits // 8)
    return (total, *(CodeArgument(f"{kind} *", f"p{n}", register) for n, ((kind, _), register) in kinds))


def _loads(pointers: Sequence[tuple[str, bool]], registers: tuple[int, int], to: tuple[str, str]) -> list[str]:
    """Instructions that read a byte each and move on."""
    names = {_X: "X", _Z: "Z"}
    places = zip(pointers, registers, to, strict=True)
    return [f"{'lpm' if in_flash else 'ld'} {value}, {names[register]}+" for (_, in_flash), register, value in places]


def _condition(pointers: Sequence[tuple[str, bool]]) -> str:
    return "defined(__AVR_HAVE_MUL__)" + (" && defined(KT_FLASH_BY_LPM)" if any(flash for _, flash in pointers) else "")
