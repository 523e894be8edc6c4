"""Arrays of NumPy: `.npy` and `.npz` files of parameters and samples."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
import zlib
from functools import cache
from random import Random

import numpy as np

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind, on_files
from kilotune.experiments.fuzz.kinds.models import model_cases, npy
from kilotune.experiments.fuzz.text_mutations import mutate_text

EXTENTS = (0, 1, 2, 7, -1, 10**6, 10**9, 10**14, 2**62, 2**63, 2**64, 10**30)
TYPES = (
    *(
        "<f8",
        ">f8",
        "<f4",
        "<f2",
        "<i8",
        "<u1",
        "|b1",
        "<c16",
        "|O",
        "<U5",
        "|S0",
        "|V8",
        "<M8[s]",
        "<f16",
        "<U999999999",
    ),
    *("[('a', '<f8')]", "[('a', '<f8', (999999, 9999))]", "x", ""),
)
VERSIONS = (b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00", b"\xff\xff")
BOMB_BYTES = 3 << 30
"""What a member of an archive inflates to: more than a case may take."""


def _header(content: bytes, random: Random) -> bytes:
    """Another header before the same elements: well-formed, with another type or shape."""
    shape = tuple(random.choice(EXTENTS) for _ in range(random.choice((0, 1, 2, 2, 3, 40))))
    kind, order = random.choice(TYPES), random.choice((True, False, None))
    described = kind if kind.startswith("[") else repr(kind)
    text = f"{{'descr': {described}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if random.random() < 0.3:
        text = mutate_text(text.encode(), random).decode(errors="replace")
    encoded = text.encode("latin-1", errors="replace")[: (1 << 16) - 1]
    version = random.choice(VERSIONS[:1] * 6 + VERSIONS)
    length = struct.pack("<H" if version[0] == 1 else "<I", len(encoded))
    return b"\x93NUMPY" + version + length + encoded + b"\n" + content[128:]


def _archive(content: bytes, random: Random) -> bytes:
    """An archive of members that are damaged, too many, encrypted by their flags, or named oddly."""
    member = random.choice((content, _header(content, random), mutate_bytes(content, random), b""))
    names = random.choice((("data.npy",), ("data",), ("data.npy", "data.npy"), ("../up.npy",), ("a.npy", "b.npy"), ()))
    written = io.BytesIO()
    with zipfile.ZipFile(
        written, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    ) as file:
        for name in names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a name that is there twice
                file.writestr(zipfile.ZipInfo(name), member)
    packed = written.getvalue()
    if random.random() < 0.2:
        packed = packed.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00")
    return packed


def _bomb(content: bytes, random: Random) -> bytes:
    """An archive of kilobytes whose member says that it is of gigabytes, or is."""
    count = random.choice((BOMB_BYTES // 8, 10**12))
    array = npy(np.zeros(1)).replace(b"(1,), ", f"({count},),".encode())
    return bomb_of(array, BOMB_BYTES if random.random() < 0.3 else 1 << 20)


@cache
def bomb_of(head: bytes, zeros: int) -> bytes:
    """A `.npz` file whose only member is `head` and then so many zero bytes."""
    piece = bytes(1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    begun, check = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH), zlib.crc32(head)
    packed = packer.compress(piece) + packer.flush(
        zlib.Z_FULL_FLUSH
    )  # refers to nothing before it, so it may be repeated
    for _ in range(zeros // len(piece)):
        check = zlib.crc32(piece, check)
    body = begun + packed * (zeros // len(piece)) + packer.flush()
    size = len(head) + zeros // len(piece) * len(piece)
    name = b"data.npy"
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, check, len(body), min(size, (1 << 32) - 1), len(name), 0)
    local = b"PK\x03\x04" + common + name + body
    central = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)


def _as_archive(case: FuzzCase, random: Random) -> FuzzCase:
    """A parameter or the samples as an archive, in place of the array."""
    path = random.choice(sorted(p for p in case.files if p.endswith((".npy", ".npz"))))
    make = random.choice((_archive, _archive, _archive, _bomb))
    name = path.rpartition(".")[0] + ".npz" if random.random() < 0.7 else "model/params.npz"
    return case.without_file(path).with_file(name, make(case.files[path], random))


ARRAYS = Kind(
    "arrays",
    lambda: (*model_cases("arrays", ".npy"), *model_cases("arrays", ".npz")),
    (
        on_files("*.np[yz]", mutate_bytes),
        on_files("*.np[yz]", mutate_bytes),
        on_files("*.npy", _header),
        on_files("*.npy", _header),
        _as_archive,
    ),
)
