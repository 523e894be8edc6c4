"""The instructions that stand in for C on an AVR compute what the C does: every shift, every product, at the ends of their types."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.called_code import called_groups, called_lookup, called_rows, called_sum, most_groups
from kilotune.codegen.emit.products import accumulation, product
from kilotune.codegen.emit.requantising import SCALED, SCALED_EVEN, SHORTENED
from kilotune.codegen.emit.shared_divisions import shared_division
from kilotune.codegen.emit.shifts import division
from kilotune.codegen.emit.tables import fraction, magnitude_up
from kilotune.codegen.fixed.arithmetic import Rounding, scale_down, wrap
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.evaluators.architectures.avr.machine import load_shim
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.simulated import Artefact
from tests.codegen.emit.tied_products import tied_cases

pytestmark = [
    pytest.mark.skipif(
        shutil.which("avr-gcc") is None or load_shim() is None, reason="needs gcc-avr avr-libc libsimavr-dev"
    ),
    pytest.mark.slow,
]
PRELUDE = (
    '#define KT_CALL "%~call"\n'
    "#define KT_INLINE static inline __attribute__((always_inline))\n"
    "#define KT_NOINLINE static __attribute__((noinline))\n"
)


def run(functions: Sequence[tuple[str, str]], calls: Sequence[str], inputs: IntArray, level: str) -> IntArray:
    """Results [samples, calls] of C expressions of x[0], x[1], ... on an ATmega328P."""
    lines = "\n".join(f"    result[{i}] = (int32_t){call};" for i, call in enumerate(calls))
    definitions = "\n".join(dict(functions).values())
    source = f'#include "model.h"\n{PRELUDE}{definitions}\nvoid predict(const int32_t *x, int32_t *result)\n{{\n{lines}\n}}\n'
    header = "#include <stdint.h>\nvoid predict(const int32_t *x, int32_t *result);\n"
    word = np.dtype("<i4")
    artefact = Artefact("model", header, source, "predict", ir.ResultKind.REAL, inputs.shape[1], word, len(calls), word)
    return np.asarray(AvrTarget(level=level).run(artefact, inputs)[1].outputs, dtype=np.int64)


def samples(bits: int) -> IntArray:
    """The ends of a width, what lies around 0 and around powers of two, and some in between."""
    ends = [-(1 << (bits - 1)), (1 << (bits - 1)) - 1]
    near = [sign * (1 << n) + d for n in range(0, bits - 1, 3) for sign in (-1, 1) for d in (-1, 0, 1)]
    random = np.random.default_rng(bits).integers(ends[0], ends[1], 20).tolist()
    return wrap(np.array([*ends, -1, 0, 1, *near, *random], dtype=np.int64), bits)


@pytest.mark.parametrize("level", ["-Os", "-O3"])
@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_divisions(bits: int, rounding: Rounding, level: str) -> None:
    inputs = samples(bits)
    pairs = [(shift, kept) for shift in range(1, bits) for kept in (8, 16, 32) if kept <= bits]
    functions = [division(bits, shift, kept, rounding) for shift, kept in pairs]
    for first in range(0, len(pairs), 40):  # what an Uno's flash holds
        part = slice(first, first + 40)
        calls = [f"{name}((int{bits}_t)x[0])" for name, _ in functions[part]]
        found = run(functions[part], calls, inputs[:, None], level)
        for column, (shift, kept) in enumerate(pairs[part]):
            expected = wrap(scale_down(inputs, shift, rounding), kept)
            np.testing.assert_array_equal(found[:, column], expected, err_msg=f"{bits} bits / 2**{shift} to {kept}")


@pytest.mark.parametrize("level", ["-O0", "-Os", "-O3"])
@pytest.mark.parametrize("rounding", list(Rounding))
def test_one_function_for_all_divisions(level: str, rounding: Rounding) -> None:
    """At -O0, too, where the compiler's own instructions stand around it."""
    inputs, kinds = samples(32), [(bits, shift) for bits in (16, 32) for shift in range(1, bits)]
    calls = [f"kt_down{bits}((int{bits}_t)x[0], {shift})" for bits, shift in kinds]
    found = run([shared_division(bits, rounding) for bits in (16, 32)], calls, inputs[:, None], level)
    for column, (bits, shift) in enumerate(kinds):
        expected = scale_down(wrap(inputs, bits), shift, rounding)
        np.testing.assert_array_equal(found[:, column], expected, err_msg=f"{bits} bits / 2**{shift}")


