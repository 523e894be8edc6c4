"""What is read of ELF files is what the binary utilities of their compilers say; damaged files are named in one sentence."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.evaluators.architectures.cortex.firmware import build_cortex_firmware
from kilotune.evaluators.elf import read_elf
from tests.evaluators.devices.hand_written import hand_written
from tests.evaluators.devices.toolchains import needs_avr, needs_cortex

BODY = "static volatile int counted = 5; static volatile char kept[7]; kept[0] = 1; counted += kept[0];"


def avr_image(folder: Path) -> bytes:
    source = (
        f"#include <stdint.h>\nint predict(void) {{ {BODY} return counted; }}\nint main(void) {{ return predict(); }}\n"
    )
    (folder / "hand.c").write_text(source)
    subprocess.run(["avr-gcc", "-mmcu=atmega328p", "-Os", "-o", "hand.elf", "hand.c"], cwd=folder, check=True)
    return (folder / "hand.elf").read_bytes()


def cortex_image(_: Path) -> bytes:
    return build_cortex_firmware(hand_written(BODY), "cortex-m4").image


TARGETS = [
    pytest.param("avr-", avr_image, marks=needs_avr, id="avr"),
    pytest.param("arm-none-eabi-", cortex_image, marks=needs_cortex, id="arm"),
]


def said_by(folder: Path, *command: str) -> list[list[str]]:
    """The words of what a program prints about the file, line by line."""
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("tools", "make"), TARGETS)
def test_sizes_symbols_and_flash_are_those_of_the_binary_utilities(
    tools: str, make: Callable[[Path], bytes], tmp_path: Path
) -> None:
    image = make(tmp_path)
    (tmp_path / "it.elf").write_bytes(image)
    elf = read_elf(image)
    sizes = {w[0]: int(w[1]) for w in said_by(tmp_path, f"{tools}size", "-A", "it.elf") if w and w[0].startswith(".")}
    assert {name: elf.sections[name] for name in sizes} == sizes
    assert elf.static_ram_bytes == sizes[".data"] + sizes[".bss"] >= 9
    sized = {
        w[3]: (int(w[0], 16), int(w[1], 16)) for w in said_by(tmp_path, f"{tools}nm", "-S", "it.elf") if len(w) == 4
    }
    assert "predict" in sized
    # nm leaves the bit out that says that a function is Thumb code
    assert {n: (elf.symbols[n].address, elf.symbols[n].size_bytes) for n in sized} == {
        n: (address | (elf.symbols[n].address & 1), size) for n, (address, size) in sized.items()
    }
    subprocess.run([f"{tools}objcopy", "-O", "binary", "it.elf", "flash.bin"], cwd=tmp_path, check=True)
    assert elf.flash == (tmp_path / "flash.bin").read_bytes()


def make_file(bits: int = 1, order: int = 1, segment_bytes: int = 4, held: bytes = b"\1\2\3\4") -> bytes:
    """A file of one segment at physical address 16, without sections."""
    identification = bytes([0x7F, *b"ELF", bits, order, 1]).ljust(16, b"\0")
    header = struct.pack("<HHIIIIIHHHHHH", 2, 83, 1, 0, 52, 0, 0, 52, 32, 1, 40, 0, 0)
    return identification + header + struct.pack("<8I", 1, 84, 0x800000, 16, segment_bytes, segment_bytes, 5, 1) + held


def test_flash_is_what_is_loaded_at_physical_addresses() -> None:
    elf = read_elf(make_file())
    assert (elf.flash, elf.sections, elf.symbols, elf.static_ram_bytes) == (b"\1\2\3\4", {}, {}, 0)


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (b"", "no ELF file"),
        (b"#!/bin/sh\n", "no ELF file"),
        (make_file(bits=2).ljust(4000, b"\0"), "a 64-bit little-endian one"),
        (make_file(order=2).ljust(4000, b"\0"), "a 32-bit big-endian one"),
        (make_file()[:40], "a damaged one"),
        (make_file(segment_bytes=9), "4 of a segment's 9 bytes"),
    ],
)
def test_what_is_no_such_file_is_one_sentence(image: bytes, found: str) -> None:
    with pytest.raises(InputError) as error:
        read_elf(image)
    assert str(error.value) == f"firmware.elf: expected a 32-bit little-endian ELF file, found {found}"
