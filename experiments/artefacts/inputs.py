"""The files that a search reads: nothing is ever written over them, by whatever name they are called."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kilotune.experiments.requests.request import TuneRequest

if TYPE_CHECKING:
    from kilotune.search.store import Store

COMPANIONS = ("-wal", "-shm")
"""Files that SQLite keeps beside a database."""


def files_read(request: TuneRequest) -> tuple[Path, ...]:
    """The input, all files in it when it is a folder, and files that options name (they are stored as absolute paths).
    Empty for what is bundled under a name, and for what is gone."""
    named = [Path(option) for option in request.options.values() if isinstance(option, str) and os.path.isabs(option)]
    places = [*([Path(request.input)] if request.input else []), *named]
    found = [file for place in places for file in (sorted(place.iterdir()) if place.is_dir() else [place])]
    return tuple(file for file in found if file.is_file())


def files_of_store(store: Store) -> tuple[Path, ...]:
    """The database of the studies; empty for a server."""
    database = Path(store.place)
    names = (database, *(database.with_name(database.name + end) for end in COMPANIONS)) if database.name else ()
    return tuple(file for file in names if file.is_file())


def refuse_input(path: Path, inputs: Iterable[Path]) -> None:
    """ValueError, a sentence, when a file that is to be written is one of the inputs."""
    for read in inputs:
        if same_file(path, read):
            called = "" if Path(os.path.abspath(path)) == read else f", which is the same file as {read}"
            raise ValueError(f"{path}{called} is read by this search, and would be overwritten: choose another place.")


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file: by links, hard links, other spellings."""
    try:
        return one.samefile(other)
    except OSError:
        return False
