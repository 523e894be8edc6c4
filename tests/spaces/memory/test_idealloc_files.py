"""idealloc's binary instances."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.spaces.memory.idealloc_files import read_plc
from kilotune.spaces.memory.instance import Buffer


def write(path: Path, *rows: tuple[int, ...]) -> Path:
    path.write_bytes(b"".join(struct.pack(">8Q", *row) for row in rows))
    return path


def test_words_in_their_order(tmp_path: Path) -> None:
    path = write(tmp_path / "i.plc", (7, 2, 9, 4096, 1, 2, 0, 4000), (3, 9, 11, 64, 0, 0, 32, 60))
    assert read_plc(path).buffers == (Buffer("7", 2, 9, 4096), Buffer("3", 9, 11, 64, 32))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (((7, 2, 2, 4, 0, 0, 0, 4),), "buffer 7 (record 1): expected a death from 3"),
        (((7, 2, 3, 4, 0, 0, 0, 4),) * 2, "buffer 7 (record 2): expected a number that no other buffer has, found 7"),
        (((7, 2, 3, 1 << 50, 0, 0, 0, 4),), "expected sizes up to"),
    ],
)
def test_mistakes(tmp_path: Path, rows: tuple[tuple[int, ...], ...], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_plc(write(tmp_path / "i.plc", *rows))
    assert sentence in str(caught.value)


def test_a_cut_file(tmp_path: Path) -> None:
    path = write(tmp_path / "i.plc", (7, 2, 9, 4096, 1, 2, 0, 4000))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"expected records of 64 bytes, found 63 bytes"):
        read_plc(path)
