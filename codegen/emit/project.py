"""Folders with an emitted program, ready for a host's compiler, a device's, or an IDE; each checks itself.

What is in them is said here; that nothing of the user's is lost where they are written is the front door's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.levels import LEVELS
from kilotune.codegen.emit.targets import arduino, cmsis_pack, plain, platformio, stepped, streamed, zephyr
from kilotune.codegen.emit.targets.recording import Export, Recording, check_recording
from kilotune.codegen.emit.targets.target import ProjectTarget

DECISIONS = "decisions.json"
"""Bits and scale of each variable, beside the program."""

GENERAL_TARGETS = (
    *(plain.TARGET, streamed.TARGET, stepped.TARGET, arduino.TARGET, stepped.SKETCH),
    *(platformio.TARGET, zephyr.TARGET, cmsis_pack.TARGET),
)
"""What a folder can be made for whatever the processor; an architecture adds its own (`evaluators.project_targets`)."""


def project_names(target: ProjectTarget, folder: str) -> tuple[str, ...]:
    """The paths in the folder that `project_files` has for a program named model, known before there is one."""
    return (*(name.format(folder=folder) for name in target.names), DECISIONS)


def project_files(
    folder: str,
    source: CSource,
    recording: Recording,
    decisions: Mapping[str, Any],
    target: ProjectTarget = plain.TARGET,
    level: str = LEVELS[0],
) -> dict[str, str]:
    """Text by path in a folder of that name: the program with what `target` needs around it, decisions.json and README.md.

    `decisions`: bits and scale of each variable (anything that JSON can hold). `level`: one of LEVELS, for the device. Raises
    ValueError when the recording does not fit the program, or the folder's name does not suit the target.
    """
    check_recording(source.interface, recording)
    files = target.files(Export(source, recording, folder, level))
    files[DECISIONS] = json.dumps({"target": target.name, "optimisation": level, **decisions}, indent=2) + "\n"
    return files
