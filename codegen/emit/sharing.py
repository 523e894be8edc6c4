"""Functions instead of the same code in several places: what the smallest programs do (`CodeShape.shared`).

Compilers are told to write most operators out wherever they stand, which is fast. Here those that take more than a call does become
functions, unless they stand in one place alone. The loops of sums of products keep their products to themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kilotune.codegen.emit.shared_divisions import shared_division
from kilotune.codegen.emit.shifts import device_instructions
from kilotune.codegen.fixed.arithmetic import Rounding

FEWEST_DIVISIONS = 3
"""As many divisions of 32 bits, or more, are shorter with a function for them all."""

SHARED_BITS = (16, 32)
"""Widths of divisions that may be calls."""

CALL_BYTES = 10
"""What calling a function for divisions of 16 bits takes on an AVR: the shift, the call, and values that calls must not spoil."""

FUNCTION_BYTES = MappingProxyType({Rounding.TOWARD_ZERO: 30, Rounding.FLOOR: 10, Rounding.NEAREST: 14})
"""What that function takes there."""

ROUNDING_BYTES = 8
"""What a division of 16 bits that is written out takes there beside its shift, unless it rounds down."""

NO_OTHERS: Mapping[str, str] = MappingProxyType({})

_WORTH_A_CALL = re.compile(r"kt_(?:product|fraction|decay|exp)\d")
_DEFINED = re.compile(r"^(?:KT_INLINE|KT_NOINLINE|static) (\w+) (\w+)\(", re.MULTILINE)
_DIVISION = re.compile(r"kt_down(16|32)_(\d+)(?:_(\d+))?")
_NARROW, _WIDE = "kt_product16_8", "kt_product16_16"


def share(
    definitions: Sequence[str], body: Sequence[str], rounding: Rounding, called: Mapping[str, str] = NO_OTHERS
) -> tuple[list[str], list[str]]:
    """Definitions of functions, and the lines that call them, where what several places compute is called; `called`: by name, definitions
    that take the place of others where several places call them.

    Products by 8 bits are those by 16 where both are there: the same function, of a factor that C makes wider. Divisions are those of
    `shared_division`.
    """
    found, lines = list(definitions), list(body)
    if _WIDE in map(_name, found):
        found = [text for text in found if _name(text) != _NARROW]
        found, lines = ([text.replace(f"{_NARROW}(", f"{_WIDE}(") for text in texts] for texts in (found, lines))
    text = "\n".join([*found, *lines])
    for bits in (16, 32):
        divisions = _worth_sharing(list(map(_name, found)), text, bits, rounding)
        if divisions:
            divided = [_divided(one) if _name(one) in divisions else one for one in found]
            found = [shared_division(bits, rounding)[1], *divided]
    found = [called[_name(one)] if _name(one) in called and _calls(_name(one), text) > 1 else one for one in found]
    return [_called(one) if _is_shared(_name(one), text) else one for one in found], lines


def _name(definition: str) -> str:
    match = _DEFINED.search(definition)
    return match[2] if match else ""


def _calls(name: str, text: str) -> int:
    """How often a function is called in a text that has its definition."""
    return len(re.findall(rf"\b{name}\(", text)) - 1


def _is_shared(name: str, text: str) -> bool:
    return _WORTH_A_CALL.match(name) is not None and _calls(name, text) > 1


def _worth_sharing(names: Sequence[str], text: str, bits: int, rounding: Rounding) -> list[str]:
    """The divisions of 16 or 32 bits that are shorter as calls of one function: none, where all together are not."""
    found = [name for name in names if (match := _DIVISION.fullmatch(name)) and int(match[1]) == bits]
    if bits > 16:
        return found if sum(_calls(name, text) for name in found) >= FEWEST_DIVISIONS else []
    saved = {name: _bytes_of(name, rounding) - CALL_BYTES for name in found}
    longer = [name for name in found if saved[name] > 0]
    worth = sum(saved[name] * _calls(name, text) for name in longer) > FUNCTION_BYTES[rounding]
    return longer if worth else []


def _bytes_of(name: str, rounding: Rounding) -> int:
    match = _DIVISION.fullmatch(name)
    assert match is not None
    return written_out_bytes(int(match[2]), int(match[3] or 16), rounding)


def written_out_bytes(shift: int, result_bits: int, rounding: Rounding) -> int:
    """About what a division of 16 bits by 2**shift takes on an AVR where it is written out."""
    instructions = device_instructions(16, shift, result_bits, rounding)
    return 2 * (2 if instructions is None else instructions) + (0 if rounding is Rounding.FLOOR else ROUNDING_BYTES)


def _divided(definition: str) -> str:
    """A division by a power of two, by the function for all of them."""
    head, match = definition.partition("{")[0], _DIVISION.search(definition)
    defined = _DEFINED.search(definition)
    assert match is not None
    assert defined is not None
    return f"{head}{{\n    return ({defined[1]})kt_down{match[1]}(v, {match[2]});\n}}"


def _called(definition: str) -> str:
    return re.sub(r"^(?:KT_INLINE|static) ", "KT_NOINLINE ", definition, count=1, flags=re.MULTILINE)
