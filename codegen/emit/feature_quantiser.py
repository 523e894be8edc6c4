"""The C function of a header that makes an integer of a feature, at a scale of its own where it has one."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.emit.constant_arrays import float_literal
from kilotune.codegen.emit.operators import int_type
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.quantisation_grid import QuantisationGrid

FLASH = """\
#if defined(__AVR__)
#include <avr/pgmspace.h>
#define KT_FEATURE_FLASH PROGMEM
#define KT_FEATURE(array, i) pgm_read_float((array) + (i))
#define KT_FEATURE_END(array, i) ((uint16_t)pgm_read_word((array) + (i)))
#else
#define KT_FEATURE_FLASH
#define KT_FEATURE(array, i) ((array)[i])
#define KT_FEATURE_END(array, i) ((array)[i])
#endif

"""

LARGEST_POWER = 127
"""The exponent of the largest power of two that is a float of 32 bits."""


def feature_function(name: str) -> str:
    """What it is called in the header `name`.h."""
    return f"{''.join(c if c.isalnum() else '_' for c in name)}_feature"


def quantiser(name: str, bits: int, scale: int, scaling: FeatureScaling | QuantisationGrid | None) -> str:
    """The definition: (value - offset) * 2**(scale - exponent) toward zero, beyond `bits` the end of their range.

    It is static and inline, so that a program that never calls it has nothing of it, neither code nor arrays.
    """
    if isinstance(scaling, QuantisationGrid):
        return _on_grid(name, scaling)
    kind, limit = int_type(bits), 1 << (bits - 1)
    lines = ["/* Feature i as the program takes it; beyond the range of its type the end of that. */"]
    lines += [f"static inline {kind} {feature_function(name)}(uint16_t i, float value)", "{"]
    if scaling is None:
        lines += ["    (void)i;", f"    const float scaled = value * {_power(scale)};"]
    else:
        factors = [math.ldexp(1.0, scale - exponent) for exponent in scaling.exponents]
        lines.append(_array("factors", factors))
        moved = "value"
        if any(scaling.offsets):
            lines.append(_array("offsets", scaling.offsets))
            moved = "(value - KT_FEATURE(offsets, i))"
        lines.append(f"    const float scaled = {moved} * KT_FEATURE(factors, i);")
    lines += [
        f"    if (!(scaled < {limit}.0f)) return {limit - 1};",
        f"    if (scaled <= -{limit}.0f) return -{limit - 1} - 1;",
        f"    return ({kind})scaled;",
        "}",
        "",
    ]
    return ("" if scaling is None else FLASH) + "\n".join(lines)


def _power(exponent: int) -> str:
    """2**exponent as factors, of which one after the other is multiplied with: it may be beyond floats of 32 bits."""
    within = min(exponent, LARGEST_POWER)
    powers = [within] if within == exponent else [within, exponent - within]
    return " * ".join(float_literal(math.ldexp(1.0, power)) for power in powers)


def _on_grid(name: str, grid: QuantisationGrid) -> str:
    """The definition: the nearest integer of a grid, as `QuantisationGrid.apply`."""
    up, down = ("rest >= 0.5f", "rest <= -0.5f")
    if grid.even:
        odd = "(whole & 1) != 0"
        up, down = f"rest > 0.5f || (rest == 0.5f && {odd})", f"rest < -0.5f || (rest == -0.5f && {odd})"
    return "\n".join(
        [
            "/* Feature i as the program takes it; beyond the range of its type the end of that. */",
            f"static inline int8_t {feature_function(name)}(uint16_t i, float value)",
            "{",
            "    (void)i;",
            f"    const float scaled = value / {float_literal(grid.step)};",
            "    if (!(scaled < 512.0f)) return INT8_MAX;",
            "    if (scaled <= -512.0f) return INT8_MIN;",
            "    int16_t whole = (int16_t)scaled;",
            "    const float rest = scaled - (float)whole;",
            f"    if ({up}) whole++;",
            f"    else if ({down}) whole--;",
            f"    whole = (int16_t)(whole + ({grid.zero}));",
            "    return whole > INT8_MAX ? INT8_MAX : whole < INT8_MIN ? INT8_MIN : (int8_t)whole;",
            "}",
            "",
        ]
    )


def ranker(name: str, bits: int, features: int, thresholds: Mapping[int, NDArray[np.float32]]) -> str:
    """The definition: how many thresholds of a feature are below the value, less half the range of `bits`. Static and inline as well."""
    kind, low = int_type(bits), -(1 << (bits - 1))
    counts = [len(thresholds.get(feature, ())) for feature in range(features)]
    ends = np.cumsum([0, *counts]).tolist()
    values = [float(value) for feature in sorted(thresholds) for value in thresholds[feature]]
    lines = [
        "/* Feature i as the program takes it. */",
        f"static inline {kind} {feature_function(name)}(uint16_t i, float value)",
        "{",
        f"    static const uint16_t ends[] KT_FEATURE_FLASH = {{{', '.join(map(str, ends))}}};",
        _array("thresholds", values or [0.0]),
        "    const uint16_t first = KT_FEATURE_END(ends, i);",
        "    uint16_t low = first, high = KT_FEATURE_END(ends, i + 1);",
        "    while (low < high) {",
        "        const uint16_t middle = (uint16_t)(low + (high - low) / 2);",
        "        if (KT_FEATURE(thresholds, middle) < value) low = (uint16_t)(middle + 1);",
        "        else high = middle;",
        "    }",
        f"    return ({kind})((int32_t)(low - first) - {-low});",
        "}",
        "",
    ]
    return FLASH + "\n".join(lines)


def ranker_bytes(features: int, thresholds: Mapping[int, NDArray[np.float32]]) -> int:
    """What the arrays of that definition take in flash where it is called."""
    return 2 * (features + 1) + 4 * sum(len(values) for values in thresholds.values())


def _array(name: str, values: list[float] | tuple[float, ...]) -> str:
    numbers = ", ".join(float_literal(value) for value in values)
    return f"    static const float {name}[] KT_FEATURE_FLASH = {{{numbers}}};"
