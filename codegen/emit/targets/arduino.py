"""A sketch folder for the Arduino IDE: the folder's name is the sketch's."""

from __future__ import annotations

import re
from types import MappingProxyType

from kilotune.codegen.emit.targets.recording import AVR_SAMPLE_BYTES, Export, facts, samples_header
from kilotune.codegen.emit.targets.sketch import BAUD, sketch
from kilotune.codegen.emit.targets.target import PARTS, ProjectTarget


def files(export: Export) -> dict[str, str]:
    """Text by path in the folder. ValueError for a folder whose name is no sketch's."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}", export.name):
        raise ValueError(
            f"{export.name!r} is no name for a sketch: choose a folder named with letters, digits, '_', '.' and '-', "
            f"at most 63."
        )
    source = export.source
    recording = export.recording.within(source.interface, AVR_SAMPLE_BYTES)
    typed = (
        "each frame is computed as soon as its numbers are there"
        if source.interface.pushed
        else "the answer is the model's"
    )
    usage = (
        f" * 1. Open {export.name}.ino in the Arduino IDE, choose the board, upload.\n"
        f" * 2. Open the serial monitor at {BAUD} baud: {len(recording)} recorded samples run first, each compared with what\n"
        " *    the simulator computed.\n"
        f" * 3. Then type a sample, its numbers separated by spaces; {typed}.\n"
    )
    return {
        f"{export.name}.ino": sketch(export, usage),
        "model.h": source.header,
        "model.c": with_level(source.source, export.level),
        "samples.h": samples_header(source.interface, recording),
        "README.md": (
            f"# A fixed-point model for the Arduino IDE\n\nWritten by kilotune. `model.c` and `model.h` are the model.\n\n"
            f"{facts(source)}\nNext: open `{export.name}.ino` in the Arduino IDE, choose the board, upload, and open the serial "
            f"monitor at {BAUD} baud. The sketch runs {len(recording)} recorded samples, compares each with what the simulator "
            "computed and says how long it took; then it reads samples that you type. The folder must keep its name, which "
            "is the sketch's. `decisions.json` holds the bits and the scale of each variable.\n"
        ),
    }


def with_level(text: str, level: str) -> str:
    """The IDE compiles with -Os; a pragma asks for another level where that is wanted."""
    if level == "Os":
        return text
    first, rest = text.split("\n", 1)
    return f'{first}\n#if defined(__GNUC__) && !defined(__clang__)\n#pragma GCC optimize("{level}")\n#endif\n{rest}'


TARGET = ProjectTarget(
    "arduino",
    "a sketch folder for the Arduino IDE, which reports on the serial port",
    ("{folder}.ino", "model.h", "model.c", "samples.h", "README.md"),
    files,
    lambda folder: f"open {folder.absolute().name}.ino in the Arduino IDE and upload it",
    MappingProxyType({**PARTS, "check": "{folder}.ino"}),
)
