"""Reading parameters that are stored in codes of a few bits (`codegen.fixed.encoding`): one by its number, or a group at once.

A small processor shifts by one place an instruction, so a group of codes is taken apart with shifts that are known, and only what lies at
the ends of a run is read by number.
"""

from __future__ import annotations

from collections.abc import Iterable

from kilotune.codegen import ir
from kilotune.codegen.fixed.codebook import CODEBOOK_SIZE
from kilotune.codegen.fixed.encoding import BYTE_BITS, LAYOUTS, Layout, ParameterEncoding


def layout_of(width: int) -> Layout:
    """The layout of a packed width."""
    return LAYOUTS[width]


def in_whole_groups(width: int, view: ir.View, steps: Iterable[int], count: int) -> bool:
    """Whether `count` elements that lie beside each other are groups of codes, wherever `steps` and the program's loops lead."""
    codes = layout_of(width).codes
    factors = [factor for _, factor in view.offset.terms]
    return not any(amount % codes for amount in (count, view.offset.constant, *steps, *factors))


def reader(width: int) -> str:
    """The C name of the function that reads one code."""
    return f"kt_code{width}"


def reader_definition(width: int) -> str:
    """The function that reads code number n of an array, as int8_t."""
    layout = layout_of(width)
    inner = (layout.codes - 1).bit_length()
    lines = [f"const uint_fast8_t k = (uint_fast8_t)(n & {layout.codes - 1});"]
    first = "n" if inner == 0 else f"(n >> {inner})"
    if layout.codes == layout.group_bytes * layout.beside:
        lines += [f"uint8_t byte = KT_LOAD_PLACE8(codes + {first});", *_shifted(layout, "k")]
    else:
        spread = _spread([f"KT_LOAD_PLACE8(group + {byte})" for byte in range(layout.group_bytes)], layout)
        whole = layout.group_bytes * layout.beside
        place = "k" if layout.beside == 1 else f"(k >> {layout.beside.bit_length() - 1})"
        lines += [f"const uint8_t *group = codes + {layout.group_bytes} * {first};", "uint8_t byte;"]
        lines += [f"if (k < {whole}) {{", f"    byte = KT_LOAD_PLACE8(group + {place});", "} else {"]
        lines += [f"    byte = (uint8_t)({spread});", "}", *_shifted(layout, "k")]
    lines.append(f"return {_signed('byte', width, True)};")
    body = "\n    ".join(lines)
    return (
        f"/* code number n of {width} bits */\n"
        f"static int8_t {reader(width)}(const uint8_t *codes, kt_place n)\n{{\n    {body}\n}}"
    )


def group_codes(width: int, layout_bytes: list[str]) -> list[str]:
    """The codes of a group as int8_t expressions, from the uint8_t expressions of its bytes."""
    layout = layout_of(width)
    fields = [_field(byte, place * width) for byte in layout_bytes for place in range(layout.beside)]
    if layout.codes > len(fields):
        spread = _spread(layout_bytes, layout)
        left = range(layout.codes - len(fields))
        fields += [f"({spread}) >> {number * width}" if number else spread for number in left]
    return [_signed(f"({field})", width, True) for field in fields]


def code_of_byte(width: int, byte: str) -> str:
    """The code in the lowest bits of a byte, as an int8_t expression."""
    return _signed(byte, width, True)


def next_code(width: int, byte: str) -> str:
    """The byte with its next code lowest; what is above the codes still to come is nobody's. An AVR swaps halves in one instruction."""
    return f"(uint8_t)(({byte} << 4) | ({byte} >> 4))" if width == 4 else f"(uint8_t)({byte} >> {width})"


def walks(width: int) -> bool:
    """Whether codes can be taken from a byte one after the other: where none lies in two."""
    return BYTE_BITS % width == 0


def walk_start(width: int, pointer: str) -> list[str]:
    """Declarations of what walks through all codes of an array, or of a number where codes lie in several bytes."""
    if not walks(width):
        return [f"kt_place {pointer} = 0;"]
    return [f"uint8_t {pointer}_byte = 0, {pointer}_left = 0;"]


def walk_next(width: int, array: str, pointer: str) -> tuple[list[str], str]:
    """Lines, and then the expression, of the next code; `pointer` moves on. For widths that walk, it is a pointer to bytes."""
    if not walks(width):
        return [], f"{reader(width)}({array}, {pointer}++)"
    byte, left, codes = f"{pointer}_byte", f"{pointer}_left", BYTE_BITS // width
    lines = [
        f"if ({left}-- == 0) {{ {byte} = KT_NEXT_PLACE8({pointer}); {left} = {codes - 1}; }}",
        f"else {byte} = (uint8_t)({byte} >> {width});",
    ]
    return lines, code_of_byte(width, byte)


def decoded(code: str, encoding: ParameterEncoding, bits: int, table: str) -> str:
    """The integer of a code, of `bits` bits. `table`: the name of its codebook, where the encoding has one."""
    if encoding.codebook:
        return f"KT_LOAD8(&{table}[(uint8_t)({code} + {CODEBOOK_SIZE // 2})])"
    return code if encoding.shift == 0 else f"(int{bits}_t)({code} * {1 << encoding.shift})"


def _field(byte: str, place: int) -> str:
    return f"{byte} >> {place}" if place else byte


def _spread(items: list[str], layout: Layout) -> str:
    """The left-over bits of a group's bytes, beside each other."""
    spare = BYTE_BITS - layout.beside * layout.width
    terms = [
        f"{item} >> {BYTE_BITS - spare}" if number == 0 else f"({item} >> {BYTE_BITS - spare}) << {number * spare}"
        for number, item in enumerate(items)
    ]
    return " | ".join(f"({term})" for term in terms)


def _shifted(layout: Layout, number: str) -> list[str]:
    """Lines that bring a code to the lowest bits of `byte`, a shift of known places for every bit of its place in the byte."""
    places = layout.beside.bit_length() - 1
    return [
        f"if ({number} & {1 << bit}) byte = (uint8_t)(byte >> {layout.width << bit});"
        for bit in reversed(range(places))
    ]


def _signed(field: str, width: int, masked: bool) -> str:
    """A code from the lowest bits of an expression."""
    from_zero = f"{field} & {(1 << width) - 1}" if masked else field
    if width == 1:
        return f"(int8_t)(({field} & 1) ? 1 : -1)"
    return f"(int8_t)(({from_zero}) - {1 << (width - 1)})"
