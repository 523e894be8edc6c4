"""One file, whole or not there: written beside under a name that nobody can guess, made durable, then put in place.

A partial file is made with O_EXCL, so that nothing planted under its name is written through, and a symbolic link is neither
followed nor replaced. What is said about a path is said about its last part: the folders before it may be links.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

KEPT = ".orig"
"""Behind the name of a file that was in the way and is kept."""

_PARTIAL = re.compile(r"\.kilotune-[0-9a-f]{32}\.partial")


def new_token() -> str:
    """What makes the name of a partial file one that is not there, and that nobody foresees: 128 random bits in hex."""
    return secrets.token_hex(16)


def partial_file(folder: Path, token: str) -> Path:
    """Where a file is written before it has its name."""
    return folder / f".kilotune-{token}.partial"


def is_partial(name: str) -> bool:
    """Whether a file of that name is a partial one, which a killed process left behind."""
    return _PARTIAL.fullmatch(name) is not None


def content_hash(path: Path) -> str | None:
    """SHA-256 in hex of a file; None where there is none. ValueError, a sentence, for a link and for what is no file (a
    folder, a pipe, a device); OSError when it cannot be read."""
    if not is_file(path):
        return None
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with _explained(path, "read"), os.fdopen(os.open(path, flags), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_of(content: bytes) -> str:
    """SHA-256 in hex, as `content_hash` has it."""
    return hashlib.sha256(content).hexdigest()


def is_file(path: Path) -> bool:
    """Whether a file is there; False for nothing. ValueError, a sentence, for a link and for what is no file."""
    mode = mode_of(path)
    if mode is None:
        return False
    if stat.S_ISLNK(mode):
        raise ValueError(f"{path} is a symbolic link to {os.readlink(path)}: links are neither followed nor replaced.")
    if not stat.S_ISREG(mode):
        what = "directory" if stat.S_ISDIR(mode) else "device, a pipe or a socket"
        raise ValueError(f"{path} is a {what}: expected a file, or nothing, of that name.")
    return True


def mode_of(path: Path) -> int | None:
    """Type and permissions of what has that name, a link's own; None when nothing has."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_new(path: Path, content: bytes, token: str | None = None) -> None:
    """FileExistsError when there is something of that name, even if it came while this was writing; OSError, a sentence,
    when it cannot be written."""
    with _partial(path, content, token) as partial:
        put_new(partial, path)


def replace(path: Path, content: bytes, token: str | None = None) -> None:
    """The new file has the permissions of the old one. ValueError, a sentence, for a link and for what is no file; OSError,
    a sentence, when it cannot be written."""
    permissions = stat.S_IMODE(path.lstat().st_mode) if is_file(path) else None
    with _partial(path, content, token) as partial:
        if permissions is not None:
            partial.chmod(permissions)
        partial.replace(path)


def put_new(partial: Path, path: Path) -> None:
    """Give a finished file its name. FileExistsError when that is taken."""
    try:
        os.link(partial, path, follow_symlinks=False)  # unlike rename, never over anything
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if mode_of(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        partial.rename(path)
    else:
        partial.unlink()


def keep_beside(path: Path) -> Path:
    """Give a file a second name, NAME.orig or the first of NAME.orig.2, ... that is free, so that it outlives its first one;
    that name. OSError, a sentence, when that cannot be done."""
    for number in itertools.count(1):
        kept = path.with_name(f"{path.name}{KEPT}" + (f".{number}" if number > 1 else ""))
        with _explained(kept, "written"):
            try:
                os.link(path, kept, follow_symlinks=False)
            except FileExistsError:
                if not kept.is_symlink() and kept.samefile(
                    path
                ):  # by a process that was killed before it replaced the file
                    return kept
                continue
            except OSError:  # a file system without hard links
                try:
                    write_new(kept, path.read_bytes())
                except FileExistsError:
                    continue
            return kept
    raise AssertionError("numbers do not end")


def may_write_into(folder: Path) -> bool:
    """Whether this user may make files in a folder, or make the folder."""
    try:
        there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), folder)
        effective = os.access in os.supports_effective_ids
        return there.is_dir() and os.access(there, os.W_OK | os.X_OK, effective_ids=effective)
    except PermissionError:  # not even what is there may be seen
        return False


@contextlib.contextmanager
def _partial(path: Path, content: bytes, token: str | None) -> Iterator[Path]:
    """A durable file with that content beside `path`, for the caller to rename; it is gone afterwards."""
    partial = partial_file(path.parent, token or new_token())
    with _explained(path, "written"):
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            yield partial
        finally:
            partial.unlink(missing_ok=True)
        _make_names_durable(path.parent)


def _make_names_durable(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system opens folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _explained(path: Path, done: str) -> Iterator[None]:
    """The system's own words as a sentence about the file that was meant, not about the partial one."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno is None:  # a sentence already
            raise
        raise type(error)(f"{path} cannot be {done}: {error.strerror}.") from error
