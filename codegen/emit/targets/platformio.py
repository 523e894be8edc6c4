"""A PlatformIO project: the model as a library of the project, the sketch as its main."""

from __future__ import annotations

import shlex
from types import MappingProxyType

from kilotune.codegen.emit.targets.recording import AVR_SAMPLE_BYTES, Export, facts, samples_header
from kilotune.codegen.emit.targets.sketch import BAUD, sketch
from kilotune.codegen.emit.targets.target import ProjectTarget

_BOARDS = (
    ("uno", "atmelavr", "uno"),
    ("mega", "atmelavr", "megaatmega2560"),
    ("mkr1000", "atmelsam", "mkr1000USB"),
    ("nano33", "nordicnrf52", "nano33ble"),
)


def files(export: Export) -> dict[str, str]:
    """Text by path in the folder."""
    source = export.source
    recording = export.recording.within(source.interface, AVR_SAMPLE_BYTES)
    usage = (
        " * 1. pio run -e uno -t upload        (or mega, mkr1000, nano33: see platformio.ini)\n"
        f" * 2. pio device monitor: {len(recording)} recorded samples run first, each compared with what the simulator computed.\n"
        " * 3. Then type a sample, its numbers separated by spaces; the answer is the model's.\n"
    )
    return {
        "platformio.ini": _ini(export.level),
        "src/main.cpp": "#include <Arduino.h>\n\n" + sketch(export, usage),
        "include/samples.h": samples_header(source.interface, recording),
        "lib/model/model.h": source.header,
        "lib/model/model.c": source.source,
        "README.md": (
            f"# A fixed-point model as a PlatformIO project\n\nWritten by kilotune. `lib/model` is the model.\n\n{facts(source)}\n"
            f"Next: `pio run -e uno -t upload`, then `pio device monitor`: {len(recording)} recorded samples run, each compared "
            "with what the simulator computed; then the program reads samples that you type. `decisions.json` holds the bits "
            "and the scale of each variable.\n"
        ),
    }


def _ini(level: str) -> str:
    lines = ["; pio run -e uno -t upload; pio device monitor", "[platformio]", "default_envs = uno", "", "[env]"]
    lines += ["framework = arduino", f"monitor_speed = {BAUD}", "build_flags = -Wall -Wextra -fwrapv"]
    if level != "Os":
        lines[-1] += f" -{level}"
        lines += ["build_unflags = -Os"]
    for name, platform, board in _BOARDS:
        lines += ["", f"[env:{name}]", f"platform = {platform}", f"board = {board}"]
    return "\n".join(lines) + "\n"


TARGET = ProjectTarget(
    "platformio",
    f"the same as a PlatformIO project ({', '.join(name for name, _, _ in _BOARDS)})",
    (
        *("platformio.ini", "src/main.cpp", "include/samples.h", "lib/model/model.h", "lib/model/model.c"),
        "README.md",
    ),
    files,
    lambda folder: f"`{shlex.join(['pio', 'run', '-d', str(folder), '-t', 'upload'])}` uploads it",
    MappingProxyType({"source": "lib/model/model.c", "header": "lib/model/model.h", "check": "src/main.cpp"}),
)
