"""MiniMalloc's CSV: `id,lower,upper,size[,alignment][,offset]`, a buffer a line, live in the half-open [lower, upper).

Of our own: `banks`, the names of the banks that may hold the buffer, spaces between them (nothing: any), and `constant`
(1 or true: it is only read, so it may stay in a read-only bank).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.text_files import read_text_file
from kilotune.spaces.memory.checker import Migration, Residence
from kilotune.spaces.memory.instance import Buffer, Instance

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

REQUIRED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "banks", "constant")
ALIASES: Mapping[str, str] = {"start": "lower", "begin": "lower", "end": "upper", "buffer_id": "id", "buffer": "id"}
"""Other names that files of the field give the columns."""

TRUTH: Mapping[str, bool] = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}

LARGEST = 1 << 40
"""Sizes and program points above this are mistakes (a terabyte); below it the compiled search cannot overflow."""

LONGEST_HEADER = 1 << 12
"""Bytes in which a header is looked for."""

MOST_BYTES = 1 << 28
"""The largest file that is read: some ten million buffers."""


def read_instance(path: Path, inclusive: bool = False) -> Instance:
    """Load a placement problem. `inclusive`: `upper` is the last point of a life (as IREE writes it), not the first one after. A file
    with a header and no rows is an instance without buffers, whose peak is 0 bytes.

    InputError, with the line: a column is missing or stands twice, a value is no integer, an id stands twice, upper <= lower, a
    negative size, an alignment below 1, a file that cannot be read or is far too large.
    """
    rows = csv.reader(
        io.StringIO(read_text_file(path, "a CSV file", MOST_BYTES), newline="")
    )  # a quoted id may have line breaks
    try:
        return Instance(path.stem, _buffers(str(path), _numbered(rows), int(inclusive)))
    except csv.Error as error:
        raise InputError(str(path), expected="comma-separated values", found=str(error), line=1, column=1) from None


def has_buffer_columns(path: Path) -> bool:
    """Whether the first line of a file names the columns of such a list, each once."""
    try:
        with path.open("rb") as stream:
            header = stream.readline(LONGEST_HEADER).decode("utf-8-sig")
        _columns(str(path), next(csv.reader([header]), []))
    except (OSError, ValueError, csv.Error):  # what is no UTF-8 and what has other columns are ValueErrors
        return False
    return True


def _numbered(rows: CsvReader) -> Iterator[tuple[int, list[str]]]:
    """With the line in which each begins, from 1."""
    line = 1
    for row in rows:
        yield line, row
        line = rows.line_num + 1


def _buffers(path: str, lines: Iterator[tuple[int, list[str]]], after: int) -> tuple[Buffer, ...]:
    _, header = next(lines, (1, []))
    columns = _columns(path, header)
    seen: dict[str, int] = {}
    buffers: list[Buffer] = []
    for line, row in lines:
        if not row:
            continue
        if len(row) != len(header):
            raise _error(path, line, 0, "row", f"{len(header)} values", f"{len(row)}")
        place = _Line(path, line, row, columns, after)
        name = row[columns["id"]].strip()
        if seen.setdefault(name, line) != line:
            raise place.error("id", "id", "an id that no other buffer has", f"{name!r} of line {seen[name]}")
        buffers.append(place.buffer(name))
    return tuple(buffers)


@dataclass(frozen=True, slots=True)
class _Line:
    """A row with as many values as there are columns; `after`: from `upper` to the first point after the life."""

    path: str
    line: int
    row: list[str]
    columns: Mapping[str, int]
    after: int

    def buffer(self, name: str) -> Buffer:
        """What it says of the buffer. InputError for what is none."""
        row, columns = self.row, self.columns
        try:
            lower, upper, size = (int(row[columns[column]]) for column in REQUIRED[1:])
            aligned = 1 if "alignment" not in columns else int(row[columns["alignment"]])
        except ValueError:
            raise _no_integer(self.path, self.line, row, columns) from None
        what = f"buffer {name!r}"
        upper += self.after
        if upper <= lower:
            least = f"upper {'of at least' if self.after else 'above'} lower = {lower}"
            raise self.error(REQUIRED[2], what, least, str(upper - self.after))
        if size < 0 or size > LARGEST:
            raise self.error(REQUIRED[3], what, f"a size in bytes from 0 to {LARGEST}", str(size))
        if aligned < 1 or aligned > LARGEST:
            raise self.error("alignment", what, "an alignment of 1 byte or more", str(aligned))
        if abs(lower) > LARGEST or abs(upper) > LARGEST:
            raise self.error(REQUIRED[1], what, f"program points up to {LARGEST}", f"{lower}, {upper}")
        if "banks" not in columns and "constant" not in columns:
            return Buffer(name, lower, upper, size, aligned)
        return Buffer(name, lower, upper, size, aligned, self._banks(), self._constant(what))

    def _banks(self) -> tuple[str, ...]:
        return () if "banks" not in self.columns else tuple(self.row[self.columns["banks"]].split())

    def _constant(self, what: str) -> bool:
        text = "" if "constant" not in self.columns else self.row[self.columns["constant"]]
        if text.strip().lower() not in TRUTH:
            raise self.error("constant", what, "constant of 0 or 1", repr(text))
        return TRUTH[text.strip().lower()]

    def error(self, column: str, subject: str, expected: str, found: str) -> InputError:
        """At that column."""
        return _error(self.path, self.line, self.columns.get(column, 0), subject, expected, found)


def residences_csv(instance: Instance, residences: Sequence[Residence]) -> str:
    """The instance with an `offset` column, a row a residence (`lower` and `upper` are the residence's own); with a `bank`
    column where there are banks."""
    buffers = {b.id: b for b in instance.buffers}
    place = {b.id: i for i, b in enumerate(instance.buffers)}
    banked = any(r.bank for r in residences)
    rows: list[tuple[object, ...]] = [(*REQUIRED, "alignment", "offset", *(["bank"] if banked else []))]
    for r in sorted(residences, key=lambda r: (place[r.id], r.lower)):
        b = buffers[r.id]
        rows.append((r.id, r.lower, r.upper, b.size, b.alignment, r.offset, *([r.bank] if banked else [])))
    return _text(rows)


def migrations_csv(migrations: Sequence[Migration]) -> str:
    """A row a memmove, in an order in which they can run: `point,id,bank,source,target,size`, before the point's
    instruction, offsets and size in bytes."""
    rows = [(m.point, m.id, m.bank, m.source, m.target, m.size) for m in migrations]
    return _text([("point", "id", "bank", "source", "target", "size"), *rows])


def order_csv(operators: Sequence[str]) -> str:
    """A row an operator, in the order in which they run: `point,operator`."""
    return _text([("point", "operator"), *enumerate(operators)])


def _text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _columns(path: str, header: list[str]) -> dict[str, int]:
    names = [ALIASES.get(name.strip().lower(), name.strip().lower()) for name in header]
    for name in REQUIRED:
        if names.count(name) != 1:
            found = ",".join(header) if name not in names else f"{names.count(name)} columns {name!r}"
            raise _error(path, 1, 0, "header", "columns id,lower,upper,size[,alignment]", found or "nothing")
    for name in OPTIONAL:
        if names.count(name) > 1:
            raise _error(path, 1, 0, "header", f"one column {name!r}", f"{names.count(name)}")
    return {name: i for i, name in enumerate(names)}


def _no_integer(path: str, line: int, row: list[str], columns: Mapping[str, int]) -> InputError:
    for name in (*REQUIRED[1:], "alignment"):
        if name in columns:
            try:
                int(row[columns[name]])
            except ValueError:
                return _error(path, line, columns[name], name, "an integer", repr(row[columns[name]]))
    raise AssertionError("every value is an integer")


def _error(path: str, line: int, column: int, subject: str, expected: str, found: str) -> InputError:
    return InputError(path, line=line, column=column + 1, subject=subject, expected=expected, found=found)