@pytest.mark.parametrize("level", ["-Os", "-O3"])
def test_products(level: str) -> None:
    pairs = [(8, 8), (16, 8), (16, 16)]
    generator = np.random.default_rng(3)
    rows = [
        [s, a, b]
        for s in (0, -1, 2**31 - 1, -(2**31), 12345678)
        for a in (-32768, 32767, -1, 129)
        for b in (-128, 127, 3)
    ]
    rows += generator.integers([-(2**31), -(2**15), -(2**15)], [2**31, 2**15, 2**15], (60, 3)).tolist()
    inputs = np.array(rows, dtype=np.int64)
    sums = [accumulation(*pair) for pair in pairs]
    products = [product(bits) for bits in (8, 16)]
    calls = [f"{n}((uint32_t)x[0], (int{a}_t)x[1], (int{b}_t)x[2])" for (n, _), (a, b) in zip(sums, pairs, strict=True)]
    calls += [f"{name}((int16_t)x[1], (int{b}_t)x[2])" for (name, _), b in zip(products, (8, 16), strict=True)]
    found = run([*sums, *products], calls, inputs, level)
    for column, (a, b) in enumerate([*pairs, (16, 8), (16, 16)]):
        whole = wrap(inputs[:, 1], a) * wrap(inputs[:, 2], b) + (inputs[:, 0] if column < 3 else 0)
        np.testing.assert_array_equal(found[:, column], wrap(whole, 32), err_msg=f"{a} by {b} bits")


