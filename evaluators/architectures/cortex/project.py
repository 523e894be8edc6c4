"""A Makefile project for Cortex-M processors; `make run` runs its check in QEMU, which prints through semihosting."""

from __future__ import annotations

from functools import partial

from kilotune.codegen.emit.targets.recording import Export, check_program, facts
from kilotune.codegen.emit.targets.target import ProjectTarget, make_runs
from kilotune.evaluators.architectures.cortex.emulated import EMULATED, EmulatedBoard, startup_code

SAMPLE_BYTES = 65536


def _files(board: EmulatedBoard, export: Export) -> dict[str, str]:
    """Text by path in the folder."""
    source = export.source
    recording = export.recording.within(source.interface, SAMPLE_BYTES)
    makefile = _MAKEFILE.replace("LEVEL", export.level)
    for name, text in (("core", board.core), ("options", " ".join(board.options)), ("machine", board.machine)):
        makefile = makefile.replace(f"@{name}@", text)
    return {
        "model.h": source.header,
        "model.c": source.source,
        "main.c": check_program(export, recording),
        "startup.c": startup_code(),
        "link.ld": board.link_script(),
        "Makefile": makefile,
        "README.md": (
            f"# A fixed-point model for {board.core}\n\nWritten by kilotune. `model.c` and `model.h` are the model: C99, no "
            f"libraries, no heap.\n\n{facts(source)}\n"
            f"Next: `make run` builds the check with arm-none-eabi-gcc and runs it in QEMU (`{board.machine}`): {len(recording)} "
            "recorded samples, every output compared with what the simulator computed. On a board of your own take `model.c` "
            "and `model.h` into its project, compiled with the options of this Makefile; `startup.c` and `link.ld` are for "
            "the emulated machine. `decisions.json` holds the bits and the scale of each variable.\n"
        ),
    }


_MAKEFILE = """\
# make: build for @core@; make run: run the check in QEMU; make size. The model is model.c and model.h alone.
CROSS ?= arm-none-eabi-
QEMU ?= qemu-system-arm
CFLAGS ?= -LEVEL
TARGET = @options@ -mthumb
WARNINGS = -std=gnu99 -Wall -Wextra -Werror
LINKED = -nostartfiles --specs=nano.specs --specs=rdimon.specs -T link.ld -Wl,--gc-sections

.PHONY: all run size clean

all: check-model.elf

check-model.elf: startup.c main.c model.c model.h link.ld
\t$(CROSS)gcc $(TARGET) $(CFLAGS) $(WARNINGS) -fwrapv -ffunction-sections -fdata-sections -o $@ startup.c main.c model.c $(LINKED)

run: check-model.elf
\t$(QEMU) -M @machine@ -nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel check-model.elf

size: check-model.elf
\t$(CROSS)size check-model.elf

clean:
\trm -f check-model.elf
"""


def _project(processor: str, what: str) -> ProjectTarget:
    names = ("model.h", "model.c", "main.c", "startup.c", "link.ld", "Makefile", "README.md")
    files = partial(_files, EMULATED[processor])
    return ProjectTarget(processor, what, names, files, make_runs("run", "runs it in QEMU"))


PROJECTS = (
    _project("cortex-m0plus", "a Makefile project for arm-none-eabi-gcc; `make run` runs it in QEMU"),
    _project("cortex-m4", "the same with a floating-point unit"),
    _project("cortex-m55", "the same with vectors (Helium)"),
)
