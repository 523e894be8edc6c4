"""Folders with an emitted program, ready for a host's compiler, a device's, or an IDE; each checks itself."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.targets import arduino, cortex, plain, platformio
from kilotune.codegen.emit.targets.recording import Export, Recording, check_recording

MARK = "decisions.json"
"""A folder that holds this file was written here, and may be overwritten."""

LEVELS = ("Os", "O1", "O2", "O3")
"""What a compiler of a device may be asked for."""

TARGETS: Mapping[str, Callable[[Export], dict[str, str]]] = MappingProxyType(
    {
        "c": plain.files,
        "arduino": arduino.files,
        "platformio": platformio.files,
        "cortex-m0plus": cortex.files_m0plus,
        "cortex-m4": cortex.files_m4,
    }
)
"""What a folder can be made for."""


def write_project(
    directory: Path | str,
    source: CSource,
    recording: Recording,
    decisions: Mapping[str, Any],
    target: str = "c",
    level: str = "Os",
) -> None:
    """Write the program with what `target` needs around it, decisions.json and README.md into `directory`.

    `decisions`: bits and scale of each variable (anything that JSON can hold). `level`: one of LEVELS, for the device. The
    folder appears complete or not at all. Raises ValueError when the directory holds something else, or when the
    recording does not fit the program.
    """
    folder = Path(directory).absolute()
    refuse_foreign(folder)
    check_recording(source.interface, recording)
    files = TARGETS[target](Export(source, recording, folder.name, level))
    files[MARK] = json.dumps({"target": target, "optimisation": level, **decisions}, indent=2) + "\n"
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        written = scratch / "new"
        written.mkdir()
        for name, text in files.items():
            (written / name).parent.mkdir(parents=True, exist_ok=True)
            (written / name).write_text(text, encoding="utf-8")
        _replace(folder, written, scratch / "old")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _replace(target: Path, written: Path, old: Path) -> None:
    """Put `written` at `target`; what was there comes back when that fails."""
    if not target.exists():
        written.rename(target)
        return
    target.rename(old)
    try:
        written.rename(target)
    except OSError:
        old.rename(target)
        raise


def refuse_foreign(target: Path) -> None:
    """ValueError when `target` holds something that `write_project` would destroy."""
    if target.is_dir():
        held = sorted(path.name for path in target.iterdir())
        if held and MARK not in held:
            raise ValueError(
                f"{target} already holds {held[0]}, which kilotune did not write: choose another directory"
            )
    elif target.exists():
        raise ValueError(f"{target} is a file: choose another directory")
