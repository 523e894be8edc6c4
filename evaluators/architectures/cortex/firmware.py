"""Firmware for simulated Cortex-M boards: emitted C with the start-up code of this folder, built by arm-none-eabi-gcc."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kilotune.codegen import ir
from kilotune.evaluators.architectures.cortex.emulated import EMULATED, LARGER, EmulatedBoard, startup_code
from kilotune.evaluators.elf import Elf, read_elf
from kilotune.evaluators.simulated import Artefact, DeviceError, Sizes

WARNINGS = ("-Wall", "-Wextra", "-Werror")
FLAGS = ("-std=gnu99", "-mthumb", "-fwrapv", "-ffunction-sections", "-fdata-sections", "-nostartfiles")
LINKED = ("-Wl,--gc-sections", "-Wl,--no-warn-rwx-segments", "--specs=nano.specs", "--specs=nosys.specs")


@dataclass(frozen=True)
class CortexFirmware:
    """A linked program: its file's content, what was read of it, and QEMU's machine that has room for it."""

    processor: str
    artefact: Artefact
    image: bytes
    elf: Elf
    machine: str

    @property
    def sizes(self) -> Sizes:
        """Bytes of flash and of static RAM, the harness included."""
        return Sizes(self.elf.flash_bytes, self.elf.static_ram_bytes, self.artefact.held_bytes)


def arm_gcc() -> str | None:
    """The compiler's path; None when it is not installed."""
    return shutil.which("arm-none-eabi-gcc")


def build_cortex_firmware(
    artefact: Artefact, processor: str, *, level: str = "-Os", header: str = ""
) -> CortexFirmware:
    """Compile and link; `header`: C that everything includes, such as `TRACE` or marks.

    DeviceError with the compiler's words when that fails, or when there is no compiler."""
    compiler = arm_gcc()
    if compiler is None:
        raise DeviceError("arm-none-eabi-gcc was not found: install gcc-arm-none-eabi and libnewlib-arm-none-eabi.")
    try:
        return _built(compiler, artefact, processor, EMULATED[processor], level, header)
    except _NoRoomError:
        if processor not in LARGER:
            raise
    return _built(compiler, artefact, processor, LARGER[processor], level, header)


class _NoRoomError(DeviceError):
    """A program is larger than the emulated machine's memory."""


def _built(
    compiler: str, artefact: Artefact, processor: str, board: EmulatedBoard, level: str, header: str
) -> CortexFirmware:
    with tempfile.TemporaryDirectory(prefix="kilotune-cortex-") as scratch:
        folder = Path(scratch)
        texts = {
            f"{artefact.name}.h": artefact.header,
            f"{artefact.name}.c": artefact.source,
            "harness.h": _harness_header(artefact),
            "trace.h": header,
            "link.ld": board.link_script(),
            "startup.c": startup_code(),
            "harness.c": Path(__file__).with_name("harness.c").read_text(encoding="utf-8"),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        trace = ("-include", "trace.h") if header else ()
        command = [compiler, *board.options, level, *FLAGS, *WARNINGS, *trace, *LINKED, "-T", "link.ld"]
        command += ["-o", "firmware.elf", "startup.c", "harness.c", f"{artefact.name}.c", "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise _failure(processor, done.stderr)
        image = (folder / "firmware.elf").read_bytes()
        return CortexFirmware(processor, artefact, image, read_elf(image), board.machine)


TRACE = """\
#include <stddef.h>
#include <stdint.h>
void kt_trace(int32_t row, void *ram, size_t bytes);
#define KT_AFTER(row) do { __asm__ volatile ("" ::: "memory"); kt_trace((row), &kt_ram, sizeof kt_ram); } while (0)
"""
"""C that a traced build includes before everything."""


def _harness_header(artefact: Artefact) -> str:
    types = [
        "float" if kind.kind == "f" else f"int{8 * kind.itemsize}_t"
        for kind in (artefact.input_type, artefact.result_type)
    ]
    given = "(kt_give)" if artefact.asks_at is not None else "(input)" if artefact.features else ""
    if artefact.kind is ir.ResultKind.REAL:
        call = f"{artefact.function}({f'{given}, ' if given else ''}(output))"
        infer = f"do {{ {call}; kt_end(); }} while (0)"
    else:
        infer = f"do {{ const int label = {artefact.function}({given}); kt_end(); (output)[0] = ({types[1]})label; }} while (0)"
    return (
        f'#include "{artefact.name}.h"\n#include <stdint.h>\n#define KT_INPUT_TYPE {types[0]}\n'
        f"#define KT_RESULT_TYPE {types[1]}\n#define KT_FEATURES {artefact.features}\n"
        f"#define KT_ASKS {int(artefact.asks_at is not None)}\n"
        f"#define KT_RESULTS {artefact.results}\n#define KT_INFER(input, output) {infer}\n"
    )


def _failure(processor: str, said: str) -> DeviceError:
    for region, name in (("`RAM'", "RAM"), ("`FLASH'", "flash")):
        if f"region {region} overflowed" in said or f"fit in region {region}" in said:
            return _NoRoomError(f"The program needs more {name} than the simulated {processor} board has.")
    errors = [line for line in said.splitlines() if "error:" in line]
    return DeviceError(f"arm-none-eabi-gcc failed for {processor}: {errors[0] if errors else said.strip()[-300:]}")
