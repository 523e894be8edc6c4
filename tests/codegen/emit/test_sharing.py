"""What several places compute as functions of compact code: which there are, and that nothing else changes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.emit.sharing import FEWEST_DIVISIONS, share
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.architectures.avr.firmware import build_firmware
from kilotune.evaluators.simulated import of_emitted
from kilotune.experiments.problems.fixed_point.problem import resolve_input
from tests.evaluators.devices.toolchains import needs_avr


def product(bits: int) -> str:
    return f"/* a * b */\nKT_INLINE int32_t kt_product16_{bits}(int16_t a, int{bits}_t b)\n{{\n    return a * b;\n}}"


def division(bits: int, shift: int, kept: int) -> str:
    name = f"kt_down{bits}_{shift}_{kept}"
    return f"/* v / 2**{shift} */\nKT_INLINE int{kept}_t {name}(int{bits}_t v)\n{{\n    return v >> {shift};\n}}"


def test_what_stands_in_one_place_alone_stays_there() -> None:
    once, twice = ["y = kt_product16_8(a, b);"], ["y = kt_product16_8(a, b);", "z = kt_product16_8(b, a);"]
    assert share([product(8)], once, Rounding.FLOOR) == ([product(8)], once)
    found, lines = share([product(8)], twice, Rounding.FLOOR)
    assert (found, lines) == ([product(8).replace("KT_INLINE", "KT_NOINLINE")], twice)


def test_products_of_both_widths_are_one_function() -> None:
    found, lines = share(
        [product(8), product(16)], ["y = kt_product16_8(a, b) + kt_product16_16(a, c);"], Rounding.FLOOR
    )
    assert found == [product(16).replace("KT_INLINE", "KT_NOINLINE")]
    assert lines == ["y = kt_product16_16(a, b) + kt_product16_16(a, c);"]


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize(("bits", "fewest"), [(16, 4), (32, FEWEST_DIVISIONS)])
@pytest.mark.parametrize("enough", [False, True])
def test_divisions_share_one_from_some_number_on(bits: int, fewest: int, enough: bool, rounding: Rounding) -> None:
    shifts = range(4, 4 + fewest) if enough else range(4, 3 + FEWEST_DIVISIONS - (bits == 16))
    definitions = [division(bits, shift, 16) for shift in shifts]
    body = [f"y = kt_down{bits}_{shift}_16(v);" for shift in shifts]
    found, lines = share(definitions, body, rounding)
    assert lines == body
    if not enough:
        assert found == definitions
    else:
        assert found[0].startswith("/* v / 2**n, rounded to")
        assert f"int{bits}_t kt_down{bits}(int{bits}_t v, uint8_t n)" in found[0]
        assert [re.search(r"return .*;", text)[0] for text in found[1:]] == [  # type: ignore[index]
            f"return (int16_t)kt_down{bits}(v, {shift});" for shift in shifts
        ]


def test_what_takes_no_more_than_a_call_is_written_out() -> None:
    short = [division(16, 1, 16), division(16, 8, 8)]
    body = ["y = kt_down16_1_16(v) + kt_down16_8_8(v);"] * 9
    assert share(short, body, Rounding.FLOOR) == (short, body)
    assert len(share(short, body, Rounding.NEAREST)[0]) == len(short) + 1


@needs_avr
def test_a_recurrence_links_to_a_tenth_fewer_bytes() -> None:
    """Its wide products and divisions, two logistic functions and the table and quotient that they have in common."""
    bundle = load_bundle(resolve_input("fastgrnn16-digits"))
    widths = [8 if v.name in ("pre", "t3", "t4") else 16 for v in bundle.program.variables]
    batch = ShiftryLowering(bundle.program, {}).lower([widths], [[w - 3 for w in widths]])
    sources: list[CSource] = [emit_c(batch, bundle.parameters, shape=SHAPES[name]) for name in ("plain", "compact")]
    plain, compact = (build_firmware(of_emitted(s), "atmega328p").sizes.flash_bytes - s.flash_bytes for s in sources)
    assert compact < 0.9 * plain
    assert np.diff([s.flash_bytes for s in sources]) == 0
