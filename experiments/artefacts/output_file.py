"""Single files that a command is asked to write its result to, `-` being stdout: whole or not there, and nothing lost.

A file that is there already is replaced when it is empty or as kilotune left it; any other is kept beside, as NAME.orig.
Symbolic links are refused. Pipes and devices, /dev/stdout among them, are written to and not replaced.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

import click

from kilotune.experiments.artefacts.inputs import refuse_input
from kilotune.experiments.artefacts.receipts import note_written, was_written
from kilotune.experiments.artefacts.whole_file import (
    content_hash,
    hash_of,
    is_file,
    keep_beside,
    may_write_into,
    mode_of,
    replace,
    write_new,
)

_OPEN_FILES = re.compile(r"/dev/(stdin|stdout|stderr|fd/\d+)|/proc/[^/]+/fd/\d+")


def check_output_file(option: str, file: str | Path | None, inputs: Iterable[Path] = ()) -> None:
    """Before the work, not after it: ValueError, a sentence, for a file that could not be written, or that the work reads
    (`inputs`)."""
    if file is None or str(file) == "-":
        return
    path = Path(file)
    if is_stream(path):
        return
    try:
        is_file(path)
        refuse_input(path, inputs)
    except ValueError as error:
        raise ValueError(f"{option} {file}: {error}") from None
    if not path.parent.is_dir():
        raise ValueError(f"{option} {file}: expected a file in a folder that exists.")
    if not may_write_into(path.parent):
        raise ValueError(f"{option} {file}: you may not write into its folder.")


def write_output(file: str, text: str) -> None:
    """To stdout for `-`, else as `write_whole`."""
    if file == "-":
        click.echo(text, nl=False)
    else:
        write_whole(Path(file), text)


def write_whole(path: Path, text: str | bytes) -> int:
    """Write a file, or into a stream; how many bytes. Its folder is made. What is there is replaced if kilotune wrote it, and
    else kept beside, which stderr says.

    ValueError, a sentence, for a symbolic link and for what is no file; OSError, a sentence, when the system refuses.
    """
    content = text if isinstance(text, bytes) else text.encode("utf-8", errors="replace")
    if is_stream(path):
        with path.open("ab") as stream:
            stream.write(content)
        return len(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = content_hash(path)
    if found is None:
        write_new(path, content)
    else:
        if found not in (hash_of(b""), hash_of(content)) and not was_written(path, found):
            kept = keep_beside(path)
            click.echo(f"{path} was there and not as kilotune writes it: it is kept as {kept.name}", err=True)
        replace(path, content)
    note_written(path, hash_of(content))
    return len(content)


def is_stream(path: Path) -> bool:
    """Whether what is written there goes on to somewhere: a pipe, a terminal or /dev/null, or a file that the shell opened and
    that others write to as well."""
    if _OPEN_FILES.fullmatch(os.path.abspath(path)):
        return True
    mode = mode_of(path)
    return mode is not None and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode))
