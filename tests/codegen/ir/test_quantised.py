"""Operators of quantised programs: everybody who takes such programs knows them, and who decides formats refuses them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.floats import emit_float_c
from kilotune.codegen.emit.ranges import intervals
from kilotune.codegen.equalisation import equalised
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.quantised import lower_quantised
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.hazards import find_hazard
from kilotune.codegen.in_place import write_orders
from kilotune.codegen.ir.requantisation import even_multiplier, fixed_multiplier
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.quantisation_grid import QuantisationGrid
from kilotune.codegen.rtl.plan import make_plan
from kilotune.codegen.trained.integer_functions import softmax_powers
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator

HERE = ir.Location("quantised.sd", 1, 1)
X, W, OUT = (
    ir.Variable("X", (12,), ir.Role.INPUT, HERE),
    ir.Variable("W", (12, 2), ir.Role.PARAMETER, HERE),
    ir.Variable("out", (12,), ir.Role.TEMPORARY, HERE),
)
FACTOR = fixed_multiplier(0.37)
COMPLETION = ir.Requantisation((70, -90), (FACTOR, fixed_multiplier(0.004)), 5)
EVEN_FACTORS = even_multiplier(np.float32(0.25)), even_multiplier(np.float32(0.0041))
EVEN_COMPLETION = ir.Requantisation((70, -90), EVEN_FACTORS, 5, most=90)
GIVEN = ir.whole(X)

EXAMPLES: dict[str, ir.Operation] = {
    "sum": ir.QuantisedSum(ir.whole(OUT), HERE, GIVEN, GIVEN, (3, -4), (FACTOR, FACTOR), fixed_multiplier(2.0**-19), 7),
    "difference": ir.QuantisedSum(ir.whole(OUT), HERE, GIVEN, GIVEN, (3, 9), (FACTOR, FACTOR), fixed_multiplier(2.0**-19), 7, True),
    "product": ir.QuantisedProduct(ir.whole(OUT), HERE, GIVEN, ir.Literal(-3.0), (3, -4), FACTOR, 7, -100, 100),
    "even sum": ir.EvenSum(ir.whole(OUT), HERE, GIVEN, GIVEN, (3, -4), (3, -5), 3, 7, -100, 100),
    "wide even sum": ir.EvenSum(ir.whole(OUT), HERE, GIVEN, GIVEN, (3, -4), (3 << 38, -(5 << 36) + 1), 41, 7),
    "even product": ir.QuantisedProduct(ir.whole(OUT), HERE, GIVEN, ir.Literal(-3.0), (3, -4), EVEN_FACTORS[0], 7, -100, 100),
    "lookup": ir.Lookup(ir.whole(OUT), HERE, GIVEN, tuple(n // 2 for n in range(-128, 128))),
    "matrix": ir.MatMul(
        ir.View("out", (1, 2), (2, 1)), HERE, ir.View("X", (1, 12), (12, 1)), ir.whole(W), completion=COMPLETION
    ),
    "even matrix": ir.MatMul(
        ir.View("out", (1, 2), (2, 1)), HERE, ir.View("X", (1, 12), (12, 1)), ir.whole(W), completion=EVEN_COMPLETION
    ),
    "average": ir.Conv2D(
        ir.View("out", (1, 1, 4, 1), (4, 4, 1, 1)), HERE, ir.View("X", (1, 1, 12, 1), (12, 12, 1, 1)),
        ir.View("W", (1, 1, 3, 1, 1), (3, 3, 1, 1, 1)), (1, 3), completion=ir.Averaging(3),
    ),
    "shares": ir.QuantisedSoftmax(
        ir.View("out", (3, 4), (4, 1)), HERE, ir.View("X", (3, 4), (4, 1)), softmax_powers(QuantisationGrid(0.03, 0), 1.0)
    ),
}  # fmt: skip
PARAMETERS = {"W": np.ones((12, 2)) + np.arange(24).reshape(12, 2) % 3}
FEATURES = np.random.default_rng(4).integers(-128, 128, (6, 12)).astype(np.float64)


def program(name: str) -> ir.Program:
    operation = EXAMPLES[name]
    return ir.Program(name, (X, W, OUT), (operation,), operation.out, ir.ResultKind.REAL)


def even(value: Fraction) -> int:
    """To the nearest, halves to the even number (as Python rounds fractions)."""
    return round(value)


def in_float(value: Fraction) -> Fraction:
    """To 24 bits, as a float of 32 bits has it."""
    if value == 0:
        return value
    places = 24 - math.frexp(float(abs(value)))[1]
    unit = Fraction(2) ** -places
    return even(value / unit) * unit


def expected(name: str) -> np.ndarray:
    """Element by element, in Python's integers."""

    def scaled(value: int, factor: ir.Multiplier) -> int:
        if isinstance(factor, ir.EvenMultiplier):
            return even(in_float(Fraction(value) * Fraction(factor.real)))
        up, down = max(factor.shift, 0), max(-factor.shift, 0)
        high = ((value << up) * factor.mantissa + (1 << 30)) >> 31
        magnitude = (abs(high) + ((1 << down) >> 1)) >> down
        return magnitude if high >= 0 else -magnitude

    def one(values: list[int]) -> list[int]:
        match EXAMPLES[name]:
            case ir.QuantisedSum(zeros=(p, q), factors=(f, g), factor=h, zero=zero, minus=minus):
                pairs = [(scaled((v - p) << 20, f), scaled((v - q) << 20, g)) for v in values]
                return [scaled(a - b if minus else a + b, h) + zero for a, b in pairs]
            case ir.QuantisedProduct(zeros=(p, q), factor=f, zero=zero):
                return [min(max(scaled((v - p) * (-3 - q), f) + zero, -100), 100) for v in values]
            case ir.EvenSum(zeros=(p, q), weights=(a, b), shift=shift, least=least, most=most):
                sums = [even(Fraction((v - p) * a + (v - q) * b, 2**shift)) for v in values]
                return [min(max(total + 7, least), most) for total in sums]
            case ir.Lookup(entries=entries):
                return [entries[v + 128] for v in values]
            case ir.QuantisedSoftmax():
                reals = np.exp(0.03 * np.array(values).reshape(3, 4))
                return np.rint(256 * reals / reals.sum(axis=1, keepdims=True) - 128).astype(int).reshape(-1).tolist()
            case ir.MatMul(completion=ir.Requantisation() as made):
                sums = [sum(v * int(w) for v, w in zip(values, column, strict=True)) for column in PARAMETERS["W"].T]
                parts = zip(sums, made.biases, made.factors, strict=True)
                return [min(scaled(total + bias, factor) + 5, made.most) for total, bias, factor in parts]
            case _:
                weights = [int(w) for w in PARAMETERS["W"].reshape(-1)[:3]]
                sums = [sum(values[3 * n + k] * weights[k] for k in range(3)) for n in range(4)]
                return [(abs(s) + 1) // 3 * (1 if s >= 0 else -1) for s in sums]

    rows = [one([int(v) for v in row]) for row in FEATURES]
    return np.clip(np.array(rows), -128, 127)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_definition_is_that_of_the_specification(name: str) -> None:
    found = run_reference(lower_quantised(program(name)), PARAMETERS, FEATURES)[0]
    if name == "shares":  # real ones, which no rounding in between moves far
        assert np.abs(found - expected(name)).max() <= 1
    else:
        np.testing.assert_array_equal(found, expected(name))


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_rounding_it_is_near_that(name: str) -> None:
    floats = run_float(program(name), PARAMETERS, FEATURES).outputs
    assert np.abs(floats - expected(name)).max() <= 1.0


CONSUMERS: dict[str, Callable[[ir.Program, dict[str, FloatArray]], object]] = {
    "in-place orders": lambda p, _: write_orders(loop_steps(p)),
    "hazards": lambda p, _: find_hazard(loop_steps(p)),
    "footprint": lambda p, w: Footprint(p, w).operation_counts(lower_quantised(p)),
    "emitted integers": lambda p, w: emit_c(lower_quantised(p), w),
    "ranges": lambda p, w: intervals(lower_quantised(p), w),
    "cost counts": lambda p, w: CostFeatures(p, w).terms(lower_quantised(p)),
    "simulator": lambda p, w: Simulator(p, w, FEATURES, Backend.AUTO).run(lower_quantised(p, 2)),
}

REFUSING: dict[str, Callable[[ir.Program, dict[str, FloatArray]], object]] = {
    "Shiftry lowering": lambda p, _: ShiftryLowering(p, {}).lower(np.full((1, 3), 8), np.zeros((1, 3))),
    "SeeDot lowering": lambda p, _: SeeDotLowering(p, {v.name: 1.0 for v in p.variables}).lower(
        SeeDotParameters(16, 8), {}
    ),
    "equalisation": lambda p, w: equalised(p, w),
    "hardware": lambda p, w: make_plan(lower_quantised(p), w),
    "emitted floats": lambda p, w: emit_float_c(p, w),
}


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_everybody_who_takes_quantised_programs_knows_every_operator(name: str, consumer: str) -> None:
    CONSUMERS[consumer](program(name), PARAMETERS)


@pytest.mark.parametrize("consumer", REFUSING)
@pytest.mark.parametrize("name", EXAMPLES)
def test_who_needs_other_formats_refuses_them(name: str, consumer: str) -> None:
    with pytest.raises(ValueError, match=r"integers of its own|a quantised program has no floats"):
        REFUSING[consumer](program(name), PARAMETERS)


def test_examples_are_all_there_is() -> None:
    kinds = {type(operation) for operation in EXAMPLES.values()}
    assert set(ir.QuantisedElements.__subclasses__()) <= kinds


@given(st.integers(-(2**30), 2**30), st.floats(2.0**-40, 4.0, width=32))
def test_an_even_multiplier_rounds_as_floats_of_32_bits(value: int, factor: float) -> None:
    made = even_multiplier(np.float32(factor))
    assert 2**23 <= made.mantissa < 2**24
    assert made.real == factor
    assert int(made.integer(np.array([value]))[0]) == even(in_float(in_float(Fraction(value)) * Fraction(factor)))


@pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan, 2.0**24])
def test_factors_that_are_none_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match=r"expected a ratio of scales above 0 and below 2\*\*24"):
        even_multiplier(np.float32(factor))
