"""What a kind of project folder has to say of itself; the modules beside this one, and processor architectures, define them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from kilotune.codegen.emit.targets.recording import Export

PARTS: Mapping[str, str] = MappingProxyType({"source": "model.c", "header": "model.h", "check": "main.c"})
"""Where the parts of most folders are."""

HANDED, ASKS, STEPPED = (
    "is handed its whole input",
    "asks for its input",
    "is called with a frame of its input at a time",
)
"""How a program gets its input."""


@dataclass(frozen=True)
class ProjectTarget:
    """A kind of folder. `what`: a line for the command's help. `names`: the paths in it for a program named model, {folder}
    standing for the folder's name; `parts`: which of them are the source, the header and the check. `files`: text by path,
    ValueError for a folder whose name does not suit. `next_step`: what to do with the folder once it is written. `input_way`: how the
    program in it gets its input."""

    name: str
    what: str
    names: tuple[str, ...]
    files: Callable[[Export], dict[str, str]]
    next_step: Callable[[Path], str]
    parts: Mapping[str, str] = field(default_factory=lambda: PARTS)
    input_way: str = HANDED


def make_runs(rule: str, effect: str) -> Callable[[Path], str]:
    """The next step of a folder with a Makefile: `make -C FOLDER rule` has that effect."""
    return lambda folder: f"`{shlex.join(['make', '-C', str(folder), rule])}` {effect}"
