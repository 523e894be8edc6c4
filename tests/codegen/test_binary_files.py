"""Files of a user's as bytes: the whole file up to the bound, one sentence beyond it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilotune.codegen import binary_files
from kilotune.codegen.binary_files import read_binary_file
from kilotune.codegen.diagnostics import InputError


def test_the_bound_is_the_last_size_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xff" * 8)
    assert read_binary_file(path, "a model", 8) == b"\xff" * 8
    with pytest.raises(InputError, match=r"model\.bin: expected a model of at most 7 bytes, found 8 bytes"):
        read_binary_file(path, "a model", 7)


def test_what_never_ends_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a model of at most 1000 bytes, found more"):
        read_binary_file(Path("/dev/zero"), "a model", 1000)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.bin: expected a model, found No such file or directory"):
        read_binary_file(tmp_path / "none.bin", "a model", 8)


def test_memory_is_asked_for_what_is_there_and_not_for_what_may_be(tmp_path: Path) -> None:
    """The bound here is more than any machine has."""
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xff" * 8)
    assert read_binary_file(path, "a model", 1 << 50) == b"\xff" * 8


def test_a_file_of_several_pieces_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_files, "PIECE_BYTES", 3)
    path = tmp_path / "model.bin"
    path.write_bytes(bytes(range(8)))
    assert read_binary_file(path, "a model", 8) == bytes(range(8))
    with pytest.raises(InputError, match=r"of at most 7 bytes, found 8 bytes"):
        read_binary_file(path, "a model", 7)
