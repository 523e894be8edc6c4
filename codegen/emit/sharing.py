"""Functions instead of the same code in several places: what the smallest programs do (`CodeShape.shared`).

Compilers are told to write most operators out wherever they stand, which is fast. Here those that take more than a call does become
functions, unless they stand in one place alone. The loops of sums of products keep their products to themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kilotune.codegen.emit.shared_divisions import shared_division
from kilotune.codegen.fixed.arithmetic import Rounding

FEWEST_DIVISIONS = 3
"""As many divisions of 16 bits, or of 32, are shorter with a function for them all."""

SHORT_FLOORS = 2
"""Dividing 16 bits by two to that power or less takes no more than a call where nothing is rounded."""

_WORTH_A_CALL = re.compile(r"kt_(?:product|fraction|decay|exp)\d")
_DEFINED = re.compile(r"^(?:KT_INLINE|KT_NOINLINE|static) (\w+) (\w+)\(", re.MULTILINE)
_DIVISION = re.compile(r"kt_down(16|32)_(\d+)(?:_\d+)?")
_NARROW, _WIDE = "kt_product16_8", "kt_product16_16"


def share(definitions: Sequence[str], body: Sequence[str], rounding: Rounding) -> tuple[list[str], list[str]]:
    """Definitions of functions, and the lines that call them, where what several places compute is called.

    Products by 8 bits are those by 16 where both are there: the same function, of a factor that C makes wider. Divisions are those of
    `shared_division`.
    """
    found, lines = list(definitions), list(body)
    if _WIDE in map(_name, found):
        found = [text for text in found if _name(text) != _NARROW]
        found, lines = ([text.replace(f"{_NARROW}(", f"{_WIDE}(") for text in texts] for texts in (found, lines))
    text = "\n".join([*found, *lines])
    for bits in (16, 32):
        divisions = [name for name in map(_name, found) if _is_long_division(name, bits, rounding)]
        if sum(_calls(name, text) for name in divisions) >= FEWEST_DIVISIONS:
            divided = [_divided(one) if _name(one) in divisions else one for one in found]
            found = [shared_division(bits, rounding)[1], *divided]
    return [_called(one) if _is_shared(_name(one), text) else one for one in found], lines


def _name(definition: str) -> str:
    match = _DEFINED.search(definition)
    return match[2] if match else ""


def _calls(name: str, text: str) -> int:
    """How often a function is called in a text that has its definition."""
    return len(re.findall(rf"\b{name}\(", text)) - 1


def _is_shared(name: str, text: str) -> bool:
    return _WORTH_A_CALL.match(name) is not None and _calls(name, text) > 1


def _is_long_division(name: str, bits: int, rounding: Rounding) -> bool:
    match = _DIVISION.fullmatch(name)
    if match is None or int(match[1]) != bits:
        return False
    return bits > 16 or rounding is not Rounding.FLOOR or int(match[2]) > SHORT_FLOORS


def _divided(definition: str) -> str:
    """A division by a power of two, by the function for all of them."""
    head, match = definition.partition("{")[0], _DIVISION.search(definition)
    defined = _DEFINED.search(definition)
    assert match is not None
    assert defined is not None
    return f"{head}{{\n    return ({defined[1]})kt_down{match[1]}(v, {match[2]});\n}}"


def _called(definition: str) -> str:
    return re.sub(r"^(?:KT_INLINE|static) ", "KT_NOINLINE ", definition, count=1, flags=re.MULTILINE)
