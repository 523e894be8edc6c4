"""The kernel of every vector unit that this machine has, and plain 128-bit vectors, against the NumPy definition.

Rows are drawn beyond what the lowerings produce: any shifts, accumulators and roundings that a row can express.
"""

from __future__ import annotations

import dataclasses
import platform
import re
import subprocess
from functools import cache
from pathlib import Path
from shutil import which
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.looped_steps import loop_steps
from kilotune.evaluators.compiled_library import FLAGS, NATIVE, PREPROCESS, X86_64, find_compiler
from kilotune.evaluators.fixed_point import kernel as kernel_sources
from kilotune.evaluators.fixed_point import native
from kilotune.evaluators.fixed_point.kernel import BatchKernel, load_kernel, load_roundings
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.sample_blocks import LANES, MANY_LANES
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches

pytestmark = pytest.mark.slow

COMPILER = (find_compiler() or ("cc",))[0]
"""The one of every search, whose kernel is there already."""
FOLDER = Path(kernel_sources.__file__).parent
X86 = platform.machine() in X86_64
ARM_COMPILER, ARM_MACHINE = "aarch64-linux-gnu-gcc", "qemu-aarch64"
BINARY: tuple[type[ir.Operation], ...] = (ir.Add, ir.Subtract, ir.Multiply)
OPTIONS = ("", "-mno-avx512vnni", "-mno-avx512f", "-mno-avx512f -mno-avxvnni", "-mno-avx2") if X86 else ("",)
"""What takes one vector unit after the other away from the compiler."""

UNOPTIMISED = "-O0"
"""All but the processor's own unit, which is compiled as the product compiles it: a fifth of what gcc takes, and the same units."""

FREE = {
    Column.BITS: st.sampled_from([8, 16]),
    Column.ACC_BITS: st.sampled_from([8, 16, 32]),
    Column.SHIFT_A: st.integers(-3, 18),
    Column.SHIFT_B: st.integers(-3, 18),
    Column.SHIFT_TERM: st.integers(0, 12),
    Column.SHIFT_OUT: st.integers(-5, 20),
}
HERE = ir.Location("operation.sd", 1, 1)
X = ir.Variable("X", (2, 6), ir.Role.INPUT, HERE)
W = ir.Variable("W", (2, 6), ir.Role.PARAMETER, HERE)
SAMPLES = 150
"""More than a block of samples, so that every lane of every vector holds one."""


