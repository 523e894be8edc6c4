"""Firmware: emitted C with a main that marks each inference, built by avr-gcc."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kilotune.codegen import ir
from kilotune.evaluators.elf import Elf, read_elf
from kilotune.evaluators.marks import HEADER
from kilotune.evaluators.simulated import Artefact, DeviceError, Sizes

WARNINGS = ("-Wall", "-Wextra", "-Werror")
FLAGS = ("-std=gnu99", "-fwrapv", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")
DATA_SPACE = 0x800000
"""Where avr-gcc's linker scripts put the data space."""

MOST_ARRAY_BYTES = 32767
"""What avr-gcc allows one array: differences of pointers have 16 bits."""

_MARK = """\
#ifndef GPIOR0
#error "this processor has no GPIOR0, with which inferences are marked for the simulator"
#endif
_Static_assert((uint16_t)&GPIOR0 == 0x3E, "this processor has GPIOR0 elsewhere than the simulator watches it");
"""

_TRACE = """\
#include <avr/io.h>
/* The barriers make the RAM array what the C says at this point. */
#define KT_AFTER(row) do { __asm__ volatile ("" ::: "memory"); \\
    GPIOR2 = (row) >> 8; GPIOR1 = (row) & 255; __asm__ volatile ("" ::: "memory"); } while (0)
"""


@dataclass(frozen=True)
class Firmware:
    """A linked program for one processor. `image`: the ELF file that `elf` was read from."""

    mcu: str
    artefact: Artefact
    elf: Elf
    traced: bool
    image: bytes

    @property
    def sizes(self) -> Sizes:
        """Bytes of flash and of static RAM, the harness (input, output, main) included."""
        return Sizes(self.elf.flash_bytes, self.elf.static_ram_bytes, self.artefact.held_bytes)


def avr_gcc() -> str | None:
    """The compiler's path; None when it is not installed."""
    return shutil.which("avr-gcc")


def build_firmware(
    artefact: Artefact,
    mcu: str,
    *,
    level: str = "-Os",
    compiler: str | None = None,
    traced: bool = False,
    marked: bool = False,
    defines: Sequence[str] = (),
) -> Firmware:
    """Compile and link, with hooks that trace or marks that count where these are asked for.

    DeviceError with the compiler's words when that fails, or when there is no avr-gcc."""
    compiler = compiler or avr_gcc()
    if compiler is None:
        raise DeviceError("avr-gcc was not found: install gcc-avr and avr-libc (`kilotune doctor`).")
    with tempfile.TemporaryDirectory(prefix="kilotune-avr-") as scratch:
        folder = Path(scratch)
        (folder / f"{artefact.name}.h").write_text(artefact.header)
        (folder / f"{artefact.name}.c").write_text(artefact.source)
        (folder / "harness.c").write_text(harness(artefact))
        (folder / "trace.h").write_text(HEADER if marked else _TRACE)
        trace = ("-include", "trace.h") if traced or marked else ()
        command = [compiler, f"-mmcu={mcu}", level, *FLAGS, *WARNINGS, *trace, *defines]
        command += ["-o", "firmware.elf", "harness.c", f"{artefact.name}.c", "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise DeviceError(_failure(mcu, done.stderr))
        image = (folder / "firmware.elf").read_bytes()
        return Firmware(mcu, artefact, read_elf(image), traced, image)


def _failure(mcu: str, said: str) -> str:
    """The linker's words for a program that is too large are long; the compiler's first error is enough."""
    for region, name in (("`data'", "RAM"), ("`text'", "flash")):
        if f"within region {region}" in said or f"fit in region {region}" in said:
            return f"The program needs more {name} than {mcu} has."
    large = re.search(r"error: size of array \W(\w+)\W is too large", said)
    if large is not None:
        return f"The array {large[1]} has more than the {MOST_ARRAY_BYTES} bytes that avr-gcc allows one for {mcu}."
    refused = re.search(r'#error "(constants .+)"', said)
    if refused is not None:
        return f"It is not built for {mcu}: {refused[1]}."
    errors = [line for line in said.splitlines() if "error:" in line]
    return f"avr-gcc failed for {mcu}: {errors[0] if errors else said.strip()[-300:]}"


def harness(artefact: Artefact) -> str:
    """The main: for ever, mark the start, infer, mark the end, keep the result. The simulator writes inputs at the start, which is when a
    program asks for its sample, where it does."""
    asks, mark = artefact.asks_at is not None, "GPIOR0 = 1;"
    arguments = ["kt_give"] if asks else ["kt_input"] if artefact.features else []
    if artefact.kind is ir.ResultKind.REAL:
        call = f"{artefact.function}({', '.join([*arguments, 'kt_output'])});"
        keep = ""
    else:
        call = f"const int label = {artefact.function}({', '.join(arguments)});"
        keep = f"kt_output[0] = ({_c_type(artefact, 'result')})label;"
    kind = _c_type(artefact, "input")
    sample = f"{kind} kt_input[{artefact.features}];\n" if artefact.features else ""
    if asks:
        barrier = '__asm__ volatile ("" ::: "memory");'
        sample = f"static void kt_give({kind} *frame)\n{{\n    (void)frame;\n    {mark}\n    {barrier}\n}}\n"
    return (
        f'#include "{artefact.name}.h"\n#include <stdint.h>\n#include <avr/io.h>\n\n{_MARK}\n{sample}'
        f"{_c_type(artefact, 'result')} kt_output[{artefact.results}];\n\n"
        f"int main(void)\n{{\n    for (;;) {{\n        {'' if asks else mark}\n        {call}\n        GPIOR0 = 2;\n        {keep}\n"
        '        __asm__ volatile ("" ::: "memory");\n    }\n}\n'
    )


def _c_type(artefact: Artefact, which: str) -> str:
    kind = artefact.input_type if which == "input" else artefact.result_type
    return "float" if kind.kind == "f" else f"int{8 * kind.itemsize}_t"
