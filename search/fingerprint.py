"""What identifies a task: a hash of its content, whatever the code that holds it looks like.

Content is what a measurement depends on: numbers, texts, arrays, and the fields of data classes by their names. Where a thing
was read from is not content, and neither is the name of a class or the order of its fields, so a study goes on after its
input has moved and after a class was renamed.

A data class says what its content is:

- `field(metadata=NOT_CONTENT)`: the field is left out (a place in a source file, a description for people).
- `field(metadata=named("old"))`: the field goes by the name that it had when studies were first stored; with a mapping behind
  the name, some values go by what stood for them then.
- `field(metadata=absent_as(value))`: a field that was added later is left out while it has the value that stands for the
  behaviour before it was there.
- a class attribute `content_kind`, a text: tells classes apart whose fields may be equal (`add` and `subtract`).

Encoding: every value becomes a letter for its type, and bytes that no other value of that type has. Numbers count by value,
whatever their type; texts and arrays carry their lengths. The hash is SHA-256 of that.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Set
from fractions import Fraction
from typing import Any

import numpy as np

DIGITS = 32
"""Hexadecimal digits of a fingerprint: 128 bits."""

HASHED_ELEMENTS = 1 << 20
"""Elements of an array that are hashed in one piece."""

NOT_CONTENT: Mapping[str, Any] = {"content": False}
"""Metadata of a data class field that says nothing about what is measured."""


def named(name: str, values: Mapping[Any, Any] | None = None) -> Mapping[str, Any]:
    """Metadata of a data class field whose content goes by another name than the field's, and whose `values` by others."""
    return {"content_name": name, "content_values": values or {}}


def absent_as(value: object) -> Mapping[str, Any]:
    """Metadata of a data class field that is left out of the content while it equals `value`."""
    return {"content_absent_as": value}


def fingerprint(subject: str, semantics: int, *content: object) -> str:
    """Hash of a task's content, as 32 hexadecimal digits.

    subject: what kind of task it is, such as a space's name.
    semantics: version of what the content means; a new one where the same content is measured in another way.
    content: None, numbers, texts, bytes, fractions, enumerations (by value), NumPy arrays (by element type, shape and
        elements), sequences, sets, mappings and data classes of these.

    TypeError for a value that has no canonical form, naming where it stands.
    """
    digest = hashlib.sha256()
    for part in _encoded((subject, semantics, *content), subject):
        digest.update(part)
    return digest.hexdigest()[:DIGITS]


def _encoded(value: object, place: str) -> Iterator[bytes]:
    """The canonical bytes of a value, in pieces; see the module's text."""
    for kinds, encode in _ENCODERS:
        if isinstance(value, kinds):
            yield from encode(value, place)
            return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _data_class(value, place)
        return
    raise TypeError(f"{place}: a {type(value).__name__} has no canonical form, so no fingerprint can hold it.")


def _counted(letter: bytes, data: bytes) -> bytes:
    """A value whose bytes may be anything: their number first."""
    return b"%s%d:%s" % (letter, len(data), data)


def _number(value: Any) -> bytes:
    """A number by its value: 2, 2.0 and the fraction 2 are one, as a limit that is asked for in Python or by the command is."""
    if isinstance(value, float | np.floating):
        if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
            return b"F%s;" % float(value).hex().encode()
        value = Fraction(float(value))
    return b"Q%d/%d;" % (value, 1) if not isinstance(value, Fraction) else b"Q%d/%d;" % value.as_integer_ratio()


def _array(value: np.ndarray, place: str) -> Iterator[bytes]:
    if value.dtype.hasobject:
        raise TypeError(f"{place}: an array of Python objects has no canonical form.")
    little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    yield b"A%s%s:" % (little.dtype.str.encode(), str(value.shape).encode())
    flat = little.reshape(-1)
    for start in range(0, flat.size, HASHED_ELEMENTS):  # of a large one there is no second copy
        yield flat[start : start + HASHED_ELEMENTS].tobytes()


def _sequence(value: tuple[object, ...] | list[object], place: str) -> Iterator[bytes]:
    yield b"L%d:" % len(value)
    for number, item in enumerate(value):
        yield from _encoded(item, f"{place}[{number}]")


def _set(value: Set[object], place: str) -> Iterator[bytes]:
    yield b"T%d:" % len(value)
    yield from sorted(b"".join(_encoded(item, place)) for item in value)


def _mapping(value: Mapping[object, object], place: str) -> Iterator[bytes]:
    yield b"M%d:" % len(value)
    rows = ((b"".join(_encoded(key, place)), b"".join(_encoded(item, f"{place}.{key}"))) for key, item in value.items())
    for row in sorted(rows):
        yield from row


def _data_class(value: Any, place: str) -> Iterator[bytes]:
    kind = getattr(value, "content_kind", None)
    if kind is not None:
        yield _counted(b"K", str(kind).encode())
    yield from _mapping(dict(_fields(value)), place)


def _fields(value: Any) -> Iterator[tuple[str, object]]:
    """The fields of a data class that are content, by the names that they have there."""
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        left_out = not field.metadata.get("content", True)
        if not left_out and "content_absent_as" in field.metadata:
            left_out = bool(content == field.metadata["content_absent_as"])
        if not left_out:
            earlier = field.metadata.get("content_values")
            yield field.metadata.get("content_name", field.name), earlier.get(content, content) if earlier else content


_ENCODERS: tuple[tuple[Any, Callable[[Any, str], Iterator[bytes]]], ...] = (
    # In this order: a bool is an int, and an enumeration may be a text or a number.
    (type(None), lambda value, place: iter((b"N",))),
    (enum.Enum, lambda value, place: _encoded(value.value, place)),
    (bool | np.bool_, lambda value, place: iter((b"B%d" % value,))),
    (int | np.integer | float | np.floating | Fraction, lambda value, place: iter((_number(value),))),
    (str, lambda value, place: iter((_counted(b"S", value.encode()),))),
    (bytes, lambda value, place: iter((_counted(b"X", value),))),
    (np.ndarray, _array),
    (tuple | list, _sequence),
    (Set, _set),
    (Mapping, _mapping),
)
