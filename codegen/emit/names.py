"""C identifiers for the names of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = """
    alignas alignof asm auto bool break case catch char class const constexpr continue default delete do
    double else enum explicit extern false float for friend goto if inline int int8_t int16_t int32_t int64_t
    long main mutable namespace new nullptr operator private protected public register restrict return short
    signed sizeof static struct switch template this throw true try typedef typename uint8_t uint16_t
    uint32_t uint64_t union unsigned using virtual void volatile wchar_t while
"""

_USED_BY_THE_EMITTED_CODE = """
    x result sum value next row column largest winner squares norm to row_first row_end rows column_first column_end columns pixels window
    a b c d v w bits codes halve halvings
    sqrt exp log sin cos tan abs index predict
"""


def c_identifiers(names: Iterable[str]) -> dict[str, str]:
    """An identifier for every name, each used once: close to the name, never a keyword of C or C++.

    None looks like what the emitted code uses for itself: `kt_...`, and `k`, `n`, i0, v0, p0, ...
    """
    taken = {*_KEYWORDS.split(), *_USED_BY_THE_EMITTED_CODE.split()}
    result: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_") or "v"
        if not stem[0].isalpha() or re.fullmatch(r"kt_.*|k|n|[ivp][0-9]+|[A-Z_0-9]*_H|MODEL_.*|KT_.*", stem):
            stem = f"v_{stem}"
        identifier, number = stem, 1
        while identifier in taken:
            number += 1
            identifier = f"{stem}_{number}"
        taken.add(identifier)
        result[name] = identifier
    return result