def row_of(variable: ir.Variable, number: int, rows: int = 1) -> ir.View:
    return ir.View(variable.name, (rows, 6 // rows), (6 // rows, 1), ir.Affine(6 * number))


def column_of(variable: ir.Variable, number: int) -> ir.View:
    return ir.View(variable.name, (6, 1), (1, 1), ir.Affine(6 * number))


def binary(kind: type[ir.Operation], a: ir.View, b: ir.Operand) -> ir.Operation:
    return kind(out=ir.View("t", (1, 6), (6, 1)), location=HERE, a=a, b=b)  # type: ignore[call-arg]


def select(strict: bool, b: ir.Operand) -> ir.Operation:
    condition = ir.View("X", (), (), ir.Affine(11))
    return ir.Select(ir.View("t", (1, 6), (6, 1)), HERE, condition, row_of(X, 0), b, strict)


def product(a: ir.View, b: ir.View) -> ir.Operation:
    return ir.MatMul(ir.View("t", (a.shape[0], b.shape[1]), (b.shape[1], 1)), HERE, a, b)


def pool() -> ir.Operation:
    image = ir.View("X", (1, 3, 4, 1), (12, 4, 1, 1))
    return ir.MaxPool(ir.View("t", (1, 2, 2, 1), (4, 2, 1, 1)), HERE, image, (2, 2), (2, 2), (0, 1, 0, 0))


OPERATIONS = {
    **{f"{kind.__name__} of two inputs": binary(kind, row_of(X, 0), row_of(X, 1)) for kind in BINARY},
    **{f"{kind.__name__} of a parameter": binary(kind, row_of(X, 0), row_of(W, 1)) for kind in BINARY},
    **{f"{kind.__name__} of a number": binary(kind, row_of(X, 0), ir.Literal(0.8)) for kind in BINARY},
    "choice of a positive one": select(True, row_of(X, 1)),
    "choice of one not negative": select(False, row_of(W, 1)),
    "product of two inputs": product(row_of(X, 0, 2), ir.View("X", (3, 2), (2, 1), ir.Affine(6))),
    "product with a parameter": product(row_of(W, 0), column_of(X, 1)),
    "largest of a window": pool(),
    "what is positive": ir.Relu(ir.View("t", (1, 6), (6, 1)), HERE, row_of(X, 0)),
}


def compile_functions(compiler: list[str], program: Path) -> None:
    source = Path(__file__).parent / "vector_functions.c"
    flags = ["-O1", "-fwrapv", "-std=gnu11", f"-I{FOLDER}"]
    subprocess.run([*compiler, *flags, "-o", program, source], check=True, timeout=300)


@cache
def kernel_for(options: str) -> BatchKernel:
    compiler = f"{COMPILER} {options} {UNOPTIMISED}" if options else COMPILER
    with mock.patch.dict("os.environ", {"CC": compiler}):
        kernel = load_kernel.__wrapped__()
        assert kernel is not None
        load_roundings(kernel, tuple(Rounding))
    return kernel


@cache
def kernels() -> tuple[BatchKernel, ...]:
    """One for each unit: options that take away what this processor does not have leave the same source, and are not compiled again."""
    asked = sorted(set(re.findall(r"\b__AVX\w+__", "".join(h.read_text() for h in FOLDER.glob("*.[ch]")))))
    assert {"__AVX2__", "__AVX512BW__"} <= set(asked)
    probe = "\n".join(asked)
    distinct = {}
    for options in OPTIONS:
        command = [COMPILER, *FLAGS, *options.split(), *PREPROCESS]
        met = subprocess.run(command, input=probe, capture_output=True, text=True, check=True).stdout
        distinct.setdefault(met, options)
    return tuple(map(kernel_for, distinct.values()))


def assert_kernels_agree(model: RandomModel, batch: FixedBatch) -> None:
    steps = loop_steps(model.program)
    expected = run_reference(batch, model.parameters, model.features, steps)
    for kernel in kernels():
        for lanes in (LANES, MANY_LANES):
            if lanes > kernel.most_lanes:
                continue
            with mock.patch.object(native, "lanes_of_block", return_value=lanes):
                made = NativeProgram(kernel, model.program, steps, model.parameters, model.features)
            if made.supports(batch):
                np.testing.assert_array_equal(made.run(batch), expected, err_msg=f"{kernel.vector_unit}, {lanes}")


@needs_compiler
def test_options_choose_the_unit() -> None:
    units = [kernel.vector_unit for kernel in kernels()]
    assert units[-1] == ("128-bit vectors" if X86 else units[0])
    assert len(set(units)) == len(units) >= (2 if X86 else 1)


@needs_compiler
@pytest.mark.parametrize("options", OPTIONS)
def test_the_functions_of_a_unit_mean_what_they_say(options: str, tmp_path: Path) -> None:
    program = tmp_path / "functions"
    compile_functions([COMPILER, *NATIVE, *options.split()], program)
    subprocess.run([program], check=True, timeout=60)


@pytest.mark.skipif(not (which(ARM_COMPILER) and which(ARM_MACHINE)), reason=f"needs {ARM_COMPILER} and {ARM_MACHINE}")
def test_those_of_neon_do_on_an_emulated_processor(tmp_path: Path) -> None:
    program = tmp_path / "functions"
    compile_functions([ARM_COMPILER, "-static"], program)
    ran = subprocess.run([ARM_MACHINE, program], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "NEON\n")


@pytest.mark.skipif(not (which(ARM_COMPILER)), reason=f"needs {ARM_COMPILER}")
@pytest.mark.parametrize("source", ["kernel.c", "wide_kernel.c"])
def test_the_kernels_compile_for_it(source: str, tmp_path: Path) -> None:
    flags = [flag for flag in FLAGS if flag not in NATIVE]
    subprocess.run(
        [ARM_COMPILER, *flags, "-O0", "-Werror", "-o", tmp_path / "built.so", FOLDER / source], check=True, timeout=300
    )


@needs_compiler
@pytest.mark.parametrize("name", OPERATIONS)
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=list(HealthCheck), database=None, deadline=None)
def test_any_row_of_an_operation_means_the_same_in_every_unit(name: str, data: st.DataObject) -> None:
    operation = OPERATIONS[name]
    temporary = ir.Variable("t", (operation.out.size,), ir.Role.TEMPORARY, HERE)
    program = ir.Program("operation", (X, W, temporary), (operation,), operation.out, ir.ResultKind.REAL)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    values = random.choice([-1.0, -0.5, 0.0, 0.999], (SAMPLES, 12)) * random.choice([1.0, 0.3, 0.01], (SAMPLES, 12))
    model = RandomModel(program, {"W": random.uniform(-1, 1, (2, 6))}, values)
    batch = data.draw(shiftry_batches(program, 1))
    scales = np.where(batch.bits == 16, 15, 7).astype(np.int32)  # values reach from one end of their width to the other
    rows = batch.rows.copy()
    free = {
        c: FREE[c] for c in sorted(FREE) if c is not Column.SHIFT_A or not isinstance(operation, ir.MaxPool | ir.Relu)
    }
    for column, values_of in free.items():
        rows[0, 0, column] = data.draw(st.sampled_from([0, 0, *range(9)]) if "SHIFT" in column.name else values_of)
    if data.draw(st.booleans()):
        column = data.draw(st.sampled_from(sorted(free)))
        rows[0, 0, column] = data.draw(free[column])
    assert_kernels_agree(model, dataclasses.replace(batch, rows=rows, scales=scales))


@needs_compiler
@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("sum_bits", [8, 16, 32])
def test_results_wrap_in_their_widths_and_those_of_their_sums(
    kind: type[ir.Operation], bits: int, sum_bits: int
) -> None:
    operation = binary(kind, row_of(X, 0), row_of(X, 1))
    temporary = ir.Variable("t", (6,), ir.Role.TEMPORARY, HERE)
    program = ir.Program("operation", (X, temporary), (operation,), operation.out, ir.ResultKind.REAL)
    model = RandomModel(program, {}, np.random.default_rng(0).uniform(-1, 1, (SAMPLES, 12)))
    batch = ShiftryLowering(program, {}).lower([[16, bits]], [[15, bits - 1]])
    for shift in (0, 2):
        rows = batch.rows.copy()
        columns = [Column.BITS, Column.ACC_BITS, Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_OUT]
        rows[0, 0, columns] = bits, sum_bits, 0, 0, shift
        assert_kernels_agree(model, dataclasses.replace(batch, rows=rows))


@needs_compiler
@pytest.mark.parametrize("shift", range(1, 17))
def test_products_with_numbers_of_about_a_power_of_two_are_shifted(shift: int) -> None:
    sizes = sorted({min(max((1 << shift) + d, 1), 32767) for d in (-(1 << shift - 1), -1, 0, 1, 1 << shift)})
    weights = np.array([sizes + [-size for size in sizes] + [0, -32768]]) / 2.0**15
    count = weights.size
    given = [ir.Variable(*one, HERE) for one in (("X", (1, 1), ir.Role.INPUT), ("W", (1, count), ir.Role.PARAMETER))]
    temporary = ir.Variable("t", (count,), ir.Role.TEMPORARY, HERE)
    out = ir.View("t", (1, count), (count, 1))
    multiply = ir.Multiply(out, HERE, ir.View("X", (1, count), (0, 0)), ir.View("W", (1, count), (count, 1)))
    program = ir.Program("product", (*given, temporary), (multiply,), out, ir.ResultKind.REAL)
    features = np.array([*(n for k in range(16) for n in (2**k - 1, -(2**k), 2**k)), 32767, -32768, -32767])
    model = RandomModel(program, {"W": weights}, features[:, None] / 2.0**15)
    for bits in (8, 16):
        batch = ShiftryLowering(program, {}).lower([[16, 16, bits]], [[15, 15, bits - 1]])
        rows = batch.rows.copy()
        rows[0, 0, [Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_OUT, Column.ACC_BITS]] = 0, 0, shift, 32
        assert_kernels_agree(model, dataclasses.replace(batch, rows=rows))


@needs_compiler
@pytest.mark.parametrize("kind", [ir.Exp, ir.Sigmoid, ir.Tanh])
def test_a_table_gives_every_argument_of_8_bits_its_own_entry(kind: type[ir.TableFunction]) -> None:
    argument = ir.Variable("X", (1, 1), ir.Role.INPUT, HERE)
    temporary = ir.Variable("t", (1,), ir.Role.TEMPORARY, HERE)
    views = (ir.View("t", (1, 1), (1, 1)), ir.View("X", (1, 1), (1, 1)))
    program = ir.Program(
        "table", (argument, temporary), (kind(views[0], HERE, views[1]),), views[0], ir.ResultKind.REAL
    )
    model = RandomModel(program, {}, np.arange(-128.0, 128.0)[:, None] / 32)
    batch = ShiftryLowering(program, {0: 4.0}).lower([[8, 8], [8, 16], [16, 8]], [[5, 6], [5, 14], [12, 5]])
    outputs = run_reference(batch, {}, model.features, loop_steps(program))
    assert len(np.unique(outputs[1])) > 20
    assert kind is not ir.Tanh or outputs[0].min() < 0 < outputs[0].max()
    assert_kernels_agree(model, batch)


@needs_compiler
@given(data=st.data(), model=random_models())
@settings(max_examples=40, suppress_health_check=list(HealthCheck), database=None, deadline=None)
def test_programs_mean_the_same_in_every_unit(data: st.DataObject, model: RandomModel) -> None:
    assert_kernels_agree(model, data.draw(shiftry_batches(model.program, 2)))
    assert_kernels_agree(model, data.draw(seedot_batches(model.program)))
