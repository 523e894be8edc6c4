"""Text files that are whole or not there; those that a command is asked to write its result to, `-` being stdout."""

from __future__ import annotations

from pathlib import Path

import click


def check_output_file(option: str, file: str | None) -> None:
    """Before the work, not after it: ValueError for a file that could not be written."""
    if file not in (None, "-"):
        path = Path(str(file)).resolve()
        if path.is_dir() or not path.parent.is_dir():
            raise ValueError(f"{option} {file}: expected a file in a folder that exists.")


def write_output(file: str, text: str) -> None:
    """Beside, then renamed: a reader never sees half a file. Links are followed; what is no file, a device or a pipe, is
    written to and not replaced."""
    if file == "-":
        click.echo(text, nl=False)
        return
    path, given = Path(file).resolve(), Path(file).absolute()
    if path.exists() and (not path.is_file() or given.is_relative_to("/dev") or given.is_relative_to("/proc")):
        with given.open("a", encoding="utf-8") as opened:
            opened.write(text)
        return
    write_whole(path, text)


def write_whole(path: Path, text: str) -> int:
    """Write beside, then rename: a reader never sees half a file. Its folder is made; how many bytes it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        size_bytes = partial.write_bytes(text.encode("utf-8", errors="replace"))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return size_bytes
