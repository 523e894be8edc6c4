"""The formats that decisions offer, as the numbers that programs are lowered from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.known_rows import VariableFormats, packed_formats
from kilotune.codegen.fixed.parameter_rows import RowScales
from kilotune.codegen.fixed.sequential_rounding import SequentialRounding
from kilotune.search.space import Decision, Option
from kilotune.spaces.shiftry.formats import DEFAULT_BITS, parse_format

UNDECIDED = int(packed_formats(VariableFormats(*np.array([[DEFAULT_BITS], [0], [0]], dtype=np.int64)))[0])
"""The format of a variable that is not decided: a label."""

OptionNumbers = tuple[str, dict[Option, int]]
"""A decision's name, and a number of each of its options."""


def numbered_formats(
    decisions: Sequence[Decision],
    aligned: Collection[str],
    roundings: Mapping[str, SequentialRounding],
    row_scales: Mapping[str, Mapping[int, RowScales]],
) -> tuple[list[OptionNumbers], list[OptionNumbers], tuple[ParameterEncoding, ...]]:
    """What the options of each decision on a format are computed with, as numbers of `packed_formats`; the number of each one's encoding,
    -1 for none; and the encodings."""
    encodings: dict[ParameterEncoding, int] = {}
    formats, numbers = list[OptionNumbers](), list[OptionNumbers]()
    for decision in decisions:
        name, listed = decision.name, list[tuple[int, int, int]]()
        for option in decision.options:
            form = parse_format(str(option))
            encoding = form.encoding(name in aligned, roundings.get(name), row_scales.get(name, {}))
            if encoding is None:
                listed.append((form.bits, form.scale, -1))
            else:
                number = encodings.setdefault(encoding, len(encodings))
                listed.append((form.computed_bits, form.scale + encoding.shift, number))
        bits, scales, encoded = np.array(listed, dtype=np.int64).T
        packed = packed_formats(VariableFormats(bits, scales, scales)).tolist()
        formats.append((name, dict(zip(decision.options, packed, strict=True))))
        numbers.append((name, dict(zip(decision.options, encoded.tolist(), strict=True))))
    return formats, numbers, tuple(encodings)
