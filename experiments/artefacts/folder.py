"""A folder of artefacts, in which files of the user's may lie beside ours.

Only files of the manifest that are as kilotune wrote them are replaced or removed. One that was edited since is kept beside,
as NAME.orig: an export ends a search of hours, which a refusal would throw away. A file that is in no manifest is the user's: it
is never touched, and where an artefact wants its name, the export is refused before anything is written (`check` says so before
the search). That holds too for folders of versions of kilotune that kept no manifest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import click

from kilotune.experiments.artefacts.inputs import refuse_input, same_file
from kilotune.experiments.artefacts.manifest import MANIFEST, Manifest, is_inside, read_manifest
from kilotune.experiments.artefacts.whole_file import (
    content_hash,
    hash_of,
    is_file,
    is_partial,
    keep_beside,
    may_write_into,
    mode_of,
    new_token,
    partial_file,
    replace,
    write_new,
)


class RefusedOutputError(ValueError):
    """The artefacts cannot go there without loss for the user; a sentence."""


@dataclass(frozen=True)
class ArtefactFolder:
    """Where a candidate's files go. `inputs`: files that the search reads, which no artefact may replace. `alone`: the folder
    must be new, empty or kilotune's, since compilers take in all that lies there."""

    path: Path
    inputs: tuple[Path, ...] = ()
    alone: bool = False

    def check(self, names: Collection[str]) -> None:
        """RefusedOutputError, a sentence, when files of these names ("lib/model/model.c") could not be written there."""
        self._require_folder()
        manifest = self._manifest()
        if manifest is None and self.alone and self.path.is_dir():
            self._refuse_strangers()
        known = manifest or Manifest()
        for name in names:
            assert is_inside(name), name
            self._check_file(name, known)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Text or bytes by name; afterwards these are the artefacts of the folder, and those of an earlier export that are not among
        them are gone. RefusedOutputError as `check`, OSError, a sentence, when the system refuses."""
        self.check(files)
        made = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with _alone_in(self.path):
                self.check(files)  # another process may have exported since
                self._write({name: _encoded(content) for name, content in files.items()})
        except BaseException:
            if made:
                with contextlib.suppress(OSError):
                    self.path.rmdir()  # if nothing came into it
            raise

    def _write(self, contents: Mapping[str, bytes]) -> None:
        old = self._manifest() or Manifest()
        digests = {name: hash_of(content) for name, content in contents.items()}
        wanted_folders = [folder for name in contents for folder in _folders_of(name)]
        during = old.before(digests, (f for f in wanted_folders if not (self.path / f).exists()), new_token())
        during.write(self.path)
        self._remove_partials(old, wanted_folders)
        for name, content in contents.items():
            self._put(name, content, digests[name], during)
        for name in old.files:
            if name not in contents:
                self._remove(name, old)
        for folder in sorted(set(during.folders) - set(wanted_folders), key=len, reverse=True):
            with contextlib.suppress(OSError):
                (self.path / folder).rmdir()  # one of ours, if nothing of the user's is in it
        there = tuple(folder for folder in during.folders if (self.path / folder).is_dir())
        Manifest({name: (digest,) for name, digest in digests.items()}, there).write(self.path, during.token)

    def _put(self, name: str, content: bytes, digest: str, during: Manifest) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        found = content_hash(path)
        if found == digest:
            return  # `make` has nothing to build again
        if found is None:
            try:
                write_new(path, content, during.token)
            except FileExistsError:
                raise RefusedOutputError(_in_the_way(path)) from None
            return
        if not during.holds(name, found):
            kept = keep_beside(path)
            click.echo(f"{path} has been edited: what was there is kept as {kept.name}", err=True)
        replace(path, content, during.token)

    def _remove(self, name: str, old: Manifest) -> None:
        path = self.path / name
        try:
            found = content_hash(path)
        except ValueError:
            return  # a link or a folder: the user's
        if found is not None and old.holds(name, found) and not any(same_file(path, other) for other in self.inputs):
            path.unlink()

    def _remove_partials(self, old: Manifest, folders: Iterable[str]) -> None:
        """Remove the partial files that a killed export has left."""
        if old.token is None:
            return
        for folder in {"", *folders, *(folder for name in old.files for folder in _folders_of(name))}:
            if not any((self.path / above).is_symlink() for above in (*_folders_of(folder), folder) if above):
                with contextlib.suppress(OSError):
                    partial_file(self.path / folder, old.token).unlink()

    def _require_folder(self) -> None:
        with contextlib.suppress(PermissionError):  # below says what follows from that
            if self.path.is_symlink() and not self.path.exists():
                raise RefusedOutputError(f"{self.path} is a symbolic link to nothing: choose another directory.")
            if self.path.exists() and not self.path.is_dir():
                raise RefusedOutputError(f"{self.path} is a file: choose another directory.")
        if not may_write_into(self.path):
            raise RefusedOutputError(f"{self.path} may not be written by you: choose another directory.")

    def _manifest(self) -> Manifest | None:
        try:
            return read_manifest(self.path)
        except ValueError as error:
            raise RefusedOutputError(str(error)) from None

    def _refuse_strangers(self) -> None:
        held = sorted(path.name for path in self.path.iterdir() if not is_partial(path.name))
        if held:
            raise RefusedOutputError(
                f"{self.path} already holds {held[0]}, and no {MANIFEST} says that kilotune wrote it: choose another directory, "
                f"or an empty one."
            )

    def _check_file(self, name: str, manifest: Manifest) -> None:
        path = self.path / name
        for folder in _folders_of(name):
            mode = mode_of(self.path / folder)
            if mode is not None and ((self.path / folder).is_symlink() or not (self.path / folder).is_dir()):
                raise RefusedOutputError(
                    f"{self.path / folder} is no directory of this folder's own: move it away, or choose another directory."
                )
        try:
            there = is_file(path)
        except ValueError as error:
            raise RefusedOutputError(f"{error} Move it away, or choose another directory.") from None
        if not there:
            return
        try:
            refuse_input(path, self.inputs)
        except ValueError as error:
            raise RefusedOutputError(str(error)) from None
        if name not in manifest.files:
            raise RefusedOutputError(_in_the_way(path))


def _in_the_way(path: Path) -> str:
    return f"{path} is in the way, and no {MANIFEST} says that kilotune wrote it: move it away, or choose another directory."


def _encoded(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", errors="replace")


def _folders_of(name: str) -> list[str]:
    """The folders inside that a path goes through, the outermost first."""
    return [str(parent) for parent in reversed(PurePosixPath(name).parents) if str(parent) != "."]


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Processes that share a study end at the same time, and with the same folder: one after the other."""
    descriptor = None
    with contextlib.suppress(ImportError, OSError):  # systems and network folders without locks
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
