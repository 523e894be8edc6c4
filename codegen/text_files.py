"""Text files of a user's, whole or line by line: with a bound, since a file far too large is a mistake and would fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kilotune.codegen.binary_files import read_binary_file, too_large
from kilotune.codegen.diagnostics import InputError

MOST_TEXT_BYTES = 16 << 20
"""The largest file of a program, of JSON or TOML: a hundred times the largest that were seen."""


def read_text_file(path: Path, what: str, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """The text of a file, without a byte order mark. `what` names the file's kind in messages: "a JSON file".

    Raises InputError for a file that cannot be read, that is no UTF-8, or that holds more than `most_bytes`; no more than
    that is read of a file whose size is not known before, such as a device.
    """
    return _decoded(read_binary_file(path, what, most_bytes), path, what)


def read_text_lines(path: Path, what: str, most_bytes: int) -> Iterator[str]:
    """As `read_text_file`, the lines one after the other, for what need not be in memory as a whole."""
    before = 0
    try:
        with path.open("rb") as stream:
            while content := stream.readline(most_bytes + 1 - before):
                text = _decoded(content, path, what, before)
                before += len(content)
                if before > most_bytes:
                    raise too_large(path, what, most_bytes)
                yield from text.splitlines()
    except OSError as error:
        raise InputError(str(path), expected=what, found=error.strerror or str(error)) from None


def _decoded(content: bytes, path: Path, what: str, before: int = 0) -> str:
    """`before`: how many bytes of the file came before these."""
    try:
        return content.decode("utf-8" if before else "utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"no UTF-8 at byte {before + error.start}"
        raise InputError(str(path), expected=f"{what} in UTF-8", found=place) from None
