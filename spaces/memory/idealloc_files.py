"""idealloc's binary instances (`.plc`; https://github.com/cappadokes/idealloc): eight big-endian words of eight bytes a buffer, namely
its number, the points of its birth and of its death (excluded), its size, two words about a placement that are not read here, its
alignment (0: none), and the size that was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kilotune.codegen.binary_files import read_binary_file
from kilotune.codegen.diagnostics import InputError
from kilotune.spaces.memory.csv_files import LARGEST, MOST_BYTES
from kilotune.spaces.memory.instance import Buffer, Instance

PLC = ".plc"

WORDS, WORD_BYTES = 8, 8
RECORD_BYTES = WORDS * WORD_BYTES


def read_plc(path: Path) -> Instance:
    """Load such an instance. InputError, with the buffer: a cut word, a number twice, a death that is not after the birth, or sizes and
    points beyond what the search takes."""
    content = read_binary_file(path, "a .plc file", MOST_BYTES)
    if len(content) % RECORD_BYTES:
        raise InputError(str(path), expected=f"records of {RECORD_BYTES} bytes", found=f"{len(content)} bytes")
    rows = np.frombuffer(content, dtype=">u8").reshape(-1, WORDS).tolist()
    seen: set[int] = set()
    return Instance(path.stem, tuple(_buffer(str(path), k, row, seen) for k, row in enumerate(rows, start=1)))


def has_plc_records(path: Path) -> bool:
    """Whether a file may be one by its size."""
    return path.stat().st_size % RECORD_BYTES == 0


def _buffer(path: str, place: int, row: list[int], seen: set[int]) -> Buffer:
    number, lower, upper, size, _, _, alignment, _ = row
    where = f"buffer {number} (record {place})"
    if number in seen:
        raise InputError(path, place=where, expected="a number that no other buffer has", found=str(number))
    seen.add(number)
    if not lower < upper <= LARGEST:
        raise InputError(path, place=where, expected=f"a death from {lower + 1} to {LARGEST}", found=str(upper))
    if max(size, alignment) > LARGEST:
        raise InputError(path, place=where, expected=f"sizes up to {LARGEST}", found=str(max(size, alignment)))
    return Buffer(str(number), lower, upper, size, alignment or 1)
