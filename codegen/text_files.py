"""Text files of a user's, read whole: with a bound, since a file that is far too large is a mistake and would fill the memory."""

from __future__ import annotations

from pathlib import Path

from kilotune.codegen.diagnostics import InputError

MOST_TEXT_BYTES = 16 << 20
"""The largest file of a program, of JSON or TOML: a hundred times the largest that were seen."""


def read_text_file(path: Path, what: str, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """The text of a file, without a byte order mark. `what` names the file's kind in messages: "a JSON file".

    Raises InputError for a file that cannot be read, that is no UTF-8, or that holds more than `most_bytes`; no more than
    that is read of a file whose size is not known before, such as a device.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(most_bytes + 1)
    except OSError as error:
        raise InputError(str(path), expected=what, found=error.strerror or str(error)) from None
    if len(content) > most_bytes:
        size_bytes = path.stat().st_size
        found = f"{size_bytes} bytes" if size_bytes > most_bytes else "more"
        raise InputError(str(path), expected=f"{what} of at most {most_bytes} bytes", found=found)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(str(path), expected=f"{what} in UTF-8", found=f"no UTF-8 at byte {error.start}") from None
