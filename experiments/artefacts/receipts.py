"""What kilotune wrote into single files that a user named (--json FILE, a report), so that it knows its own files again.

A receipt is a hash under the hash of a path, in the cache folder. Without one a file counts as the user's, so losing them loses
nothing.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kilotune.evaluators.compiled_library import cache_folder
from kilotune.experiments.artefacts.whole_file import hash_of, replace


def note_written(path: Path, digest: str) -> None:
    """Remember the SHA-256 of what was written at `path`. A cache folder that cannot be used is no error."""
    receipt = _receipt(path)
    with contextlib.suppress(OSError, ValueError):
        receipt.parent.mkdir(parents=True, exist_ok=True)
        replace(receipt, digest.encode())


def was_written(path: Path, digest: str) -> bool:
    """Whether the content of that SHA-256 is what kilotune last wrote at `path`."""
    with contextlib.suppress(OSError):
        return _receipt(path).read_bytes() == digest.encode()
    return False


def _receipt(path: Path) -> Path:
    return cache_folder() / "written" / hash_of(os.fsencode(os.path.realpath(path)))[:40]
