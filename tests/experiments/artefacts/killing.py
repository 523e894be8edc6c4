"""Run as a program: exports killed with -9 at every call of the system that they make, a child process each."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kilotune.experiments.artefacts.folder import ArtefactFolder
from kilotune.experiments.artefacts.whole_file import is_partial
from tests.experiments.artefacts.test_folder import PROJECT, C, contents

CALLS = ("open", "link", "unlink", "rename", "replace", "mkdir", "rmdir", "fsync", "chmod")
EDITED = "int mine;\n"
MINE = {"thesis.tex": "years", "src/mine.c": "int mine;\n", "model.c.orig": "mine"}


def prepare(folder: Path, first: bool) -> None:
    """Unless this is the first export: an earlier one with an edited artefact, and files of the user's beside it."""
    if not first:
        ArtefactFolder(folder, alone=True).write(C)
        (folder / "src").mkdir()
        for name, text in MINE.items():
            (folder / name).write_text(text)
        (folder / "README.md").write_text(EDITED)


def export_until(moment: int, folder: Path) -> bool:
    """Whether the export was killed before its call of that number."""
    child = os.fork()
    if child == 0:
        calls = itertools.count(1)

        def mortal(call: Callable[..., Any]) -> Callable[..., Any]:
            def made(*args: Any, **options: Any) -> Any:
                if next(calls) == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **options)

            return made

        for name in CALLS:
            setattr(os, name, mortal(getattr(os, name)))
        try:
            ArtefactFolder(folder, alone=True).write(PROJECT)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def check(folder: Path, first: bool) -> None:
    """All that is the user's is there, and the next exports end as if nothing had happened."""
    mine = {} if first else MINE
    edited = [] if first else [EDITED]
    for files in ({}, PROJECT, C):
        if files:
            ArtefactFolder(folder, alone=True).write(files)
        found = (
            {name: text for name, text in contents(folder).items() if not is_partial(name)} if folder.is_dir() else {}
        )
        assert {name: found.get(name) for name in mine} == mine
        if files:
            assert {name: found[name] for name in files} == files
            assert [text for name, text in found.items() if name not in {*files, *mine}] == edited, found
    assert len([path for path in folder.rglob("*") if is_partial(path.name)]) <= 1, (
        "that of the first manifest, at most"
    )


def main(place: Path) -> None:
    """Print how many moments there were."""
    for first in (True, False):
        for moment in itertools.count(1):
            folder = place / f"{first}-{moment}"
            prepare(folder, first)
            killed = export_until(moment, folder)
            check(folder, first)
            if not killed:
                print(moment - 1)
                break


if __name__ == "__main__":
    main(Path(sys.argv[1]))
