"""A Zephyr application: the model among its sources, and a main that runs the recorded samples on any board or in the native simulator."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import MappingProxyType

from kilotune.codegen.emit.targets.recording import Export, check_program, facts
from kilotune.codegen.emit.targets.target import ProjectTarget

STACK_BYTES = 4096
"""For the main thread: what the largest of the models on a Cortex-M4 takes, several times over."""


def files(export: Export) -> dict[str, str]:
    """Text by path in the folder."""
    source = export.source
    return {
        "CMakeLists.txt": _CMAKE.replace("LEVEL", export.level),
        "prj.conf": f"# printf, and room for the model\nCONFIG_PRINTK=y\nCONFIG_MAIN_STACK_SIZE={STACK_BYTES}\n",
        "sample.yaml": _SAMPLE.replace("COUNT", str(len(export.recording))),
        "src/main.c": check_program(export, export.recording),
        "src/model.h": source.header,
        "src/model.c": source.source,
        "README.md": (
            "# A fixed-point model as a Zephyr application\n\nWritten by kilotune. `src/model.c` and `src/model.h` are the model: C99, no "
            f"libraries, no heap.\n\n{facts(source)}\n"
            "Next: `west build -b BOARD .` and `west flash`, or `west build -b native_sim . -t run` on the host: "
            f"{len(export.recording)} recorded inputs run, and every output is compared with what the simulator computed. In an "
            "application of your own, add `src/model.c` to `target_sources` and call it as `src/model.h` says. `decisions.json` holds the "
            "bits and the scale of each variable.\n"
        ),
    }


_CMAKE = """\
# west build -b BOARD . && west flash
cmake_minimum_required(VERSION 3.20.0)
find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})
project(model)

target_sources(app PRIVATE src/main.c src/model.c)
# the model is written to be compiled so; the rest of the application keeps its own level
set_source_files_properties(src/model.c PROPERTIES COMPILE_OPTIONS "-LEVEL;-fwrapv")
"""

_SAMPLE = """\
# west twister -T . -p native_sim: the recorded samples as a test
sample:
  name: a fixed-point model
tests:
  kilotune.model:
    tags: kilotune
    harness: console
    harness_config:
      type: one_line
      regex:
        - "COUNT of COUNT outputs equal"
"""


def _next_step(folder: Path) -> str:
    command = shlex.join(["west", "build", "-b", "native_sim", str(folder), "-t", "run"])
    return f"`{command}` runs it on the host, `-b BOARD` builds it for a board"


TARGET = ProjectTarget(
    "zephyr",
    "a Zephyr application that runs the recorded samples, for `west build`",
    ("CMakeLists.txt", "prj.conf", "sample.yaml", "src/main.c", "src/model.h", "src/model.c", "README.md"),
    files,
    _next_step,
    MappingProxyType({"source": "src/model.c", "header": "src/model.h", "check": "src/main.c"}),
)
