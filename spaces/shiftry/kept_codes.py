"""Fitted codes as bytes, for the cache: fitting takes seconds, and export and reports ask for the same codes again."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kilotune.codegen.fixed.encoding import GivenCodes, ParameterEncoding

Encodings = Mapping[int, ParameterEncoding]
"""By column those of parameters whose codes are given."""

INTEGER = np.dtype("<i4")


def packed(encodings: Encodings) -> bytes:
    """The codes of all columns, one column after the other."""
    codes = (_given(encodings[column]).codes for column in sorted(encodings))
    return zlib.compress(b"".join(one.astype(INTEGER).tobytes() for one in codes))


def unpacked(content: bytes | None, rounded: Encodings) -> dict[int, ParameterEncoding] | None:
    """What `packed` made of encodings of the same columns and shapes as `rounded`, which are the candidate's before it was fitted. None
    where that cannot be."""
    try:
        numbers = np.frombuffer(zlib.decompress(content or b""), INTEGER)
    except (zlib.error, ValueError):
        return None
    columns = sorted(rounded)
    sizes = [_given(rounded[column]).codes.size for column in columns]
    if sum(sizes) != len(numbers):
        return None
    found = dict[int, ParameterEncoding]()
    parts = np.split(numbers, np.cumsum(sizes))[:-1]  # of no column, none
    for column, part in zip(columns, parts, strict=True):
        before = _given(rounded[column])
        codes = part.reshape(before.codes.shape).astype(before.codes.dtype)
        found[column] = replace(rounded[column], given=replace(before, codes=codes))
    return found


def _given(encoding: ParameterEncoding) -> GivenCodes:
    assert encoding.given is not None
    return encoding.given
