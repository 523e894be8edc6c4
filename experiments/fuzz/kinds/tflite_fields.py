"""Mutations of a TensorFlow Lite file that leave it a flatbuffer: numbers, lists and offsets are found by the schema and written in place.

Flipped bits of such a file mostly hit weights, or offsets that lead out of it; a reader's own assumptions (that a number of a
tensor is one of the list, that a type is known, that nothing is computed from itself) are met by what is written here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

INTEGERS = (0, 1, -1, 2, 3, 5, 64, 255, 1 << 16, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63) - 1)
FLOATS = (0.0, 1.0, -1.0, 1e-45, 3e38, float("nan"), float("inf"), float("-inf"))
MOST_NUMBER = 40
"""The largest number that is tried in the place of a tensor's number, of an element type and of a kind of options."""

SCHEMA = MappingProxyType(
    {
        "Model": ("u4", "*OperatorCode", "*SubGraph", "text", "*Buffer"),
        "OperatorCode": ("kind1", "text", "i4", "kind4"),
        "SubGraph": ("*Tensor", "*place4", "*place4", "*Operator", "text"),
        "Tensor": ("*i4", "kind1", "place4", "text", "Quantisation", "kind1", "", "*i4", "kind1"),
        "Quantisation": ("*f4", "*f4", "*f4", "*i8", "", "", "i4"),
        "Operator": ("place4", "*place4", "*place4", "kind1", "Options"),
        "Options": ("kind1",) * 10,
        "Buffer": ("*f4", "i8", "i8"),
    }
)
"""By table, what its fields are in their order: a number and its bytes, another table, or (`*`) a list of either. Of the options of an
operator, which are another table for each kind, only the first byte of every field is known."""


@dataclass(frozen=True)
class Field:
    """What stands at a byte of the file: `offset` (to a table or list), `length` of a list, or what the schema says, in so many bytes."""

    at: int
    meaning: str
    bytes: int


def mutate_fields(content: bytes, random: Random) -> bytes:
    """One to three fields with other numbers; bytes that are no flatbuffer stay as they are."""
    try:
        found = list(_fields_of_table(content, _follow(content, 0), "Model"))
    except (struct.error, IndexError, RecursionError):
        return content
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 3)) if found else 0):
        meaning = random.choice(sorted({field.meaning for field in found}))
        field = random.choice([field for field in found if field.meaning == meaning])
        changed[field.at : field.at + field.bytes] = _another(field, content, found, random)
    return bytes(changed)


def _another(field: Field, content: bytes, found: list[Field], random: Random) -> bytes:
    match field.meaning:
        case "offset":  # that of a table or list which is there, at the distance from here
            other = random.choice([one for one in found if one.meaning == "offset"])
            number = _follow(content, other.at) - field.at
        case "length":
            number = random.choice((0, 1, 2, 3, 7, 1 << 16, (1 << 31) - 1))
        case "f4":
            return struct.pack("<f", random.choice(FLOATS))
        case "kind" | "place":
            number = random.choice((-1, -2, *range(MOST_NUMBER)))
        case _:
            number = random.choice(INTEGERS)
    return (number & ((1 << 8 * field.bytes) - 1)).to_bytes(field.bytes, "little")


def _fields_of_table(content: bytes, table: int, name: str) -> Iterator[Field]:
    """The fields of the table at a byte, and of all that is below it."""
    rows = table - struct.unpack_from("<i", content, table)[0]
    count = (struct.unpack_from("<H", content, rows)[0] - 4) // 2
    for number, meaning in enumerate(SCHEMA[name][:count]):
        distance = struct.unpack_from("<H", content, rows + 4 + 2 * number)[0]
        if distance:
            yield from _field(content, table + distance, meaning)


def _field(content: bytes, at: int, meaning: str) -> Iterator[Field]:
    if not meaning:
        return
    if meaning in SCHEMA:
        yield Field(at, "offset", 4)
        yield from _fields_of_table(content, _follow(content, at), meaning)
    elif meaning == "text":
        yield Field(at, "offset", 4)
        yield Field(_follow(content, at), "length", 4)
    elif meaning.startswith("*"):
        yield Field(at, "offset", 4)
        yield from _list(content, _follow(content, at), meaning[1:])
    else:
        yield Field(at, meaning[:-1] if meaning[:-1] in ("kind", "place") else meaning, int(meaning[-1]))


def _list(content: bytes, at: int, meaning: str) -> Iterator[Field]:
    yield Field(at, "length", 4)
    stride = 4 if meaning in SCHEMA else int(meaning[-1])
    length = struct.unpack_from("<I", content, at)[0]
    count = length // 4 if meaning == "f4" and at + 4 + 4 * length > len(content) else length
    for number in range(min(count, len(content) // stride)):
        if at + 4 + stride * (number + 1) <= len(content):
            yield from _field(content, at + 4 + stride * number, meaning)


def _follow(content: bytes, at: int) -> int:
    """Where the offset at a byte leads."""
    return int(at + struct.unpack_from("<I", content, at)[0])
