"""What a linked program for a 32-bit little-endian ELF target holds: sizes, symbols, the image of its flash."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from kilotune.codegen.diagnostics import InputError

MARKS = ".debug_kt_marks"
"""A section of a name that linkers take for a debugger's: they neither load it nor leave it out."""

EXPECTED = "a 32-bit little-endian ELF file"


@dataclass(frozen=True)
class Symbol:
    """Address and size in bytes, as the linker counts them (avr-gcc puts data at 0x800000)."""

    address: int
    size_bytes: int


@dataclass(frozen=True)
class Elf:
    """`sections`: bytes by name. `marks`: the content of the section `MARKS` (`evaluators.marks`), where there is one.

    `flash`: what is burnt, from address 0 (or from the first loaded address)."""

    sections: Mapping[str, int]
    symbols: Mapping[str, Symbol]
    flash: bytes
    marks: bytes = b""

    @property
    def flash_bytes(self) -> int:
        """What is loaded: code, constants, and initial values of variables."""
        return len(self.flash)

    @property
    def static_ram_bytes(self) -> int:
        """.data + .bss + .noinit."""
        return sum(self.sections.get(name, 0) for name in (".data", ".bss", ".noinit"))


def read_elf(image: bytes, path: str = "firmware.elf") -> Elf:
    """Read an ELF32 file's content; `path` names it in errors. InputError when it is none, or not whole."""
    try:
        file = ELFFile(io.BytesIO(image))
        if file.elfclass != 32 or not file.little_endian:
            order = "little" if file.little_endian else "big"
            raise InputError(path, expected=EXPECTED, found=f"a {file.elfclass}-bit {order}-endian one")
        sections = list(file.iter_sections())
        tables = [section for section in sections if isinstance(section, SymbolTableSection)]
        symbols = {
            symbol.name: Symbol(symbol["st_value"], symbol["st_size"])
            for table in tables
            if table["sh_type"] == "SHT_SYMTAB"
            for symbol in table.iter_symbols()
            if symbol.name
        }
        marks = next((section.data() for section in sections if section.name == MARKS), b"")
        return Elf({section.name: section["sh_size"] for section in sections}, symbols, _flash(file, path), marks)
    except (ELFError, AssertionError) as error:  # how the library says that what a header points at is not there
        found = "a damaged one" if image.startswith(b"\x7fELF") else "no ELF file"
        raise InputError(path, expected=EXPECTED, found=found) from error


def _flash(file: ELFFile, path: str) -> bytes:
    """What the loadable segments hold, each at its physical address: there a programmer puts it, also initial values of
    variables, whose virtual address is in RAM."""
    loaded = [s for s in file.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_filesz"] > 0]
    start = min((s["p_paddr"] for s in loaded), default=0)
    flash = bytearray(max((s["p_paddr"] + s["p_filesz"] for s in loaded), default=0) - start)
    for segment in loaded:
        data = segment.data()
        if len(data) < segment["p_filesz"]:
            found = f"{len(data)} of a segment's {segment['p_filesz']} bytes"
            raise InputError(path, expected=EXPECTED, found=found)
        at = segment["p_paddr"] - start
        flash[at : at + len(data)] = data
    return bytes(flash)