@pytest.mark.parametrize("level", ["-Os", "-O3"])
@pytest.mark.parametrize("width", [8, 16])
def test_fractions(width: int, level: str) -> None:
    """Of what sigmoids and tanhs divide: by numbers from one to twice one, the ends among them."""
    random = np.random.default_rng(width)
    rows = []
    for bits in range(1, width - 1):
        one = 1 << bits
        denominators = [one, one + 1, 2 * one - 1, 2 * one, *random.integers(one, 2 * one + 1, 12).tolist()]
        rows += [(n, d, bits) for d in denominators for n in (0, 1, d // 2, d - 1, d, int(random.integers(0, d + 1)))]
    inputs = np.array(rows)
    name, definition = fraction(width)
    call = f"{name}((uint{width}_t)x[0], (uint{width}_t)x[1], (uint8_t)x[2])"
    found = run([(name, definition)], [call], inputs, level)
    np.testing.assert_array_equal(found[:, 0], (inputs[:, 0] << inputs[:, 2]) // inputs[:, 1])


@pytest.mark.parametrize("level", ["-Os", "-O3"])
def test_products_with_a_fixed_multiplier(level: str) -> None:
    """Also where the product is halfway between two integers: a mantissa of 2**30 and odd values."""
    random = np.random.default_rng(30)
    values = np.concatenate([samples(31) >> 1, random.integers(-(2**30) + 1, 2**30, 60), np.arange(-9, 10)])
    mantissas = np.where(np.arange(len(values)) % 2, 2**30, random.integers(2**30, 2**31, len(values)))
    inputs = np.stack([values, mantissas, random.integers(0, 31, len(values))], axis=1)
    found = run([SCALED], ["kt_scaled(x[0], x[1], (uint8_t)x[2])"], inputs, level)
    expected = [int(ir.FixedMultiplier(m, -n).integer(np.array([v]))[0]) for v, m, n in inputs.tolist()]
    assert found[:, 0].tolist() == expected


@pytest.mark.parametrize("level", ["-Os", "-O3"])
def test_products_that_are_rounded_as_floats(level: str) -> None:
    """Also where a rounding is halfway: mantissas of one bit and of few, and values beside odd multiples of halves.

    Of results beyond 8 bits it is enough that they are beyond.
    """
    random = np.random.default_rng(31)
    values = np.concatenate([samples(31) >> 1, random.integers(-(2**30) + 1, 2**30, 60), np.arange(-9, 10)])
    mantissas = random.integers(2**23, 2**24, len(values))
    mantissas[::3], mantissas[1::6] = 2**23, 3 << 22
    inputs = np.stack([values, mantissas, random.integers(20, 60, len(values))], axis=1)
    inputs[-19:, 2] = 24
    inputs = np.concatenate([inputs, np.array(tied_cases()[::25])])
    call = "kt_scaled_even(kt_shortened(x[0]), x[1], (uint8_t)x[2])"
    found = run([SHORTENED, SCALED_EVEN], [call], inputs, level)
    expected = np.array([int(ir.EvenMultiplier(m, -n).integer(np.array([v]))[0]) for v, m, n in inputs.tolist()])
    np.testing.assert_array_equal(np.clip(found[:, 0], -256, 256), np.clip(expected, -256, 256))


BYTES = np.random.default_rng(5).integers(-128, 128, 24)
BYTES[:4] = -128
IN_FLASH = (
    f"#include <avr/pgmspace.h>\n#define KT_FLASH_BY_LPM\n"
    f"static const int8_t weights[24] PROGMEM = {{{', '.join(map(str, BYTES))}}};\n"
)
NOT_CALLED = "#error this is for other processors"


@pytest.mark.parametrize("level", ["-O1", "-Os"])
@pytest.mark.parametrize("in_flash", [False, True])
@pytest.mark.parametrize("bits", [16, 32])
def test_sums_that_are_called(bits: int, in_flash: bool, level: str) -> None:
    """Of the input's bytes with themselves, or with weights; in runs between which pointers skip some bytes, one after the other."""
    held, weights = ("const int8_t", False), ("const int8_t", in_flash)
    total = called_sum("one", (weights, held), bits, NOT_CALLED)
    rows = called_rows("several", (held, weights), bits, NOT_CALLED)
    assert total is not None
    assert rows is not None
    bytes_of, other = "(const int8_t *)x", "weights" if in_flash else "(const int8_t *)x"
    calls = [f"(int{bits}_t)one((uint{bits}_t)x[0], {other} + 1, {bytes_of}, {n})" for n in (1, 2, 23)]
    calls += [
        f"(int{bits}_t)several((uint{bits}_t)x[0], {bytes_of} + 2, {other}, {r}, {n}, 2, 1)"
        for r, n in ((1, 5), (3, 4))
    ]
    inputs = np.random.default_rng(bits).integers(-(2**31), 2**31, (20, 6))
    inputs[:3] = -2139062144  # bytes of -128: all products are the largest
    found = run([("weights", IN_FLASH), ("one", total), ("several", rows)], calls, inputs, level)
    read = inputs.astype("<i4").view(np.int8).astype(np.int64)
    met = np.broadcast_to(BYTES, read.shape) if in_flash else read
    spans = [(slice(0, n), slice(1, n + 1)) for n in (1, 2, 23)]
    expected = [(read[:, a] * met[:, b]).sum(axis=1) for a, b in spans]
    for count, length in ((1, 5), (3, 4)):
        terms = [(2 + r * (length + 2) + k, r * (length + 1) + k) for r in range(count) for k in range(length)]
        expected.append(sum(read[:, a] * met[:, b] for a, b in terms))
    for column, products in enumerate(expected):
        np.testing.assert_array_equal(found[:, column], wrap(inputs[:, 0] + products, bits), err_msg=calls[column])


@pytest.mark.parametrize("packed", [0, 1])
@pytest.mark.parametrize("bits", [16, 32])
def test_sums_of_packed_codes_that_are_called(bits: int, packed: int) -> None:
    """Codes of every width that fills bytes, with the input's bytes: a group, and as many as there may be at most, over and over."""
    random = np.random.default_rng(packed)
    inputs = random.integers(-(2**31), 2**31, (6, 64))
    inputs[0] = -2139062144
    read = inputs.astype("<i4").view(np.int8).astype(np.int64)
    functions, calls, expected = [("flash", "#include <avr/pgmspace.h>\n#define KT_FLASH_BY_LPM")], [], []
    for width in (1, 2, 4):
        per_byte, low = 8 // width, 1 << (width - 1)
        codes = random.integers(-low, low, 256)
        codes[:16] = -low
        stored = LAYOUTS[width].pack(codes + low).hex(" ").split()
        array = f"static const uint8_t codes{width}[] PROGMEM = {{{', '.join(f'0x{byte}' for byte in stored)}}};"
        kinds = [("const int8_t", False), ("const int8_t", False)]
        kinds[packed] = ("const uint8_t", True)
        total = called_groups(f"sum{width}", kinds, packed, width, bits, NOT_CALLED)
        assert total is not None
        functions += [(f"codes{width}", array), (f"sum{width}", total)]
        weights = np.where(codes < 0, -1, 1) if width == 1 else codes
        for groups in (1, 3, most_groups(width)):
            pointers = ["(const int8_t *)x + 1"] * 2
            pointers[packed] = f"codes{width} + {0 if groups > 3 else 2}"
            calls.append(f"(int{bits}_t)sum{width}((uint{bits}_t)x[0], {', '.join(pointers)}, {groups})")
            first, count = 0 if groups > 3 else 2 * per_byte, groups * per_byte
            products = (read[:, 1 : 1 + count] * weights[first : first + count]).sum(axis=1)
            expected.append(wrap(inputs[:, 0] + products, bits))
    found = run(functions, calls, inputs, "-Os")
    for column, sums in enumerate(expected):
        np.testing.assert_array_equal(found[:, column], sums, err_msg=calls[column])


def test_other_sums_are_not_called() -> None:
    pointer = "const int8_t"
    for make in (called_sum, called_rows):
        assert make("sum", [(pointer, True), (pointer, True)], 16, "") is None
        assert make("sum", [(pointer, True), (pointer, False)], 64, "") is None
    assert called_groups("sum", [(pointer, True), (pointer, True)], 0, 4, 16, "") is None
    assert called_groups("sum", [(pointer, True), (pointer, False)], 0, 6, 16, "") is None


@pytest.mark.parametrize("level", ["-O1", "-Os"])
def test_bytes_that_are_looked_up_by_magnitude(level: str) -> None:
    """Every byte, in arrays whose last element is met, never met, and the first one; multiplied first by every power of two."""
    entries = np.random.default_rng(6).integers(-128, 128, 255)
    array = f"#define KT_FLASH_BY_LPM\nstatic const int8_t held[] PROGMEM = {{{', '.join(map(str, entries))}}};"
    lasts, ups = (0, 67, 127, 254), range(1, 8)
    functions = [("held", f"#include <avr/pgmspace.h>\n{array}")]
    functions += [(f"entry{last}", called_lookup(f"entry{last}", "held", last, NOT_CALLED)) for last in lasts]
    functions += [(f"up{up}", magnitude_up(up)) for up in ups]
    # what else is in registers is not touched
    calls = [f"(x[0] ^ 23) + entry{last}((int8_t)x[0])" for last in lasts]
    calls += [f"kt_magnitude{up}((int8_t)x[0])" for up in ups]
    values = np.arange(-128, 128)
    found = run(functions, calls, values[:, None], level)
    expected = [(values ^ 23) + entries[np.minimum(abs(values), last)] for last in lasts]
    for up in ups:
        whole = values << up
        expected.append(np.where((whole < -128) | (whole > 127), 127, whole))
    np.testing.assert_array_equal(found, np.stack(expected, axis=1))
