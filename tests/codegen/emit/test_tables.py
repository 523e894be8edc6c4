"""Tables of exponentials as they are stored: without the end that is one number, and the same function."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.operators import CExpression, Operators
from kilotune.codegen.emit.tables import Functions
from kilotune.codegen.fixed.arithmetic import Rounding, quantise
from kilotune.codegen.fixed.exponential import Exponential, by_library, seedot_exponential, shiftry_exponential
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler

COARSE = Exponential(8, 4, 6, 1, -30, 45, (1, 2, 5, 9, 9, 9, 3), 3)


@pytest.mark.parametrize(
    ("table", "last"),
    [
        (shiftry_exponential(8), 67),
        (shiftry_exponential(16), 156 << 7),
        (dataclasses.replace(COARSE, coarse=(1, 2, 5, 9, 9, 9)), 24),
        (dataclasses.replace(COARSE, coarse=(4,) * 6), 0),
        (dataclasses.replace(COARSE, coarse=(1, 2, 5, 9, 9, 7)), 40),
        (COARSE, 24),
        (seedot_exponential(8, 3, 5, -2.0, 2.0, 6), 128),
    ],
)
def test_what_is_left_out_is_one_number(table: Exponential, last: int) -> None:
    assert table.last_told_apart == last
    other = dataclasses.replace(table, limit=last)
    arguments, rounding = np.arange(-(1 << 15), 1 << 15), Rounding.TOWARD_ZERO
    np.testing.assert_array_equal(table(arguments, rounding), other(arguments, rounding))
    if last and not table.fine:
        less = dataclasses.replace(table, limit=last - 1)
        assert (table(arguments, rounding) != less(arguments, rounding)).any()


def test_the_array_ends_with_the_first_of_them() -> None:
    here = ir.Location("table.sd", 1, 1)
    x, y = ir.Variable("x", (1,), ir.Role.INPUT, here), ir.Variable("y", (1,), ir.Role.TEMPORARY, here)
    functions = Functions(Operators(Rounding.TOWARD_ZERO))
    functions.apply(ir.Exp(ir.whole(y), here, ir.whole(x)), shiftry_exponential(8), CExpression("v", 8), 0)
    (array,) = functions.arrays
    assert "kt_table0[68]" in array.definition
    assert array.definition.split("=")[1].strip().endswith("1, 0\n};")
    assert array.size_bytes == 68
    assert "if (t > 67) t = 67;" in functions.definitions[0]
    functions.apply(ir.Exp(ir.whole(y), here, ir.whole(x)), shiftry_exponential(8), CExpression("v", 16), 0)
    assert "if (v < (-67)) v = (-67);" in functions.definitions[1]


@needs_compiler
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_the_library_in_a_tables_place(bits: int, tmp_path: Path) -> None:
    """Emitted e**x of math.h: between the ends of the table within a unit and the precision of a float of e**x itself, beyond them as
    at the end; and what the reference simulator computes with."""
    here = ir.Location("table.sd", 1, 1)
    x, y = ir.Variable("x", (1,), ir.Role.INPUT, here), ir.Variable("y", (1,), ir.Role.TEMPORARY, here)
    program = ir.Program("e", (x, y), (ir.Exp(ir.whole(y), here, ir.whole(x)),), ir.whole(y), ir.ResultKind.REAL)
    tables = SeeDotLowering(program, {"x": 8.0, "y": 1.0}).lower(SeeDotParameters(bits, bits - 2), {0: (-6.0, 0.0)})
    batch = dataclasses.replace(tables, functions=tuple(by_library(table) for table in tables.functions))
    arguments = np.random.default_rng(3).uniform(-8.0, 0.0, (200, 1))
    source = emit_c(batch, {})
    assert source.flash_bytes < emit_c(tables, {}).flash_bytes
    found = compile_sources([source], tmp_path).run(0, arguments)[:, 0]
    face = source.interface
    given = np.ldexp(quantise(arguments, face.input_bits, face.input_scale)[:, 0].astype(float), -face.input_scale)
    (table,) = tables.functions
    ends = np.ldexp(
        np.array([table.reference, table.reference + table.sign * table.last_told_apart]), -table.input_scale
    )
    exact = np.ldexp(np.exp(np.clip(given, ends.min(), ends.max())), face.result_scale)
    near = np.ldexp(1.0, max(face.result_scale - 22, 0)) + 1.0
    assert np.abs(found - exact).max() <= near
    assert np.abs(found - run_reference(batch, {}, arguments)[0, :, 0]).max() <= near


def logistic_program(operations: tuple[type[ir.TableFunction], ...], count: int) -> ir.Program:
    here = ir.Location("table.sd", 1, 1)
    x = ir.Variable("x", (count,), ir.Role.INPUT, here)
    parts = [ir.Variable(f"y{number}", (count,), ir.Role.TEMPORARY, here) for number in range(len(operations))]
    body: list[ir.Operation] = [
        kind(ir.whole(part), here, ir.whole(x)) for kind, part in zip(operations, parts, strict=True)
    ]
    if len(parts) == 2:
        parts.append(ir.Variable("sum", (count,), ir.Role.TEMPORARY, here))
        body.append(ir.Add(ir.whole(parts[2]), here, ir.whole(parts[0]), ir.whole(parts[1])))
    return ir.Program("logistic", (x, *parts), tuple(body), ir.whole(parts[-1]), ir.ResultKind.REAL)


@needs_compiler
@pytest.mark.parametrize("operations", [(ir.Sigmoid,), (ir.Tanh,), (ir.Sigmoid, ir.Tanh), (ir.Sigmoid, ir.Exp)])
@pytest.mark.parametrize("scale", [0, 3, 4, 6])
def test_logistic_functions_by_their_own_integers_are_those_by_exponentials(
    operations: tuple[type[ir.TableFunction], ...], scale: int, tmp_path: Path
) -> None:
    """Of all integers, in programs whose tables are for sigmoid and tanh alone: in as many bytes, without a division."""
    arguments = np.arange(-128, 128)
    program = logistic_program(operations, len(arguments))
    variables = len(program.variables)
    batch = ShiftryLowering(program, {}).lower([[8] * variables], [[scale] + [6] * (variables - 1)])
    source = emit_c(batch, {})
    if ir.Exp not in operations:
        assert "kt_fraction" not in source.source
        arrays = re.findall(r"kt_table\d+\[(\d+)\] KT_FLASH", source.source)
        assert arrays == ["68"], "as many as e**-t has, for both functions"
    sanitised = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")  # which gcc's warnings differ with, too
    found = compile_sources([source], tmp_path, sanitised).run_integers(0, arguments[None])
    expected = run_reference(batch, {}, np.ldexp(arguments[None].astype(float), -scale))
    np.testing.assert_array_equal(found[0], np.asarray(expected).reshape(-1))
