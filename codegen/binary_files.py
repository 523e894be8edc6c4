"""The bytes of a user's file, with a bound, since a file far too large is a mistake and would fill the memory."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from kilotune.codegen.diagnostics import InputError

PIECE_BYTES = 1 << 24


def read_binary_file(path: Path, what: str, most_bytes: int) -> bytes:
    """All bytes of a file. `what` names the file's kind in messages: "a TFLite model".

    Raises InputError for a file that cannot be read or that holds more than `most_bytes`; no more than that is read of a file whose
    size is not known before, such as a device.
    """
    try:
        with path.open("rb") as stream:
            content = _read(stream, most_bytes + 1)
    except OSError as error:
        raise InputError(str(path), expected=what, found=error.strerror or str(error)) from None
    if len(content) > most_bytes:
        raise too_large(path, what, most_bytes)
    return content


def _read(stream: BinaryIO, most_bytes: int) -> bytes:
    """At most so many bytes, a piece at a time: a single read would set memory aside for all of them before the first one comes."""
    pieces: list[bytes] = []
    left = most_bytes
    while left and (piece := stream.read(min(left, PIECE_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def too_large(path: Path, what: str, most_bytes: int) -> InputError:
    """What is said of a file of more than `most_bytes`: its size, where the file has one."""
    size_bytes = path.stat().st_size
    found = f"{size_bytes} bytes" if size_bytes > most_bytes else "more"
    return InputError(str(path), expected=f"{what} of at most {most_bytes} bytes", found=found)
