"""Folders with an emitted program, ready for a host's compiler, a device's, or an IDE; each checks itself.

What is in them is said here; that nothing of the user's is lost where they are written is the front door's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.targets import arduino, cortex, plain, platformio
from kilotune.codegen.emit.targets.recording import Export, Recording, check_recording

DECISIONS = "decisions.json"
"""Bits and scale of each variable, beside the program."""

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

NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "c": plain.NAMES,
        "arduino": arduino.NAMES,
        "platformio": platformio.NAMES,
        "cortex-m0plus": cortex.NAMES,
        "cortex-m4": cortex.NAMES,
    }
)
"""The files that a target's folder holds, with {folder} for the folder's name."""


def project_names(target: str, folder: str) -> tuple[str, ...]:
    """The paths in the folder that `project_files` has for a program named model, known before there is one."""
    return (*(name.format(folder=folder) for name in NAMES[target]), DECISIONS)


def project_files(
    folder: str,
    source: CSource,
    recording: Recording,
    decisions: Mapping[str, Any],
    target: str = "c",
    level: str = "Os",
) -> dict[str, str]:
    """Text by path in a folder of that name: the program with what `target` needs around it, decisions.json and README.md.

    `decisions`: bits and scale of each variable (anything that JSON can hold). `level`: one of LEVELS, for the device. Raises
    ValueError when the recording does not fit the program, or the folder's name does not suit the target.
    """
    check_recording(source.interface, recording)
    files = TARGETS[target](Export(source, recording, folder, level))
    files[DECISIONS] = json.dumps({"target": target, "optimisation": level, **decisions}, indent=2) + "\n"
    return files
