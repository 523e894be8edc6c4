"""Arrays are read by their headers: what is too large or damaged is refused before anything is reserved for it."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kilotune.codegen.array_files import MOST_ELEMENTS, read_array
from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.fuzz.kinds.arrays import bomb_of

pytestmark = pytest.mark.slow

GIGABYTE = 1 << 30


def header(shape: str, kind: str = "'<f8'") -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def refusal(path: Path) -> str | None:
    try:
        read_array(path)
    except InputError as error:
        return str(error)
    return None


def message_of(path: Path) -> str:
    """The refusal, which must cost little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as error:
            read_array(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    return str(error.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize("extents", ["(100000000000000,)", "(10000000, 10000000)", f"({2**62}, 8)", f"({10**30},)"])
def test_a_header_that_promises_too_much(extents: str, tmp_path: Path) -> None:
    path = tmp_path / "W.npy"
    path.write_bytes(header(extents) + bytes(8))
    message = message_of(path)
    count = int(np.prod([int(e) for e in extents.strip("(),").split(",")], dtype=object))
    assert message == f"expected at most {MOST_ELEMENTS} elements, found {count} ({8 * count} bytes)"


def test_an_archive_that_inflates_to_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "train.npz"
    path.write_bytes(bomb_of(header(f"({GIGABYTE // 8},)"), GIGABYTE))
    assert path.stat().st_size < 2 << 20
    assert message_of(path) == f"expected at most {MOST_ELEMENTS} elements, found {GIGABYTE // 8} ({GIGABYTE} bytes)"


def test_an_archive_that_inflates_to_more_than_its_header_says(tmp_path: Path) -> None:
    """Only what the header says is inflated."""
    path = tmp_path / "train.npz"
    path.write_bytes(bomb_of(header("(2,)"), GIGABYTE))
    tracemalloc.start()
    np.testing.assert_array_equal(read_array(path), [0, 0])
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (header("(3,)") + bytes(16), "expected 24 bytes of elements, as the header says, found 16"),
        (header("(-1,)") + bytes(16), "expected extents from 0, found shape (-1,)"),
        (
            header("(1,)", "'<f8', 'x': ("),
            "expected an array file, found one that cannot be read (its header is damaged)",
        ),
        (header("(1,"), "expected an array file, found one that cannot be read"),
        (header("(1,)", "'|O'") + bytes(8), "expected an array file, found pickled objects"),
        (header("(1,)", "[('a', '<f8', (9999, 9999))]"), "elements: expected real numbers, found type"),
        (header("(1,)", "'<U99999999'"), "elements: expected real numbers, found type <U99999999"),
        (b"\x93NUMPY\x09\x00" + bytes(80), "format version 9.0 is not one of 1.0 and 2.0"),
    ],
)
def test_a_damaged_header(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "W.npy"
    path.write_bytes(content)
    assert said in message_of(path)


def test_every_byte_of_a_header_may_be_wrong(tmp_path: Path) -> None:
    """An array, or one sentence: whatever NumPy's reader of headers, which evaluates them, raises."""
    refused: list[str | None]
    good, path, refused = header("(2, 1)") + bytes(16), tmp_path / "W.npy", []
    for place in range(len(good) - 16):
        for value in (0, 0x20, 0x28, 0x5B, 0x27, 0x39, 0xFF, good[place] ^ 1):
            path.write_bytes(good[:place] + bytes([value]) + good[place + 1 :])
            refused.append(refusal(path))
    assert all(message is None or message.isprintable() for message in refused)
    assert len([message for message in refused if message]) > 200


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    array=hnp.arrays(
        st.sampled_from(["<f8", ">f8", "<f4", "<f2", "<i8", ">i2", "|u1", "|b1"]),
        hnp.array_shapes(min_dims=0, max_side=4),
    ),
    fortran=st.booleans(),
    packed=st.booleans(),
)
def test_arrays_are_what_numpy_reads(array: np.ndarray, fortran: bool, packed: bool, tmp_path: Path) -> None:
    """A second reader of the same format, NumPy's own."""
    given_array = np.asfortranarray(array) if fortran else array
    written = io.BytesIO()
    if packed:
        np.savez_compressed(written, a=given_array)
    else:
        np.save(written, given_array)
    path = tmp_path / ("a.npz" if packed else "a.npy")
    path.write_bytes(written.getvalue())
    loaded = np.load(path)
    expected = (loaded["a"] if packed else loaded).astype(np.float64)
    np.testing.assert_array_equal(read_array(path), expected, strict=True)
