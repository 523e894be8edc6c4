"""Arrays of real numbers from `.npy`, `.npz`, `.csv` and `.txt` files, with errors that name file and element.

Nothing is read, and nothing reserved, before the header has said how much there is: an archive of kilobytes can inflate to
gigabytes, and a header of a hundred bytes can promise 10^14 elements.
"""

from __future__ import annotations

import csv
import itertools
import math
import zipfile
from array import array as packed
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.counts import counted
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.text_files import read_text_lines

RealArray = NDArray[np.float64]

SUFFIXES = (".npy", ".npz", ".csv", ".txt")
"""File types in the order of preference."""

MOST_ELEMENTS = 1 << 26
"""The most elements of one array: 512 MiB as float64. MNIST's 60 000 samples are 47 million."""

MOST_TEXT_BYTES = 1 << 30
"""The largest text file of numbers: `MOST_ELEMENTS` of them, 16 bytes each."""

COUNTED = 4
"""How many fields a first line that counts from 0 or 1 has at least to be taken for names and not for a sample."""

COMMENT = "#"
"""What a first line begins with that has names, as `numpy.savetxt` writes them, or says something that is neither names nor numbers."""

MISSING = ("", "NA", "N/A", "null", "None")
"""What tables have where a value is missing, besides NaN."""

MOST_TYPE_BYTES = 8
"""The largest element of an array: a float64."""

LARGEST = float(np.finfo(np.float32).max)
"""The largest float of 32 bits, which models have."""

BLOCK_ELEMENTS = 1 << 20
"""How much is read, or looked at, in one piece."""


def find_array_file(folder: Path, stem: str) -> Path | None:
    """The file `stem.npy`, else `.npz`, `.csv`, `.txt` of a folder; None when there is none."""
    candidates = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def read_array(path: Path, key: str | None = None) -> RealArray:
    """The array in a file; of an `.npz`, the array `key`, or the only one when `key` is None.

    Comma- or blank-separated text gives an array with two axes. Raises InputError for a file that cannot be read,
    pickled objects, elements that are not real numbers, and more than MOST_ELEMENTS of them. NaN and infinity pass: see
    `check_finite`.
    """
    if path.suffix in (".csv", ".txt"):
        return _read_text(path)
    with _read_errors(path, "an array file"), path.open("rb") as stream:
        if stream.read(4) == b"PK\x03\x04":
            return _read_member(path, key)
        stream.seek(0)
        return _read_npy(stream, path, path.stat().st_size)


def read_table(path: Path) -> tuple[tuple[str, ...], RealArray]:
    """The names of the columns in the first line of a text file, none where that has numbers, and the array, as `read_array`."""
    if path.suffix not in (".csv", ".txt"):
        return (), read_array(path)
    lines = iter(read_text_lines(path, "a text file of numbers", MOST_TEXT_BYTES))
    first = next(lines, "")
    with _broken_quotes(path, 1):
        names = _names(first, next(filter(str.strip, lines), first))
    named = bool(names) and not any(_is_number(name) for name in names)
    if not named and _counts("," in first, names):
        found = f"{names[0]} to {names[-1]}, as pandas names the columns of an array; if it is a sample, a line of names belongs above it"
        raise InputError(str(path), place="line 1", expected="names of columns, or numbers of a sample", found=found)
    expected = "numbers (of a class that has a text as its name, its place among the classes, counted from 0)"
    table = _read_text(path, int(named), expected)
    if not named:
        return (), table
    if table.size and table.shape[1] != len(names):
        if first.startswith(COMMENT):
            return (), table
        expected = f"{counted(table.shape[1], 'name')}, as there are columns"
        raise InputError(str(path), place="line 1", expected=expected, found=str(len(names)))
    return tuple(names), table


def _names(line: str, below: str) -> list[str]:
    """The fields of a first line, above one of numbers: where those stand between blanks, names may be between tabs, with blanks and commas
    in them. Without the sign that `numpy.savetxt` writes before names."""
    text = line.removeprefix(COMMENT).lstrip() if line.startswith(COMMENT) else line
    if "\t" in text and "," not in below:
        return [field.strip() for field in next(csv.reader([text], delimiter="\t"), [])]
    return _fields(text)


def _counts(commas: bool, fields: list[str]) -> bool:
    """Whether a first line counts from 0 or 1, as names that pandas makes of numbers of columns do, between commas."""
    if not commas or len(fields) < COUNTED or not all(_is_number(field) for field in fields):
        return False
    return any([float(field) for field in fields] == list(range(start, start + len(fields))) for start in (0, 1))


def _fields(line: str) -> list[str]:
    """What stands between commas, or else blanks, without quotation marks around it. csv.Error for more than it takes between those."""
    if line.count('"') > 1 and "," in line:  # commas within them are part of a name
        return [field.strip() for field in next(csv.reader([line], skipinitialspace=True), [])]
    fields = [field.strip() for field in (line.split(",") if "," in line else line.split())]
    return [field[1:-1] if len(field) > 1 and field[0] == field[-1] == '"' else field for field in fields]


@contextmanager
def _broken_quotes(path: Path, number: int) -> Iterator[None]:
    """InputError for what `csv` does not take as fields."""
    try:
        yield
    except csv.Error as error:
        raise InputError(
            str(path), place=f"line {number}", expected="fields between commas", found=str(error)
        ) from None


def _number(text: str) -> float:
    """ValueError for what is no number, and for what is one in Python alone."""
    if "_" in text:
        raise ValueError(f"no number: {text!r}")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        _number(text)
    except ValueError:
        return False
    return True


def array_names(path: Path) -> frozenset[str]:
    """The names of the arrays in an `.npz` file. InputError for a file that is none."""
    with _read_errors(path, "arrays by name"), zipfile.ZipFile(path) as archive:
        return frozenset(_members(archive))


