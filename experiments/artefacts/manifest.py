"""Which files of a folder kilotune wrote, and what was in them: `kilotune-manifest.json`, beside them.

Before an export changes anything it writes a manifest that knows the old contents and the new ones, and one that knows the new ones
only when it has ended. So whenever it is killed, every file of ours is known as ours by the next export, and nothing else is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from kilotune.experiments.artefacts.whole_file import is_file, replace

MANIFEST = "kilotune-manifest.json"
SCHEMA = 1


@dataclass(frozen=True)
class Manifest:
    """`files`: by path in the folder ("lib/model/model.c"), the SHA-256 of what kilotune wrote there: one, or several while
    an export goes on. `folders`: those inside that kilotune made. `token`: names the partial files of an export that has not
    ended; None for one that has."""

    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    token: str | None = None

    def holds(self, name: str, digest: str) -> bool:
        """Whether kilotune wrote a file with that content under that name."""
        return digest in self.files.get(name, ())

    def before(self, new: Mapping[str, str], folders: Iterable[str], token: str) -> Manifest:
        """What is written before an export: the old contents and the new ones, by name."""
        names = dict.fromkeys([*self.files, *new])
        files = {
            name: tuple(dict.fromkeys([*self.files.get(name, ()), *filter(None, [new.get(name)])])) for name in names
        }
        return Manifest(files, tuple(dict.fromkeys([*self.folders, *folders])), token)

    def write(self, folder: Path, token: str | None = None) -> None:
        """Atomically, by a partial file of that token. OSError, a sentence, when it cannot be written."""
        described = {
            "schema": SCHEMA,
            "about": "kilotune replaces and removes the files below while they are as it wrote them, and no others",
            "complete": self.token is None,
            "files": {name: list(digests) for name, digests in self.files.items()},
            "folders": list(self.folders),
            **({} if self.token is None else {"partial": self.token}),
        }
        replace(folder / MANIFEST, (json.dumps(described, indent=2) + "\n").encode(), token)


def read_manifest(folder: Path) -> Manifest | None:
    """None for a folder without one, and for no folder. ValueError, a sentence, for one that kilotune did not write like
    that: then nobody knows whose the files are."""
    path = folder / MANIFEST
    if not is_file(path):
        return None
    try:
        return _read(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{path} is not as kilotune wrote it ({reason}), so it does not say which files are yours: choose another "
            f"directory, or move it away and all files with it that may be replaced."
        ) from None


def _read(stored: Any) -> Manifest:
    if not isinstance(stored, dict) or stored.get("schema") != SCHEMA:
        raise ValueError(f"expected schema {SCHEMA}")
    files, folders, token = stored.get("files"), stored.get("folders"), stored.get("partial")
    if not isinstance(files, dict) or not isinstance(folders, list):
        raise ValueError("expected files and folders")
    for name in (*files, *folders):
        if not is_inside(name):
            raise ValueError(f"{name!r} is no path in the folder")
    for name, digests in files.items():
        if not isinstance(digests, list) or not all(_is_hex(digest, 64) for digest in digests):
            raise ValueError(f"{name!r} has no SHA-256")
    if token is not None and not _is_hex(token, 32):
        raise ValueError(f"{token!r} names no partial file")
    return Manifest({name: tuple(digests) for name, digests in files.items()}, tuple(folders), token)


def is_inside(name: object) -> bool:
    """Whether a text is a path to something in the folder, which neither leaves it nor is the manifest."""
    if not isinstance(name, str) or not name or "\0" in name or "\\" in name:
        return False
    path = PurePosixPath(name)
    return str(path) == name and not path.is_absolute() and ".." not in path.parts and name not in (".", MANIFEST)


def _is_hex(text: object, digits: int) -> bool:
    return isinstance(text, str) and re.fullmatch(rf"[0-9a-f]{{{digits}}}", text) is not None
