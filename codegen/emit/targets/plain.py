"""C sources and a Makefile: the check runs on the host, and the model compiles for an AVR."""

from __future__ import annotations

from kilotune.codegen.counts import counted
from kilotune.codegen.emit.targets.recording import Export, check_program, facts
from kilotune.codegen.emit.targets.target import ProjectTarget, make_runs


def files(export: Export) -> dict[str, str]:
    """Text by path in the folder."""
    source, name = export.source, export.source.name
    return {
        f"{name}.h": source.header,
        f"{name}.c": source.source,
        "main.c": check_program(export, export.recording),
        "Makefile": _MAKEFILE.replace("model", name).replace("LEVEL", export.level),
        "README.md": (
            f"# A fixed-point model in C\n\nWritten by kilotune. `{name}.c` and `{name}.h` are the model: C99, no libraries, "
            f"no heap, the same on a host and on a microcontroller.\n\n{facts(source)}\n"
            f"Next: `make check` builds `main.c`, which runs the model on {counted(len(export.recording), 'recorded input')} and compares "
            "every output with what the simulator computed. `make avr` compiles the model for an AVR (`MCU=atmega328p`) and "
            "says its size. `decisions.json` holds the bits and the scale of each variable.\n"
        ),
    }


_MAKEFILE = """\
# make: build the check; make check: run it; make avr: the model for an AVR. The model is model.c and model.h alone.
CC ?= cc
CFLAGS ?= -O2
WARNINGS = -std=c99 -Wall -Wextra -Werror
MCU ?= atmega328p
AVR_CFLAGS ?= -LEVEL

.PHONY: all check avr clean

all: check-model

check-model: main.c model.c model.h
\t$(CC) $(CFLAGS) $(WARNINGS) -o $@ main.c model.c

check: check-model
\t./check-model

avr: model-avr.o
\tavr-size model-avr.o

model-avr.o: model.c model.h
\tavr-gcc -mmcu=$(MCU) $(AVR_CFLAGS) $(WARNINGS) -fwrapv -c -o $@ model.c

clean:
\trm -f check-model model-avr.o
"""


TARGET = ProjectTarget(
    "c",
    "C sources and a Makefile: `make check` on the host, `make avr`",
    ("model.h", "model.c", "main.c", "Makefile", "README.md"),
    files,
    make_runs("check", "runs it"),
)