def check_finite(array: RealArray, path: Path, subject: str = "") -> None:
    """Raises InputError naming the first element (indices count from 0) that is NaN, infinite, or beyond all floats of 32 bits.
    `subject`: which of the file's arrays it is, where there are several."""
    rows = max(1, BLOCK_ELEMENTS * len(array) // max(array.size, 1)) if array.ndim else 1
    for start in range(0, len(array) if array.ndim else 1, rows):
        block = array[start : start + rows] if array.ndim else array
        held = np.abs(block) <= LARGEST  # of NaN and infinity neither
        if held.all():
            continue
        first = tuple(int(i) for i in np.argwhere(~held)[0])
        index = (first[0] + start, *first[1:]) if first else ()
        place = f"element [{', '.join(map(str, index))}]"
        expected = "a number of a float of 32 bits" if np.isfinite(array[index]) else "a finite number"
        raise InputError(str(path), place=place, subject=subject, expected=expected, found=str(array[index]))


def round_to_float32(features: RealArray) -> RealArray:
    """The array itself, every element rounded in place to the nearest float of 32 bits: an exported program's header takes features as
    such, and so do ONNX files, so that a search must not see more digits than they do. `check_finite` has bounded them."""
    elements = features.reshape(-1)
    for start in range(0, elements.size, BLOCK_ELEMENTS):
        block = elements[start : start + BLOCK_ELEMENTS]
        block[:] = block.astype(np.float32)
    return elements.reshape(features.shape)


@contextmanager
def _read_errors(path: Path, expected: str) -> Iterator[None]:
    """InputError for whatever a damaged file makes zipfile, its decompressors and NumPy's reader of headers raise."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise InputError(str(path), expected=expected, found=f"one that cannot be read ({reason})") from None


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members by the names of their arrays."""
    return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}


def _read_member(path: Path, key: str | None) -> RealArray:
    with zipfile.ZipFile(path) as archive:
        members = _members(archive)
        if key is None and len(members) != 1:
            raise InputError(str(path), subject="arrays", expected="one", found=", ".join(members) or "none")
        name = next(iter(members)) if key is None else key
        with archive.open(members[name]) as stream:
            return _read_npy(stream, path, members[name].file_size, f"array {name}" if len(members) > 1 else "")


def _read_npy(stream: IO[bytes], path: Path, size_bytes: int, subject: str = "") -> RealArray:
    """The array of a stream in NumPy's format, which has so many bytes or fewer. In blocks: of a large one there is no second copy."""
    shape, order, dtype = _read_header(stream)
    if dtype.hasobject:
        raise InputError(str(path), subject=subject, expected="an array file", found="pickled objects")
    if dtype.kind not in "fiub" or dtype.itemsize > MOST_TYPE_BYTES:
        elements = f"{subject}: elements" if subject else "elements"
        raise InputError(str(path), subject=elements, expected="real numbers", found=f"type {dtype}")
    if any(extent < 0 for extent in shape):
        raise InputError(str(path), subject=subject, expected="extents from 0", found=f"shape {shape}")
    count = math.prod(shape)
    if count > MOST_ELEMENTS:
        found = f"{count} ({count * dtype.itemsize} bytes)"
        raise InputError(str(path), subject=subject, expected=f"at most {MOST_ELEMENTS} elements", found=found)
    there = size_bytes - stream.tell()
    values = np.empty(count if there >= count * dtype.itemsize else 0)
    for start in range(0, values.size, BLOCK_ELEMENTS):
        block = values[start : start + BLOCK_ELEMENTS]
        content = stream.read(block.size * dtype.itemsize)
        if len(content) < block.size * dtype.itemsize:
            there = start * dtype.itemsize + len(content)
            break
        block[:] = np.frombuffer(content, dtype)
    if there < count * dtype.itemsize:
        expected = f"{count * dtype.itemsize} bytes of elements, as the header says"
        raise InputError(str(path), subject=subject, expected=expected, found=str(there))
    return values.reshape(shape, order="F" if order else "C")


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, whether the first axis is the fastest, type). ValueError."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"format version {version[0]}.{version[1]} is not one of 1.0 and 2.0")
    try:
        return readers[version](stream)
    except Exception:  # NumPy evaluates the header as Python, and what that raises can be anything
        raise ValueError("its header is damaged") from None


def _read_text(path: Path, skipped: int = 0, expected: str = "numbers") -> RealArray:
    """The numbers behind so many lines. InputError that says what was `expected`."""
    numbers, rows, width = packed("d"), 0, 0
    lines = itertools.islice(read_text_lines(path, "a text file of numbers", MOST_TEXT_BYTES), skipped, None)
    for number, line in enumerate(lines, start=1 + skipped):
        with _broken_quotes(path, number):
            fields = _fields(line)
        if not fields:
            continue
        if rows and len(fields) != width:
            found = str(len(fields))
            wanted = f"{counted(width, 'number')} as in the lines before"
            raise InputError(str(path), place=f"line {number}", expected=wanted, found=found)
        try:
            numbers.extend(map(_number, fields))
        except ValueError as error:
            found = str(error).rpartition(": ")[2]
            wanted = "a number in every column (of all samples)" if found.strip("'") in MISSING else expected
            raise InputError(str(path), place=f"line {number}", expected=wanted, found=found) from None
        rows, width = rows + 1, len(fields)
        if len(numbers) > MOST_ELEMENTS:
            wanted = f"at most {MOST_ELEMENTS} elements"
            raise InputError(str(path), place=f"line {number}", expected=wanted, found="more")
    return np.frombuffer(numbers, dtype=np.float64).reshape(rows, width) if rows else np.zeros((0, 0))
