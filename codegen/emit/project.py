"""A folder with the emitted program, a main that checks it against recorded outputs, and a Makefile."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilotune.codegen import ir
from kilotune.codegen.emit.c import CSource, Interface
from kilotune.codegen.emit.operators import int_type
from kilotune.codegen.emit.parameters import constant_array
from kilotune.codegen.fixed.arithmetic import IntArray

MARK = "decisions.json"
"""A folder that holds this file was written here, and may be overwritten."""


@dataclass(frozen=True)
class Recording:
    """What the simulator computed: `inputs` [n, features] as quantised integers, `outputs` [n, elements of the result]."""

    inputs: IntArray
    outputs: IntArray


def write_project(directory: Path | str, source: CSource, recording: Recording, decisions: Mapping[str, Any]) -> None:
    """Write model.c, model.h, main.c, Makefile, decisions.json and README.md into `directory`.

    `decisions`: bits and scale of each variable (anything that JSON can hold). The folder appears complete or not at
    all. Raises ValueError when the directory holds something else, or when the recording does not fit the program.
    """
    target = Path(directory).absolute()
    refuse_foreign(target)
    _check(source.interface, recording)
    files = {
        f"{source.name}.h": source.header,
        f"{source.name}.c": source.source,
        "main.c": _main(source, recording),
        "Makefile": _MAKEFILE.replace("model", source.name),
        MARK: json.dumps(decisions, indent=2) + "\n",
        "README.md": _readme(source, recording),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        written = scratch / "new"
        written.mkdir()
        for name, text in files.items():
            (written / name).write_text(text, encoding="utf-8")
        _replace(target, written, scratch / "old")
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


def _check(interface: Interface, recording: Recording) -> None:
    """The recording must have the program's shape and widths."""
    samples = recording.outputs.shape[0]
    wanted = {"inputs": (samples, interface.features), "outputs": (samples, interface.results)}
    for name, shape in wanted.items():
        found = getattr(recording, name).shape
        if found != shape:
            raise ValueError(f"recorded {name} have shape {found}, and the program needs {shape}")
    for name, bits in (("inputs", interface.input_bits or 8), ("outputs", interface.result_bits)):
        values = getattr(recording, name)
        if values.size and not -(1 << (bits - 1)) <= values.min() <= values.max() < 1 << (bits - 1):
            raise ValueError(f"recorded {name} do not fit {bits} bits: quantise them at the program's scale")


def _main(source: CSource, recording: Recording) -> str:
    face = source.interface
    samples = recording.outputs.shape[0]
    bits = face.result_bits
    arrays = [constant_array("outputs", int_type(bits), recording.outputs.reshape(-1).tolist(), bits).definition]
    arguments = []
    if face.input_bits:
        values = recording.inputs.reshape(-1).tolist()
        arrays.insert(0, constant_array("inputs", int_type(face.input_bits), values, face.input_bits).definition)
        arguments.append(f"inputs + i * {face.features}")
    if face.kind is ir.ResultKind.REAL:
        call = f"{source.function}({', '.join([*arguments, 'result'])});"
        compare = (
            f"        {int_type(bits)} result[{face.results}];\n"
            f"        {call}\n"
            f"        equal += memcmp(result, outputs + i * {face.results}, sizeof result) == 0;\n"
        )
    else:
        compare = f"        equal += {source.function}({', '.join(arguments)}) == outputs[i];\n"
    return (
        "/* Runs the model on recorded inputs and compares with the outputs that the simulator computed. */\n"
        f'#include "{source.name}.h"\n\n#include <stdio.h>\n'
        + ("#include <string.h>\n" if face.kind is ir.ResultKind.REAL else "")
        + f"\n#define SAMPLES {samples}L\n\n"
        + "\n\n".join(array.replace(" KT_FLASH", "") for array in arrays)
        + "\n\nint main(void)\n{\n    long equal = 0;\n    for (long i = 0; i < SAMPLES; i++) {\n"
        + compare
        + '    }\n    printf("%ld of %ld outputs equal\\n", equal, SAMPLES);\n'
        + "    return equal == SAMPLES ? 0 : 1;\n}\n"
    )


_MAKEFILE = """\
# make: build the check; make check: run it. The model is model.c and model.h alone.
CC ?= cc
CFLAGS ?= -O2
CFLAGS += -std=c99 -Wall -Wextra -Werror

.PHONY: all check clean

all: check-model

check-model: main.c model.c model.h
\t$(CC) $(CFLAGS) -o $@ main.c model.c

check: check-model
\t./check-model

clean:
\trm -f check-model
"""


def _readme(source: CSource, recording: Recording) -> str:
    face, name = source.interface, source.name
    if face.input_bits:
        scale = f"2**{face.input_scale}" if face.input_scale >= 0 else f"2**({face.input_scale})"
        given = (
            f"Input: {face.features} features, each as {int_type(face.input_bits)}: multiply the real value by "
            f"{scale} (`MODEL_INPUT_SCALE`) and truncate."
        )
    else:
        given = "The program takes no input."
    if face.kind is ir.ResultKind.CLASS:
        result = f"Result: the class, 0 to {face.classes - 1}."
    else:
        result = (
            f"Result: {face.results} values of {int_type(face.result_bits)}; divide by 2 to the power of "
            f"`MODEL_RESULT_SCALE` ({face.result_scale})."
        )
    return (
        f"# A fixed-point model in C\n\nWritten by kilotune. `{name}.c` and `{name}.h` are the model: C99, no libraries, "
        f"no heap, the same on a host and on a microcontroller.\n\n"
        f"- {given}\n- {result}\n"
        f"- Constants: {source.flash_bytes} bytes of flash. Temporaries: {source.ram_bytes} bytes of RAM in one array.\n"
        f"- `{source.function}` is not re-entrant, since that array is static.\n\n"
        f"`make check` builds `main.c`, which runs the model on {recording.outputs.shape[0]} recorded inputs and compares "
        f"every output with what the simulator computed. `{MARK}` holds the bits and the scale of each variable.\n"
    )
