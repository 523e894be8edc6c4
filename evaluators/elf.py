"""What a linked program for a 32-bit little-endian ELF target holds: sizes, symbols, the image of its flash."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

_SYMBOL_TABLE = 2
_LOAD = 1


@dataclass(frozen=True)
class Symbol:
    """Address and size in bytes, as the linker counts them (avr-gcc puts data at 0x800000)."""

    address: int
    size_bytes: int


@dataclass(frozen=True)
class Elf:
    """`sections`: bytes by name. `flash`: what is burnt, from address 0 (or from the first loaded address)."""

    sections: Mapping[str, int]
    symbols: Mapping[str, Symbol]
    flash: bytes

    @property
    def flash_bytes(self) -> int:
        """What is loaded: code, constants, and initial values of variables."""
        return len(self.flash)

    @property
    def static_ram_bytes(self) -> int:
        """.data + .bss + .noinit."""
        return sum(self.sections.get(name, 0) for name in (".data", ".bss", ".noinit"))


def read_elf(image: bytes) -> Elf:
    """Read an ELF32 file. ValueError when it is none."""
    if image[:6] != b"\x7fELF\x01\x01":
        raise ValueError("expected a 32-bit little-endian ELF file")
    program_at, section_at = struct.unpack_from("<II", image, 28)
    program_size, program_count, section_size, section_count, names_at = struct.unpack_from("<HHHHH", image, 42)
    headers = [struct.unpack_from("<10I", image, section_at + i * section_size) for i in range(section_count)]
    names = headers[names_at]
    sections = {_text(image, names[4] + header[0]): header[5] for header in headers}
    symbols: dict[str, Symbol] = {}
    for header in headers:
        if header[1] == _SYMBOL_TABLE:
            strings = headers[header[6]][4]
            for at in range(header[4], header[4] + header[5], 16):
                name, value, size = struct.unpack_from("<III", image, at)
                if name:
                    symbols[_text(image, strings + name)] = Symbol(value, size)
    segments = [struct.unpack_from("<8I", image, program_at + i * program_size) for i in range(program_count)]
    loaded = [s for s in segments if s[0] == _LOAD and s[4] > 0]
    start = min((s[3] for s in loaded), default=0)
    flash = bytearray(max((s[3] + s[4] for s in loaded), default=0) - start)
    for _, offset, _, physical, size, *_ in loaded:
        flash[physical - start : physical - start + size] = image[offset : offset + size]
    return Elf(sections, symbols, bytes(flash))


def _text(image: bytes, at: int) -> str:
    return image[at : image.index(0, at)].decode()
