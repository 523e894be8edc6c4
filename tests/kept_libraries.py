"""Our compiled C for a cache of a test's own: compiled anew it costs each process with an empty one up to half a minute."""

from __future__ import annotations

from pathlib import Path

from kilotune.evaluators.compiled_library import cache_folder
from kilotune.evaluators.fixed_point.kernel import load_all_roundings


def with_libraries(folder: Path) -> Path:
    """The cache folder, made where it is missing, with links to the libraries of this user's own cache and with nothing else.

    A library's name has the digest of its sources, compiler and flags, so that no stale one is ever loaded.
    """
    load_all_roundings()
    folder.mkdir(parents=True, exist_ok=True)
    for library in cache_folder().glob("*.so"):
        (folder / library.name).symlink_to(library)
    return folder
